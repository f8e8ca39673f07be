"""Initial values: a function of (seed, parameter name), so that one change is one change."""

from __future__ import annotations

import hashlib
from functools import partial

import pytest
import torch

from lengthwise import nn
from lengthwise.nn.position.contract import PositionEncoding

BASE = {
    "position": nn.Rotary,
    "norm": nn.PreNorm,
    "norm_layer": nn.LayerNorm,
    "attention": nn.ScaledAttention,
    "activation": nn.ReLU,
}
SLOTS = {
    "position": [
        nn.NoPosition,
        nn.Sinusoidal,
        partial(nn.Learned, max_length=32),
        nn.Integer,
        partial(nn.Binary, range=32),
        nn.ALiBi,
        nn.T5Bias,
        partial(nn.T5Bias, share=True),
        nn.Kerple,
        partial(nn.Kerple, kernel="power", share=True),
        nn.FIRE,
        nn.Sandwich,
        nn.Shaw,
        partial(nn.Shaw, values=False),
        nn.TransformerXL,
        partial(nn.PositionStack, parts={"a": partial(nn.Learned, max_length=32), "b": nn.T5Bias}),
        partial(nn.PositionStack, parts={"a": nn.T5Bias}, skip_every=2),
    ],
    "norm": [nn.PostNorm, nn.SandwichNorm, nn.NoNorm],
    "norm_layer": [nn.RMSNorm],
    "attention": [
        nn.UnscaledAttention,
        nn.SharedAttention,
        nn.ParameterFreeAttention,
        nn.HardAttention,
        nn.MergedAttention,
    ],
    "activation": [nn.GELU, nn.SwiGLU],
}
CAUSAL = [
    nn.XPos,
    nn.CoPE,
    nn.Forgetting,
    partial(nn.PositionStack, parts={"a": nn.Sinusoidal, "b": nn.CoPE}),
]
"""Encodings for decoders alone."""
SHAPES = [nn.Encoder, nn.Decoder, nn.EncoderDecoder]


def model(shape=nn.Encoder, **options) -> nn.Transformer:
    return shape(9, **{"width": 16, "layers": 2, "heads": 2, "seed": 3, **BASE, **options})


def outside(model: nn.Transformer, slot: str) -> dict[str, torch.Tensor]:
    """The parameters that do not belong to a slot, by the type of the module that owns them."""
    kinds = {
        "position": PositionEncoding,
        "norm": (nn.Placement, torch.nn.LayerNorm, torch.nn.RMSNorm),
        "norm_layer": (torch.nn.LayerNorm, torch.nn.RMSNorm),
        "attention": nn.MultiHeadAttention,
        "activation": nn.FeedForward,
    }
    inside = set()
    for path, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, kinds[slot]):
            position = slot != "position"
            inside |= {
                f"{path}.{name}"
                for name, _ in module.named_parameters(remove_duplicate=False)
                if not (position and slot == "attention" and name.startswith("position."))
            }
    return {name: value for name, value in model.state_dict().items() if name not in inside}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("slot", SLOTS)
def test_one_change_is_one_change(slot: str, shape) -> None:
    """Names, shapes and values outside the slot are equal to the bit, for every option of every slot."""
    base = outside(model(shape), slot)
    assert base
    for option in SLOTS[slot] + (CAUSAL if slot == "position" and shape is nn.Decoder else []):
        other = outside(model(shape, **{slot: option}), slot)
        assert base.keys() == other.keys()
        for name, value in base.items():
            assert torch.equal(value, other[name]), name


def test_the_encoding_keeps_its_values_when_attention_changes() -> None:
    one, other = (
        model(position=nn.T5Bias, attention=a).state_dict() for a in (nn.ScaledAttention, nn.MergedAttention)
    )
    tables = [name for name in one if "position" in name]
    assert len(tables) == 2
    assert all(torch.equal(one[name], other[name]) for name in tables)


def test_dropout_sites_and_embedding_scale_do_not_depend_on_the_slots() -> None:
    sites = [name for name, m in model(dropout=0.1).named_modules() if isinstance(m, torch.nn.Dropout)]
    for slot, options in SLOTS.items():
        for option in options:
            other = model(dropout=0.1, **{slot: option})
            assert [n for n, m in other.named_modules() if isinstance(m, torch.nn.Dropout)] == sites
            assert {a.dropout for a in other.stack.attentions()} == {0.1}
            assert other.stack.embedding_scale == 1.0


def test_values_depend_on_seed_and_name_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one = model().state_dict()
    assert torch.equal(torch.get_rng_state(), before)  # building consumes nobody's random numbers
    torch.manual_seed(1)
    same, other = model().state_dict(), model(seed=4).state_dict()
    for name, value in one.items():
        assert torch.equal(value, same[name])
        assert torch.equal(value, other[name]) == ("norm" in name)  # norms start at 1 and 0
    assert not torch.equal(model(seed=3 + 2**32).state_dict()["head.weight"], one["head.weight"])


