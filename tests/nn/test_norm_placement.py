"""A layer against eqs 20-23, and how many norms a stack has."""

from __future__ import annotations

import pytest
import torch

from lengthwise import nn
from lengthwise.batch import Batch

D, N = 12, 5


def model(placement, **options) -> nn.Encoder:
    return nn.Encoder(7, width=D, layers=2, heads=2, norm=placement, **options).double()


def batch() -> Batch:
    tokens = torch.arange(2 * N).reshape(2, N) % 7
    return Batch(tokens, torch.ones_like(tokens, dtype=torch.bool), tokens, torch.tensor([N, N]))


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()


EQUATIONS = {
    "pre": (nn.PreNorm, lambda x, f, norm: f(norm(x)) + x),
    "post": (nn.PostNorm, lambda x, f, norm: norm(f(x) + x)),
    "sandwich": (nn.SandwichNorm, lambda x, f, norm: norm(f(norm(x))) + x),
    "none": (nn.NoNorm, lambda x, f, norm: f(x) + x),
}


@pytest.mark.parametrize("name", EQUATIONS)
@pytest.mark.parametrize(("norm_layer", "norm"), [(nn.LayerNorm, layer_norm), (nn.RMSNorm, rms_norm)])
def test_a_stack_is_its_equations(name: str, norm_layer, norm) -> None:
    placement, equation = EQUATIONS[name]
    stack = model(placement, norm_layer=norm_layer).stack
    x = stack.embedding(batch().tokens)
    for layer in stack.layers:
        z = equation(x, layer.attention, norm)
        x = equation(z, layer.mlp, norm)
    expected = norm(x) if name in ("pre", "sandwich") else x
    assert torch.allclose(stack(batch()).x, expected, atol=1e-12)


@pytest.mark.parametrize(("name", "count"), [("pre", 5), ("post", 4), ("sandwich", 9), ("none", 0)])
def test_pre_norm_ends_with_one_norm_and_post_norm_does_not(name: str, count: int) -> None:
    norms = [m for m in model(EQUATIONS[name][0]).modules() if isinstance(m, torch.nn.LayerNorm)]
    assert len(norms) == count


def test_silent_sublayers_leave_the_residual_stream() -> None:
    """Pre-norm is then the identity, post-norm a repeated norm; the residual is taken before the norm."""
    for placement, expected in (
        (nn.PreNorm, lambda x: x),
        (nn.PostNorm, lambda x: layer_norm(layer_norm(x))),
    ):
        silent = model(placement)
        with torch.no_grad():
            for name, parameter in silent.named_parameters():
                if ".output." in name:
                    parameter.zero_()
        hidden = silent.inspect(batch()).hidden
        assert torch.allclose(hidden[1], expected(hidden[0]), atol=1e-12)


def test_residual_connections_can_be_switched_off() -> None:
    plain = model(nn.PreNorm, residual=False).stack
    x = plain.embedding(batch().tokens)
    for layer in plain.layers:
        x = layer.mlp(layer_norm(layer.attention(layer_norm(x))))
    assert torch.allclose(plain(batch()).x, layer_norm(x), atol=1e-12)
    assert not torch.allclose(plain(batch()).x, model(nn.PreNorm).stack(batch()).x, atol=1e-3)


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        (nn.ReLU, lambda m, x: m.output(m.hidden(x).clamp(min=0))),
        (nn.GELU, lambda m, x: m.output(m.hidden(x) * 0.5 * (1 + torch.erf(m.hidden(x) / 2**0.5)))),
        (nn.SwiGLU, lambda m, x: m.output(m.gate(x) * m.gate(x).sigmoid() * m.hidden(x))),
    ],
)
def test_the_mlp_acts_on_each_position_alone(activation, formula) -> None:
    mlp = activation(D, 4 * D).double()
    x = torch.randn(2, N, D, dtype=torch.float64)
    assert torch.allclose(mlp(x), formula(mlp, x), atol=1e-12)
    assert torch.allclose(mlp(x)[:, 3], mlp(x[:, 3]), atol=1e-12)
    size = sum(p.numel() for p in mlp.parameters() if p.ndim == 2)
    assert size == pytest.approx(8 * D * D, rel=0.02)


def test_the_mlp_needs_a_hidden_width() -> None:
    with pytest.raises(ValueError, match="hidden width must be at least 1, got 0: use a larger mlp_ratio"):
        nn.Encoder(7, width=D, layers=1, heads=1, mlp_ratio=0.01)
