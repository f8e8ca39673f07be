"""The ten properties for every legal combination of encoding, norm placement, attention, heads and direction.

float64, one layer, tiny sizes. The properties are the library's (`lengthwise.evaluation.properties`), with which
``lengthwise check`` judges a component from outside too; each is broken once on purpose at the end, and must then be
seen to fail.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from itertools import product

import pytest
import torch

from lengthwise import nn
from lengthwise.evaluation import properties
from lengthwise.evaluation.low_precision import low_precision
from lengthwise.evaluation.properties import (
    PROPERTIES,
    batch_independence,
    causality,
    equivariance,
    fill_tables,
    history_independence,
    not_too_strict,
    pad_invariance,
    path_agreement,
    reversal,
    shift,
)
from lengthwise.nn import stack
from lengthwise.nn.attention import kernel
from lengthwise.nn.init import keyed_rng
from lengthwise.nn.layer import Layer
from lengthwise.paths import conf_dir

V = 11

ENCODINGS = {
    "none": nn.NoPosition,
    "sinusoidal": nn.Sinusoidal,
    "learned": partial(nn.Learned, max_length=64),
    "abacus": partial(nn.Abacus, max_length=64),
    "integer": nn.Integer,
    "unit_interval": nn.UnitInterval,
    "binary": partial(nn.Binary, range=64),
    "rotary": nn.Rotary,
    "alibi": nn.ALiBi,
    "t5": nn.T5Bias,
    "xpos": partial(nn.XPos, scale_base=8.0),
    "kerple": nn.Kerple,
    "kerple_power": partial(nn.Kerple, kernel="power"),
    "fire": partial(nn.FIRE, threshold=2.0),
    "sandwich": partial(nn.Sandwich, dim=16),
    "shaw": partial(nn.Shaw, max_distance=3),
    "transformer_xl": nn.TransformerXL,
    "cope": partial(nn.CoPE, max_position=4),
    "forgetting": partial(nn.Forgetting, gate_bias=1.0),
    "stack": partial(nn.PositionStack, parts={"a": nn.Sinusoidal, "b": nn.T5Bias}),
}
ATTENTIONS = {
    "scaled": nn.ScaledAttention,
    "unscaled": nn.UnscaledAttention,
    "shared": nn.SharedAttention,
    "parameter_free": nn.ParameterFreeAttention,
    "hard": nn.HardAttention,
    "merged": nn.MergedAttention,
    "fixed": partial(nn.FixedAttention, max_length=64),
}
PLACEMENTS = {"pre": nn.PreNorm, "post": nn.PostNorm, "sandwich": nn.SandwichNorm, "none": nn.NoNorm}
COMBINATIONS = [*product(PLACEMENTS, (1, 4, 6), (False, True)), *product(["pre"], [12], (False, True))]
"""Norm placement, heads, causal."""
SYMMETRIES = {"equivariance": equivariance, "reversal": reversal, "shift": shift}


def refused(encoding: str, attention: str, causal: bool) -> str | None:
    """Why this combination is refused when the model is built, or None."""
    if encoding == "unit_interval" and causal:
        return "n/N tells a causal model how long the whole sequence is"
    if encoding in ("xpos", "cope", "forgetting") and not causal:
        return "keys ahead have no place in it"
    if encoding in ("rotary", "xpos", "shaw", "transformer_xl", "cope") and attention == "fixed":
        return "fixed weights have no queries and keys to act on"
    if encoding == "shaw" and attention == "merged":
        return "merged attention has no values of its own"
    return None


def build(
    encoding: str, attention: str, placement: str, heads: int, causal: bool, layers: int = 1
) -> nn.Transformer:
    """Small embeddings, so that X Xᵀ does not drive a softmax to weights below rounding."""
    model = (nn.Decoder if causal else nn.Encoder)(
        V,
        width=24,
        layers=layers,
        heads=heads,
        mlp_ratio=1.0,
        position=ENCODINGS[encoding],
        attention=ATTENTIONS[attention],
        norm=PLACEMENTS[placement],
    ).double()
    with torch.no_grad():
        for name in ("embedding.weight", "position.table.weight"):
            if f"stack.{name}" in (parameters := dict(model.named_parameters())):
                parameters[f"stack.{name}"].mul_(0.5)
    return fill_tables(model)


cached = lru_cache(maxsize=64)(build)


def test_every_option_is_here() -> None:
    shipped = {path.stem for path in (conf_dir() / "pe").glob("*.yaml")}
    assert shipped <= set(ENCODINGS)


@pytest.mark.parametrize("name", PROPERTIES)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_property(encoding: str, attention: str, name: str) -> None:
    for placement, heads, causal in COMBINATIONS:
        if refused(encoding, attention, causal):
            continue
        model = cached(encoding, attention, placement, heads, causal).eval()
        try:
            with torch.set_grad_enabled(name in ("pad_invariance", "history_independence")):
                if name in SYMMETRIES and attention != "scaled":  # which may all but wash out what breaks it
                    SYMMETRIES[name](model, breaks=1e-9)
                else:
                    PROPERTIES[name](model)
        except AssertionError as error:
            cached.cache_clear()
            raise AssertionError(
                f"{name}: norm={placement} heads={heads} causal={causal}: {error}"
            ) from error


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_what_is_refused_says_so(encoding: str, attention: str) -> None:
    for causal in (False, True):
        if refused(encoding, attention, causal):
            with pytest.raises(ValueError, match=r"use (an encod|a decoder)"):
                build(encoding, attention, "pre", 1, causal)


@pytest.mark.parametrize("name", PROPERTIES)
def test_property_of_three_layers(name: str) -> None:
    for encoding, causal in product(ENCODINGS, (False, True)):
        if not refused(encoding, "scaled", causal):
            PROPERTIES[name](build(encoding, "scaled", "pre", 4, causal, layers=3).eval())


# --- a number along (1, …, 1) is removed by a LayerNorm in front of every sublayer ---


@pytest.mark.parametrize("encoding", [nn.Integer, nn.UnitInterval])
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("norm_layer", [nn.LayerNorm, nn.RMSNorm])
def test_a_uniform_shift_is_invisible_behind_layernorm(encoding, placement, norm_layer) -> None:
    model = nn.Encoder(
        V,
        width=24,
        layers=2,
        heads=4,
        position=partial(encoding, direction="ones"),
        norm=PLACEMENTS[placement],
        norm_layer=norm_layer,
    ).double()
    declared = placement in ("pre", "sandwich") and norm_layer is nn.LayerNorm
    assert ("permutation" in model.symmetries) == declared
    for check in (equivariance, reversal, shift):
        check(model.eval())


# --- property 9: low precision ---

LONG = {
    "learned": partial(nn.Learned, max_length=4096),
    "abacus": partial(nn.Abacus, max_length=4096),
    "binary": partial(nn.Binary, range=4096),
    "xpos": nn.XPos,
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_low_precision(name: str) -> None:
    """Equal to the float32 encoding to bfloat16's rounding, and as distinct as declared."""
    for heads, causal in product((1, 4, 6, 12), (False, True)):
        if not refused(name, "scaled", causal):
            with keyed_rng(0, name):
                encoding = LONG.get(name, ENCODINGS[name])(nn.Sizes(48, heads, causal=causal))
            low_precision(encoding)