@pytest.mark.parametrize("attention", [nn.ScaledAttention, *SLOTS["attention"]])
@pytest.mark.parametrize("position", [nn.Rotary, nn.T5Bias])
def test_layers_and_heads_start_different(attention, position) -> None:
    state = model(attention=attention, position=position, layers=3).state_dict()
    first = {name: value for name, value in state.items() if ".layers.0." in name and "norm" not in name}
    assert first
    for name, value in first.items():
        assert not torch.equal(value, state[name.replace(".layers.0.", ".layers.1.")])
        if ".query.weight" in name:
            assert not torch.equal(value[:8], value[8:])
    encoder_decoder = model(nn.EncoderDecoder).state_dict()
    assert not torch.equal(
        encoder_decoder["encoder.embedding.weight"], encoder_decoder["decoder.embedding.weight"]
    )


def test_a_longer_table_starts_with_the_shorter_ones_rows() -> None:
    short, long = (
        model(position=partial(nn.Learned, max_length=n)).state_dict()["stack.position.table.weight"]
        for n in (10, 50)
    )
    assert torch.equal(short, long[:10])


def test_more_layers_leave_the_first_ones_alone() -> None:
    short, long = model(layers=1).state_dict(), model(layers=4).state_dict()
    assert all(torch.equal(value, long[name]) for name, value in short.items())


def test_golden_state() -> None:
    """The values of one small model. A change here changes every result of every run."""
    golden = model(nn.Encoder, position=partial(nn.Learned, max_length=8), bias=True)
    digest = hashlib.blake2b(digest_size=8)
    for name, value in sorted(golden.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.numpy().tobytes())
    assert digest.hexdigest() == "2aebeae42d18281e"


def std(model: nn.Transformer, name: str) -> float:
    return float(model.state_dict()[name].std())


def test_schemes() -> None:
    """The spread of each kind of parameter; fan_in is 64 in attention, 256 in the MLP's second map."""
    big = {"width": 64, "layers": 8, "bias": True, "position": partial(nn.Learned, max_length=64)}
    embedding, table = "stack.embedding.weight", "stack.position.table.weight"
    query, output, mlp = (
        f"stack.layers.0.{n}.weight" for n in ("attention.query", "attention.output", "mlp.output")
    )
    bias = "stack.layers.0.attention.query.bias"
    expected = {
        nn.DefaultInit(): (1, 1, 1 / 3**0.5 / 8, 1 / 3**0.5 / 8, 1 / 3**0.5 / 16),
        nn.NormalInit(): (0.02, 0.02, 0.02, 0.02, 0.02),
        nn.InverseSqrtInit(): (1, 1, 1 / 8, 1 / 8, 1 / 16),
        nn.DepthScaledInit(): (0.02, 0.02, 0.02, 0.02 / 4, 0.02 / 4),
    }
    for scheme, values in expected.items():
        drawn = model(init=scheme, **big)
        for name, value in zip((embedding, table, query, output, mlp), values, strict=True):
            assert std(drawn, name) == pytest.approx(value, rel=0.1), (scheme, name)
        assert (std(drawn, bias) == 0) == (scheme != nn.DefaultInit())
        t5 = model(init=scheme, position=nn.T5Bias)
        assert std(t5, "stack.layers.0.attention.position.table.weight") == pytest.approx(1, rel=0.25)
    assert std(
        model(attention=nn.MergedAttention, width=64), "stack.layers.0.attention.merged"
    ) == pytest.approx(1 / 3**0.5 / 128**0.5, rel=0.1)


class Foreign(nn.PositionEncoding):
    """A component from outside, with parameters that no rule covers."""

    acts_on = "embedding"

    def __init__(self, sizes: nn.Sizes) -> None:
        super().__init__(sizes)
        self.own = torch.nn.Parameter(torch.randn(sizes.width))

    def embed(self, x, context):
        return x + context.query_numbers()[..., None] * self.own


def test_a_component_without_rules_is_drawn_from_its_path() -> None:
    values = []
    for seed in (3, 3, 4):
        torch.manual_seed(len(values))
        values.append(model(position=Foreign, seed=seed).state_dict()["stack.position.own"])
    assert torch.equal(values[0], values[1])
    assert not torch.equal(values[0], values[2])
    base = outside(model(), "position")
    assert all(torch.equal(base[name], v) for name, v in outside(model(position=Foreign), "position").items())


def test_every_table_norm_and_bias_is_known_by_its_module() -> None:
    """What is not decayed: norms, biases, token embeddings, everything inside an encoding."""
    for position in (*SLOTS["position"], nn.Rotary):
        built = model(position=position, bias=True)
        for path, module in built.named_modules():
            for name, parameter in module.named_parameters(recurse=False):
                is_matrix = isinstance(module, torch.nn.Linear) and name == "weight"
                is_table = isinstance(module, torch.nn.Embedding)
                is_norm = isinstance(module, torch.nn.LayerNorm | torch.nn.RMSNorm)
                inside = any(
                    isinstance(built.get_submodule(path[:end]), PositionEncoding)
                    for end in (i for i, letter in enumerate(path + ".") if letter == ".")
                )
                known = is_matrix or is_table or is_norm or inside or name == "bias"
                assert known, (path, name, parameter.shape)
