"""Declared symmetries hold to 1e-9, undeclared ones fail by more than 1e-4: ‖f(gx) - g f(x)‖ relative to ‖f(x)‖.

In float64, every parameter of the encoding drawn at random, for encoders and decoders of 1, 4, 6 and 12 heads: all of
them but those that an encoding refuses (`LEGAL`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from lengthwise import nn
from lengthwise.batch import Batch

V, N = 13, 9

ENCODINGS = {
    "none": nn.NoPosition,
    "sinusoidal": nn.Sinusoidal,
    "learned": partial(nn.Learned, max_length=64),
    "integer": nn.Integer,
    "unit_interval": nn.UnitInterval,
    "binary": partial(nn.Binary, range=64),
    "sinusoidal beside": partial(nn.Sinusoidal, combine="concat"),
    "abacus": partial(nn.Abacus, max_length=64),
    "rotary": nn.Rotary,
    "rotary half": partial(nn.Rotary, layout="half"),
    "rotary in part": partial(nn.Rotary, fraction=0.5),
    "rotary linear": partial(nn.Rotary, scaling="linear", factor=4.0),
    "rotary llama3": partial(nn.Rotary, scaling="llama3", factor=4.0, original_length=64),
    "rotary ntk": partial(nn.Rotary, scaling="ntk", factor=4.0, base=100.0),
    "rotary yarn": partial(nn.Rotary, scaling="yarn", factor=4.0, original_length=64),
    "xpos": partial(nn.XPos, scale_base=8.0),
    "alibi": nn.ALiBi,
    "alibi separate": partial(nn.ALiBi, sides="separate"),
    "t5": nn.T5Bias,
    "kerple": nn.Kerple,
    "kerple power": partial(nn.Kerple, kernel="power"),
    "fire across its threshold": partial(nn.FIRE, threshold=6.0),
    "fire past its threshold": partial(nn.FIRE, threshold=0.5),
    "sandwich": nn.Sandwich,
    "shaw": nn.Shaw,
    "shaw keys": partial(nn.Shaw, values=False, max_distance=2),
    "transformer_xl": nn.TransformerXL,
    "cope": nn.CoPE,
    "forgetting": nn.Forgetting,
    "stack": partial(nn.PositionStack, parts={"a": nn.ALiBi, "b": nn.Kerple}),
}
LEGAL = {"unit_interval": 4, "xpos": 4, "cope": 4, "forgetting": 4, "alibi separate": 3}
"""How many of the eight combinations of model and heads can be built, where that is not all."""


def test_no_encoding_is_left_out() -> None:
    bases = {nn.position.PositionEncoding, nn.position.EmbeddingEncoding, nn.position.DirectionEncoding}
    bases.add(nn.position.DistanceBias)
    exported = {getattr(nn.position, name) for name in nn.position.__all__}
    encodings = {e for e in exported if isinstance(e, type) and issubclass(e, nn.PositionEncoding)} - bases
    assert {getattr(build, "func", build) for build in ENCODINGS.values()} == encodings


def build(position, heads: int, causal: bool) -> nn.Transformer | None:
    """None where the combination is refused."""
    try:
        model = (nn.Decoder if causal else nn.Encoder)(V, width=48, layers=2, heads=heads, position=position)
    except ValueError:
        return None
    generator = torch.Generator().manual_seed(1)
    for encoding in model.stack.encodings():
        for name, parameter in encoding.named_parameters():
            if name == "multiplier":  # of FIRE's threshold: it stays among the positions
                continue
            parameter.data = torch.randn(parameter.shape, generator=generator)
    return model.double().eval()


def error(model: nn.Transformer, symmetry: str, first: int = 0) -> float:
    """‖f(gx) - g f(x)‖ relative to ‖f(x)‖."""
    tokens = torch.randperm(V, generator=torch.Generator().manual_seed(0))[:N]
    order = {
        "permutation": torch.tensor([4, 0, 7, 1, 8, 3, 2, 6, 5]),
        "reversal": torch.arange(N).flip(0),
        "translation": torch.arange(N),
    }[symmetry]

    def run(tokens: torch.Tensor, shift: int) -> torch.Tensor:
        numbers = torch.arange(first, first + N)[None] + shift
        everything = torch.ones(1, N, dtype=torch.bool)
        with torch.no_grad():
            return model(Batch(tokens[None], everything, tokens[None], torch.tensor([N]), positions=numbers))[
                0
            ]

    plain, acted = run(tokens, 0), run(tokens[order], 7 if symmetry == "translation" else 0)
    return float((plain[order] - acted).norm() / plain.norm())


@pytest.mark.parametrize("name", ENCODINGS)
def test_what_is_declared_holds_and_nothing_else(name: str) -> None:
    built = 0
    for causal in (False, True):
        for heads in (1, 4, 6, 12):
            model = build(ENCODINGS[name], heads, causal)
            if model is None:
                continue
            built += 1
            for symmetry in ("permutation", "reversal", "translation"):
                found = error(model, symmetry)
                if symmetry in model.symmetries:
                    assert found <= 1e-9, (symmetry, causal, heads, found)
                else:
                    assert found > 1e-4, (symmetry, causal, heads, found)
    assert built == LEGAL.get(name, 8)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 4, 6, 12])
def test_fire_keeps_distances_before_its_threshold_and_not_after(heads: int, causal: bool) -> None:
    """Positions up to 9 + 7, thresholds of 100, 6 and ½. A causal mask breaks reversal on either side."""
    for threshold, holds in ((100.0, True), (6.0, False), (0.5, False)):
        model = build(partial(nn.FIRE, threshold=threshold), heads, causal)
        assert model is not None and not model.symmetries
        found = error(model, "translation")
        assert found <= 1e-9 if holds else found > 1e-4, (threshold, found)
        found = error(model, "reversal")
        assert found <= 1e-9 if holds and not causal else found > 1e-4, (threshold, found)


def test_a_wrong_declaration_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.T5Bias, "symmetries", frozenset({"translation", "reversal"}))
    with pytest.raises(AssertionError, match="reversal"):
        test_what_is_declared_holds_and_nothing_else("t5")
    monkeypatch.setattr(nn.Kerple, "symmetries", frozenset({"reversal"}))
    with pytest.raises(AssertionError, match="translation"):
        test_what_is_declared_holds_and_nothing_else("kerple")


ACROSS = {
    "rotary": nn.Rotary,
    "alibi": nn.ALiBi,
    "t5": nn.T5Bias,
    "kerple": nn.Kerple,
    "fire": partial(nn.FIRE, threshold=6.0),
    "sandwich": nn.Sandwich,
    "shaw": nn.Shaw,
    "transformer_xl": nn.TransformerXL,
}


@pytest.mark.parametrize("name", ACROSS)
def test_between_a_decoder_and_its_encoder(name: str) -> None:
    """Sides of different lengths: moving both changes nothing where that is declared, moving one does."""
    model = nn.EncoderDecoder(V, width=16, layers=2, heads=2, position=partial(ACROSS[name], cross=True))
    without = nn.EncoderDecoder(V, width=16, layers=2, heads=2, position=ACROSS[name])
    generator = torch.Generator().manual_seed(1)
    for one in (model, without):
        for path, parameter in one.named_parameters():
            if "position" in path and "multiplier" not in path:
                parameter.data = torch.randn(parameter.shape, generator=generator)
    assert any("cross_attention.position" in path for path, _ in model.named_modules())
    assert not any("cross_attention.position" in path for path, _ in without.named_modules())

    def run(source_shift: int, target_shift: int, numbered: bool = True) -> torch.Tensor:
        batches = []
        for count, shift in ((7, source_shift), (5, target_shift)):
            tokens = torch.arange(count)[None] + 2
            mask = torch.ones_like(tokens, dtype=torch.bool)
            positions = torch.arange(count)[None] + shift if numbered else None
            batches.append(Batch(tokens, mask, tokens, torch.tensor([count]), positions=positions))
        with torch.no_grad():
            return model.double().eval()(replace(batches[1], source=batches[0]))

    here = run(0, 0)
    assert (here - run(0, 0, numbered=False)).abs().max() < 1e-12
    both, one = ((here - run(*shifts)).norm() / here.norm() for shifts in ((9, 9), (9, 0)))
    assert (both < 1e-9) == ("translation" in model.symmetries)
    assert one > 1e-4