@pytest.mark.parametrize("name", ["sinusoidal", "learned", "integer", "unit_interval", "binary"])
def test_tables_in_bfloat16_are_the_float32_tables_rounded(name: str) -> None:
    """More sharply: each number is rounded once, and no more."""
    encoding = LONG.get(name, ENCODINGS[name])(nn.Sizes(64, 4))
    exact = encoding.float().embed(torch.zeros(1, 4096, 64), nn.Context(4096, 4096))[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = torch.zeros(1, 4096, 64, dtype=torch.bfloat16)
        rounded = encoding.bfloat16().embed(x, nn.Context(4096, 4096))[0].detach()
    assert ((rounded.float() - exact).abs() <= 2**-8 * exact.abs()).all()


@pytest.mark.parametrize("cast", [False, True])
def test_rotation_in_bfloat16(cast: bool) -> None:
    rotary = nn.Rotary(nn.Sizes(64, 1, 64))
    ones = torch.ones(1, 1, 4096, 64)
    exact = rotary.rotate(ones.double(), ones.double(), nn.Context(4096, 4096))[0]
    if cast:
        rotary.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rotated = rotary.rotate(ones.bfloat16(), ones.bfloat16(), nn.Context(4096, 4096))[0]
    assert rotated.dtype == torch.bfloat16
    assert (rotated.double() - exact).abs().max() < 0.01


@pytest.mark.parametrize("encoding", [nn.ALiBi, nn.T5Bias])
def test_biases_survive_a_cast(encoding) -> None:
    module = encoding(nn.Sizes(16, 4, 4))
    if isinstance(module, nn.T5Bias):
        torch.nn.init.normal_(module.table.weight)
    before = module.bias(nn.Context(64, 64))
    after = module.bfloat16().bias(nn.Context(64, 64)).float()
    assert ((after - before).abs() <= 2**-8 * before.abs()).all()


# --- negative controls: break the property, see it fail ---


def fails(check, model) -> None:
    with pytest.raises(properties.PropertyError):
        check(model)


def test_control_batch_independence(monkeypatch) -> None:
    """Samples leak into each other."""
    model = build("none", "scaled", "pre", 4, False).eval()
    forward = Layer.forward
    monkeypatch.setattr(
        Layer, "forward", lambda self, x, *a: forward(self, x + 1e-3 * x.mean((0, 1), keepdim=True), *a)
    )
    fails(batch_independence, model)


def test_control_pad_invariance(monkeypatch) -> None:
    """Pads unmasked; then, with the mask in place, positions counted from the left edge."""
    model = build("none", "scaled", "pre", 4, False).eval()
    monkeypatch.setattr(stack, "allowed_keys", lambda *a: None)
    fails(pad_invariance, model)
    monkeypatch.undo()
    numbered = stack._numbered
    monkeypatch.setattr(stack, "_numbered", lambda batch: (numbered(batch)[0], batch.positions))
    fails(pad_invariance, build("learned", "scaled", "pre", 4, False).eval())


@pytest.mark.parametrize("attention", ["scaled", "hard", "fixed"])
def test_control_causality(monkeypatch, attention: str) -> None:
    """The mask is off by one."""
    model = build("none", attention, "pre", 4, True).eval()
    monkeypatch.setattr(
        kernel, "lower_triangle", lambda n, m, device: torch.ones(n, m, dtype=torch.bool).tril(1)
    )
    fails(causality, model)


def test_control_causality_without_a_mask(monkeypatch) -> None:
    """The causal flag is dropped where there are no pads."""
    model = build("none", "scaled", "pre", 4, True).eval()
    fused = kernel.fused
    monkeypatch.setattr(kernel, "fused", lambda *a, causal, **k: fused(*a, causal=False, **k))
    fails(causality, model)


def test_control_not_too_strict(monkeypatch) -> None:
    """A query sees only the last two keys."""
    model = build("alibi", "scaled", "pre", 4, True).eval()
    window = lambda n, m, device: torch.ones(n, m, dtype=torch.bool).tril().triu(-1)  # noqa: E731
    monkeypatch.setattr(kernel, "lower_triangle", window)
    fails(not_too_strict, model)


def test_control_equivariance(monkeypatch) -> None:
    """An encoding that secretly adds positions; one that secretly adds none."""
    model = build("none", "scaled", "pre", 4, False).eval()
    ramp = torch.linspace(0, 1e-3, 24)
    monkeypatch.setattr(nn.NoPosition, "embed", lambda self, x, c: x + c.query_numbers()[..., None] * ramp)
    monkeypatch.setattr(nn.Sinusoidal, "embed", lambda self, x, c: x)
    fails(equivariance, model)
    fails(equivariance, build("sinusoidal", "scaled", "pre", 4, False).eval())


def test_control_reversal(monkeypatch) -> None:
    """One-row ALiBi, right only under a causal mask; a T5 table that forgets the sign."""
    one_row = lambda self, c: (self.slopes.like(c.device, c.precision)[:, None, None] * c.key_numbers())[None]  # noqa: E731
    model = build("alibi", "scaled", "pre", 4, False).eval()
    monkeypatch.setattr(nn.ALiBi, "bias", one_row)
    fails(reversal, model)
    buckets = nn.T5Bias.buckets
    monkeypatch.setattr(nn.T5Bias, "buckets", lambda self, offsets: buckets(self, -offsets.abs()))
    fails(reversal, build("t5", "scaled", "pre", 4, False).eval())


def test_control_shift(monkeypatch) -> None:
    """Rotary phases that grow with the square of the position."""
    turn = nn.Rotary._turn
    monkeypatch.setattr(nn.Rotary, "_turn", lambda self, x, numbers: turn(self, x, numbers**2))
    fails(shift, build("rotary", "scaled", "pre", 4, False).eval())


def test_control_history(monkeypatch) -> None:
    """A table scaled by the longest input seen so far."""
    longest = [0]

    def embed(self, x, context):
        longest[0] = max(longest[0], context.num_queries)
        return x + longest[0] * context.query_numbers()[..., None]

    monkeypatch.setattr(nn.NoPosition, "embed", embed)
    fails(history_independence, build("none", "scaled", "pre", 4, False).eval())


def test_control_low_precision() -> None:
    """Frequencies in a buffer, which is rounded to bfloat16 when the module is cast; positions in bfloat16; fewer
    different rows than declared."""

    class Buffered(nn.Sinusoidal):
        def __init__(self, sizes):
            super().__init__(sizes)
            self.register_buffer("rounded", torch.tensor(self.frequencies.values))

        def vectors(self, numbers, context, dtype):
            phases = numbers[..., None].to(dtype) * self.rounded.to(dtype)
            return torch.stack((phases.sin(), phases.cos()), dim=-1).flatten(-2)

    class Rounded(nn.Rotary):
        def _turn(self, x, numbers):
            return super()._turn(x, numbers.to(x.dtype))

    class Declared(nn.Integer):
        distinct_until = None

    low_precision(nn.Integer(nn.Sizes(64, 4)))
    for broken in (Buffered, Rounded, Declared):
        with pytest.raises(properties.PropertyError, match="in bfloat16"):
            low_precision(broken(nn.Sizes(64, 4)))


@pytest.mark.parametrize("encoding", ["rotary", "alibi"])
def test_control_path_agreement(monkeypatch, encoding: str) -> None:
    """The scale of the whole width; then maps that disturb the output."""
    model = build(encoding, "scaled", "pre", 4, True).eval()
    fused = kernel.fused
    monkeypatch.setattr(kernel, "fused", lambda *a, scale, **k: fused(*a, scale=24**-0.5, **k))
    fails(path_agreement, model)
    monkeypatch.undo()
    inspect = nn.Transformer.inspect
    disturbed = lambda self, batch: replace(inspect(self, batch), logits=self(batch) + 1e-9)  # noqa: E731
    monkeypatch.setattr(nn.Transformer, "inspect", disturbed)
    fails(path_agreement, model)
