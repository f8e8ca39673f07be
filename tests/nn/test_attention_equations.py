"""Each attention layer against its equation, written out in float64, and against PyTorch's own module."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from lengthwise import nn
from lengthwise.nn.attention.kernel import allowed_keys

B, N, D = 3, 5, 24
HEADS = (1, 2, 4)


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def softmax(rows: list[list[float]]) -> list[list[float]]:
    """Row by row, in plain Python."""
    exponentials = [[math.exp(a - max(row)) for a in row] for row in rows]
    return [[e / sum(row) for e in row] for row in exponentials]


def weighted_sum(scores: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Softmax[scores] values, y_n = Σ_m a_nm x_m (eqs 2, 5)."""
    weights = softmax(scores.tolist())
    return torch.stack([sum(a * v for a, v in zip(row, values, strict=True)) for row in weights])


def column(weight: torch.Tensor, head: int, heads: int) -> torch.Tensor:
    """W_h (D, K): the columns of head h, for X W."""
    return weight.detach().T.chunk(heads, dim=1)[head]


def layer(cls, heads: int, **options) -> nn.MultiHeadAttention:
    torch.manual_seed(0)
    return cls(D, heads, **options).double()


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("cls", [nn.ScaledAttention, nn.UnscaledAttention])
def test_dot_product_attention(cls, heads: int) -> None:
    """Y = Concat[Softmax[Q_h K_hᵀ/√D_k] V_h] W^(o) (eqs 10-19, algorithms 1-2)."""
    attention, x = layer(cls, heads), randn(B, N, D)
    expected = []
    for sample in x:
        outputs = []
        for h in range(heads):
            q, k, v = (
                sample @ column(getattr(attention, m).weight, h, heads) for m in ("query", "key", "value")
            )
            scale = math.sqrt(D // heads) if cls is nn.ScaledAttention else 1
            outputs.append(weighted_sum(q @ k.T / scale, v))
        expected.append(torch.cat(outputs, dim=1) @ attention.output.weight.T)
    assert torch.allclose(attention(x), torch.stack(expected), atol=1e-12)


@pytest.mark.parametrize("heads", HEADS)
def test_parameter_free_attention(heads: int) -> None:
    """Y = Softmax[X Xᵀ] X (eqs 5-6)."""
    attention, x = layer(nn.ParameterFreeAttention, heads), randn(B, N, D) / 3
    assert not list(attention.parameters())
    for sample, y in zip(x, attention(x), strict=True):
        slices = sample.chunk(heads, dim=1)
        assert torch.allclose(y, torch.cat([weighted_sum(s @ s.T, s) for s in slices], dim=1), atol=1e-12)


def test_what_a_variant_does_not_have_is_refused() -> None:
    """An option that changes nothing would still make another run of it."""
    for cls in (nn.ParameterFreeAttention, nn.MergedAttention):
        with pytest.raises(ValueError, match="output projection"):
            cls(D, 2, output_projection=False)
    nn.SharedAttention(D, 2, output_projection=False)


@pytest.mark.parametrize("heads", HEADS)
def test_shared_attention(heads: int) -> None:
    """Y = Softmax[XU UᵀXᵀ] XU (eqs 7-9), with symmetric scores; separate maps have none."""
    attention, x = layer(nn.SharedAttention, heads, output_projection=False), randn(B, N, D) / 2
    for sample, y in zip(x, attention(x), strict=True):
        xu = [sample @ column(attention.shared.weight, h, heads) for h in range(heads)]
        assert torch.allclose(y, torch.cat([weighted_sum(s @ s.T, s) for s in xu], dim=1), atol=1e-12)

    def asymmetry(attention) -> float:
        q, k, _ = attention.project(x, x)
        scores = q @ k.transpose(-2, -1)
        return ((scores - scores.transpose(-2, -1)).norm() / scores.norm()).item()

    assert asymmetry(attention) < 1e-14
    assert asymmetry(layer(nn.ScaledAttention, heads)) > 0.1


def test_hard_attention_takes_the_best_value_and_trains_as_softmax() -> None:
    attention, x = layer(nn.HardAttention, 2), randn(B, N, D)
    soft = layer(nn.ScaledAttention, 2)
    soft.load_state_dict(attention.state_dict())
    q, k, v = attention.project(x, x)
    best = (q @ k.transpose(-2, -1)).argmax(-1)
    expected = (
        v.gather(2, best[..., None].expand_as(v)).transpose(1, 2).flatten(2) @ attention.output.weight.T
    )
    for training in (False, True):
        assert torch.allclose(attention.train(training)(x), expected, atol=1e-12)

    attention.eval()(x).sum().backward()
    assert attention.query.weight.grad is None  # argmax has no gradient
    attention.train()
    cotangent = randn(B, N, 2 * 12, seed=1)
    (attention.normalise(q @ k.transpose(-2, -1)) @ v).transpose(1, 2).flatten(2).backward(cotangent)
    straight_through = attention.query.weight.grad.clone()
    q, k, _ = soft.project(x, x)
    ((q @ k.transpose(-2, -1)).softmax(-1) @ v.detach()).transpose(1, 2).flatten(2).backward(cotangent)
    assert torch.allclose(straight_through, soft.query.weight.grad, atol=1e-12)


def test_fixed_attention_does_not_read_the_data() -> None:
    attention = layer(nn.FixedAttention, 2, max_length=8)
    maps: list[torch.Tensor] = []
    for seed in (0, 1):
        x = randn(B, N, D, seed=seed)
        y = attention(x, maps=maps)
        values = x @ attention.value.weight.T
        for sample, out in zip(values, y, strict=True):
            heads = [
                weighted_sum(attention.table[h, :N, :N], s) for h, s in enumerate(sample.chunk(2, dim=1))
            ]
            assert torch.allclose(out, torch.cat(heads, dim=1) @ attention.output.weight.T, atol=1e-12)
    assert torch.equal(maps[0], maps[1])
    with pytest.raises(nn.LengthError, match="8 positions, position 8"):
        attention(randn(B, 9, D))


def test_a_layer_takes_any_number_of_tokens() -> None:
    attention = layer(nn.ScaledAttention, 4)
    for n in (1, 2, 17):
        assert attention(randn(B, n, D)).shape == (B, n, D)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_equal_to_pytorch(heads: int, causal: bool, padded: bool, bias: bool) -> None:
    """nn.MultiheadAttention with copied weights: outputs, weights, gradients."""
    ours = layer(nn.ScaledAttention, heads, bias=bias)
    theirs = torch.nn.MultiheadAttention(D, heads, bias=bias, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
            theirs.out_proj.bias.copy_(ours.output.bias)
    mask = torch.arange(N) < torch.tensor([N, 3, 4])[:, None] if padded else None
    context = nn.Context(N, N, causal, key_mask=mask, allowed=allowed_keys(N, N, causal, mask))
    x, y = randn(B, N, D).requires_grad_(), randn(B, N, D).requires_grad_()
    maps: list[torch.Tensor] = []
    out = ours(x, context, maps=maps)
    reference, weights = theirs(
        y,
        y,
        y,
        key_padding_mask=None if mask is None else ~mask,  # there, True hides
        attn_mask=torch.ones(N, N, dtype=torch.bool).triu(1) if causal else None,
        average_attn_weights=False,
    )
    assert torch.allclose(out, reference, atol=1e-12)
    assert torch.allclose(maps[0], weights, atol=1e-12)
    cotangent = randn(B, N, D, seed=2)
    out.backward(cotangent)
    reference.backward(cotangent)
    assert torch.allclose(x.grad, y.grad, atol=1e-12)
    stacked = torch.cat([ours.query.weight.grad, ours.key.weight.grad, ours.value.weight.grad])
    assert torch.allclose(stacked, theirs.in_proj_weight.grad, atol=1e-12)


def test_equal_to_pytorch_notices_mixed_heads() -> None:
    """Negative control: a reshape that mixes positions and heads is seen for more than one head."""
    x = randn(B, N, D)
    for heads, equal in ((1, True), (4, False)):
        q = layer(nn.ScaledAttention, heads).project(x, x)[0]
        wrong = (x @ layer(nn.ScaledAttention, heads).query.weight.T).reshape(B, heads, N, D // heads)
        assert torch.equal(q, wrong) == equal


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("bias", [False, True])
def test_merged_equals_concatenated(heads: int, bias: bool) -> None:
    """A sum over heads with W_h = W_h^(v) W_h^(o) is concatenation and W^(o) (text after algorithm 2)."""
    concatenated, merged = (
        layer(nn.ScaledAttention, heads, bias=bias),
        layer(nn.MergedAttention, heads, bias=bias),
    )
    with torch.no_grad():
        merged.query.load_state_dict(concatenated.query.state_dict())
        merged.key.load_state_dict(concatenated.key.state_dict())
        output = concatenated.output.weight.T.chunk(heads, dim=0)
        for h in range(heads):
            merged.merged[h] = column(concatenated.value.weight, h, heads) @ output[h]
        if bias:  # rows of weights sum to 1: a value's bias passes through
            merged.bias.copy_(concatenated.output(concatenated.value.bias))
    x = randn(B, N, D).requires_grad_()
    one, other = concatenated(x), merged(x)
    assert torch.allclose(one, other, atol=1e-12)
    gradients = [torch.autograd.grad((y * randn(B, N, D, seed=3)).sum(), x)[0] for y in (one, other)]
    assert torch.allclose(gradients[0], gradients[1], atol=1e-12)


def test_gauge_freedom() -> None:
    """(W^(v) G, G⁻¹ W^(o)) leaves Y unchanged for any invertible G; W^(v) G alone does not."""
    attention, x, gauge = layer(nn.ScaledAttention, 2), randn(B, N, D), randn(12, 12, seed=4)
    before = attention(x)
    with torch.no_grad():
        attention.value.weight[:12] = (column(attention.value.weight, 0, 2) @ gauge).T
        assert (attention(x) - before).abs().max() > 0.1
        attention.output.weight[:, :12] = (torch.linalg.inv(gauge) @ attention.output.weight.T[:12]).T
    assert torch.allclose(attention(x), before, atol=1e-10)


def test_weights_are_a_partition_of_unity() -> None:
    """Non-negative, each row sums to 1 (eqs 3-4), masked or not."""
    mask = torch.arange(N) < torch.tensor([N, 3, 0])[:, None]
    mask = mask | ~mask.any(1, keepdim=True)
    for cls in (
        nn.ScaledAttention,
        nn.HardAttention,
        nn.SharedAttention,
        nn.MergedAttention,
        nn.FixedAttention,
    ):
        for causal in (False, True):
            maps: list[torch.Tensor] = []
            context = nn.Context(N, N, causal, key_mask=mask, allowed=allowed_keys(N, N, causal, mask))
            layer(cls, 2)(randn(B, N, D), context, maps=maps)
            assert maps[0].min() >= 0
            assert (maps[0].sum(-1) - 1).abs().max() < 1e-14
            assert (maps[0][1, :, :, 3:] == 0).all()


def test_output_stays_in_the_span_of_the_values() -> None:
    """No residual on the values; none on the inputs only without a value map. The MLP leaves the span."""

    def residual(y: torch.Tensor, basis: torch.Tensor) -> float:
        solution = torch.linalg.lstsq(basis.T, y.T).solution
        return ((basis.T @ solution - y.T).norm() / y.norm()).item()

    x = randn(1, N, D)
    attention = layer(nn.ScaledAttention, 1)
    y = attention(x)[0]
    assert residual(y, attention.output(attention.value(x))[0]) < 1e-12
    assert residual(y, x[0]) > 0.1
    free = layer(nn.ParameterFreeAttention, 1)(x)[0]
    assert residual(free, x[0]) < 1e-12
    assert residual(nn.ReLU(D, D).double()(free), x[0]) > 0.1
    assert residual(F.layer_norm(free, (D,)), x[0]) > 1e-3


def test_widths_are_free() -> None:
    """D_k = D a head (algorithm 2), D_v ≠ D/H, no W^(o) (algorithm 1); D = 15 with H = 3 runs."""
    x = randn(B, N, D)
    assert nn.ScaledAttention(D, 2, key_dim=D, value_dim=7).double()(x).shape == x.shape
    assert nn.ScaledAttention(D, 5, key_dim=3, value_dim=2).double()(x).shape == x.shape
    assert nn.ScaledAttention(D, 1, key_dim=5, output_projection=False).double()(x).shape == x.shape
    assert nn.ScaledAttention(15, 3).double()(randn(B, N, 15)).shape == (B, N, 15)
    model = nn.Encoder(7, width=15, layers=1, heads=3, position=nn.Sinusoidal)
    assert model.stack.layers[0].attention.query.out_features == 15


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (nn.ScaledAttention, {"heads": 0}, "heads must be at least 1, got 0"),
        (nn.ScaledAttention, {"heads": 5}, "width 24 is not divisible by 5 heads"),
        (nn.ScaledAttention, {"heads": 2, "key_dim": 0}, "key_dim must be at least 1, got 0"),
        (
            nn.ScaledAttention,
            {"heads": 2, "value_dim": 5, "output_projection": False},
            "give 10, the width is 24",
        ),
        (nn.SharedAttention, {"heads": 2, "key_dim": 4, "value_dim": 5}, "value_dim=5 must equal key_dim=4"),
        (nn.ParameterFreeAttention, {"heads": 2, "bias": True}, "has no projections"),
        (nn.MergedAttention, {"heads": 2, "output_projection": False}, "leave out"),
        (nn.FixedAttention, {"heads": 2, "key_dim": 4}, "has no keys"),
        (nn.FixedAttention, {"heads": 2, "max_length": 0}, "max_length must be at least 1, got 0"),
    ],
)
def test_impossible_sizes_are_named(cls, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        cls(D, **options)


class Shaw(nn.PositionEncoding):
    """An encoding from outside that acts on the logits: q·a_{m-n} (Shaw et al. 2018)."""

    def __init__(self, sizes: nn.Sizes) -> None:
        super().__init__(sizes)
        self.table = torch.nn.Embedding(17, sizes.query_width)

    def score(self, logits, q, k, context):
        vectors = self.table(context.offsets().clamp(-8, 8) + 8)
        return logits + torch.einsum("bhnk,bnmk->bhnm", q, vectors.expand(q.shape[0], -1, -1, -1))


def test_an_encoding_may_act_on_the_logits() -> None:
    sizes = nn.Sizes(D, 2, 12)
    attention = nn.ScaledAttention(D, 2, position=Shaw(sizes)).double()
    plain = nn.ScaledAttention(D, 2).double()
    plain.load_state_dict(attention.state_dict(), strict=False)
    x = randn(B, N, D)
    assert (attention(x) - plain(x)).abs().max() > 1e-3
    torch.nn.init.zeros_(attention.position.table.weight)
    assert torch.allclose(attention(x), plain(x), atol=1e-12)
    model = nn.Encoder(7, width=D, layers=2, heads=2, position=Shaw)
    assert "stack.layers.1.attention.position.table.weight" in dict(model.named_parameters())
