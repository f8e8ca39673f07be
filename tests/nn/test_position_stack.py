"""Several encodings at once: what a stack of them computes, in which layers, and which it refuses."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from lengthwise import nn
from lengthwise.batch import Batch
from lengthwise.build import build_parts
from lengthwise.components import check_components
from lengthwise.composing import compose
from lengthwise.errors import ConfigError

V, N = 9, 7


def batch(source: bool = False) -> Batch:
    tokens = torch.randint(V, (2, N), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(N) < torch.tensor([[N], [5]])
    return Batch(tokens, mask, tokens, mask.sum(1), source=batch() if source else None)


def model(position, shape=nn.Encoder, **options) -> nn.Transformer:
    return shape(V, **{"width": 16, "layers": 2, "heads": 2, "position": position, **options}).double().eval()


def stack(skip_every=None, layers=None, **parts):
    return partial(nn.PositionStack, parts=parts, skip_every=skip_every, layers=layers)


LEARNED = partial(nn.Learned, max_length=32)


def copy_encoding(source: nn.PositionEncoding, target: nn.PositionEncoding) -> None:
    target.load_state_dict(source.state_dict())


def test_a_stack_is_the_sum_of_its_biases_after_its_rotation() -> None:
    built = stack(a=nn.Rotary, b=nn.ALiBi, c=nn.T5Bias)(nn.Sizes(16, 2)).double()
    rotary, alibi, t5 = built.parts()
    q, k = (torch.randn(1, 2, 5, 8, dtype=torch.float64) for _ in range(2))
    context = nn.Context(5, 5, queries_input=torch.zeros(1, 5, 16, dtype=torch.float64))
    for one, other in zip(built.rotate(q, k, context), rotary.rotate(q, k, context), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(built.bias(context), alibi.bias(context) + t5.bias(context))
    assert torch.equal(built.by_distance(context), alibi.by_distance(context) + t5.by_distance(context))
    assert built.symmetries == {"translation"}


def test_a_bias_that_is_no_function_of_distance_leaves_none_for_the_sum() -> None:
    built = stack(a=nn.ALiBi, b=nn.FIRE)(nn.Sizes(16, 2))
    assert built.by_distance(nn.Context(5, 5)) is None


def test_parts_are_what_they_are_alone() -> None:
    """Learned and T5 together, with the tables that each has alone: in the model's own places."""
    together = model(stack(a=LEARNED, b=nn.T5Bias))
    embedding, bias = model(LEARNED), model(nn.T5Bias)
    copy_encoding(embedding.stack.position, together.stack.position.encodings["a"])
    for mine, its in zip(bias.stack.layers, together.stack.layers, strict=True):
        copy_encoding(mine.attention.position, its.attention.position.encodings["b"])
    x = embedding.stack.embedding(batch().tokens)
    context = nn.Context(N, N, queries_input=x)
    assert torch.equal(together.stack.position.embed(x, context), embedding.stack.position.embed(x, context))
    for mine, its in zip(bias.stack.layers, together.stack.layers, strict=True):
        assert torch.equal(mine.attention.position.bias(context), its.attention.position.bias(context))
    outputs = [m(batch()) for m in (together, embedding, bias)]
    assert all(not torch.allclose(outputs[0], other, atol=1e-3) for other in outputs[1:])


def acts(built: nn.Transformer) -> list[list[str]]:
    """The names of the parts in each layer's attention."""
    return [
        [] if layer.attention.position is None else list(layer.attention.position.named())
        for layer in built.stack.layers
    ]


def test_layers_of_a_mixture() -> None:
    deep = partial(model, layers=6)
    assert acts(deep(stack(a=nn.Rotary, skip_every=3))) == [["a"], ["a"], [], ["a"], ["a"], []]
    assert acts(deep(stack(a=nn.Rotary, b=nn.ALiBi, layers={"b": [1, 4]}))) == [
        ["a"], ["a", "b"], ["a"], ["a"], ["a", "b"], ["a"]
    ]  # fmt: skip
    assert acts(deep(stack(a=nn.Rotary, b=nn.T5Bias, layers={"a": [0, 1, 2], "b": [3, 4, 5]}, skip_every=2))) == [
        ["a"], [], ["a"], [], ["b"], []
    ]  # fmt: skip


def test_a_mixture_with_none_is_rotary_without_it_in_that_layer() -> None:
    mixed, plain = model(stack(a=nn.Rotary, skip_every=2)), model(nn.Rotary)
    assert not torch.allclose(mixed(batch()), plain(batch()), atol=1e-6)
    plain.stack.layers[1].attention.position = None
    assert torch.equal(mixed(batch()), plain(batch()))


def test_no_parameter_stands_in_a_layer_without_its_part() -> None:
    names = [n for n, _ in model(stack(a=nn.T5Bias, skip_every=2)).named_parameters() if "position" in n]
    assert names == ["stack.layers.0.attention.position.encodings.a.table.weight"]
    loss = model(stack(a=LEARNED, b=nn.T5Bias, c=nn.FIRE, layers={"b": [0]}))
    loss(batch()).sum().backward()
    assert all(p.grad is not None for p in loss.parameters())


def test_a_shared_part_is_one_module_and_another_is_not() -> None:
    built = model(stack(a=partial(nn.T5Bias, share=True), b=nn.Kerple, layers={"a": [1, 2]}), layers=3)
    first, second, third = (layer.attention.position.encodings for layer in built.stack.layers)
    assert "a" not in first and second["a"] is third["a"] and first["b"] is not second["b"]


def test_a_part_that_widens_the_embedding_widens_what_reads_it() -> None:
    """Its name does not decide: the gate of `a` reads the 16 + 4 columns that `b` leaves."""
    wide = stack(a=nn.Forgetting, b=partial(nn.Sinusoidal, combine="concat", dim=4), c=nn.Rotary)
    built = model(wide, nn.Decoder)
    assert built.stack.width == 20
    assert built.stack.layers[0].attention.position.encodings["a"].gate.in_features == 20
    assert built(batch()).isfinite().all()


def test_facts_are_those_of_the_parts() -> None:
    built = model(stack(a=LEARNED, b=nn.Kerple))
    assert built.max_length == 32 and built.symmetries == frozenset()
    assert model(stack(a=nn.ALiBi, b=nn.Kerple)).symmetries == {"translation", "reversal"}
    uniform = stack(a=partial(nn.Integer, direction="ones"), b=nn.ALiBi)
    assert model(uniform).symmetries == {"translation", "reversal"}  # a LayerNorm in front removes `a`
    assert model(uniform, norm=nn.PostNorm).symmetries == frozenset()
    trained = partial(nn.Learned, max_length=32)
    built = model(stack(a=trained, b=nn.ALiBi), trained_length=10)
    assert built.position_flags(20) == ("untrained_positions",)


def test_only_the_parts_for_cross_attention_act_across() -> None:
    built = model(stack(a=partial(nn.ALiBi, cross=True), b=nn.T5Bias), nn.EncoderDecoder)
    assert list(built.decoder.layers[0].attention.position.named()) == ["a", "b"]
    assert list(built.decoder.layers[0].cross_attention.position.named()) == ["a"]
    assert [type(part) for part in built.decoder.cross_encodings()] == [nn.ALiBi] * 2
    assert built(batch(source=True)).isfinite().all()


@pytest.mark.parametrize(
    ("position", "causal", "message"),
    [
        (stack(), True, "a stack needs parts"),
        (stack(a=nn.Rotary), True, r"a \(Rotary\) alone, in every layer, needs no stack"),
        (stack(a=nn.NoPosition, b=nn.ALiBi), True, "part a is none, which adds nothing"),
        (stack(a=stack(a=nn.Rotary, b=nn.ALiBi), b=nn.T5Bias), True, "part a is itself a stack"),
        (stack(a=nn.Rotary, b=nn.XPos), True, "two rotations are one"),
        (stack(a=nn.T5Bias, b=partial(nn.T5Bias, num_buckets=8)), True, "they are the same encoding"),
        (stack(a=nn.Rotary, b=nn.Shaw), True, "Shaw reads the queries that Rotary has turned"),
        (stack(a=nn.CoPE, b=nn.XPos), True, "CoPE reads the queries that XPos has turned"),
        (stack(a=nn.CoPE, b=nn.Shaw), True, "would depend on which comes first"),
        (
            stack(a=nn.CoPE, b=nn.UnitInterval),
            True,
            "CoPE needs a causal model, UnitInterval one that is not",
        ),
        (stack(a=nn.Forgetting, b=nn.T5Bias), False, "Forgetting needs a causal model: use a decoder"),
        (stack(a=nn.UnitInterval, b=nn.T5Bias), True, "UnitInterval depends on the whole sequence's length"),
        (
            stack(a=nn.Rotary, skip_every=1),
            True,
            "skip_every must be at least 2 and at most the number of layers, 2",
        ),
        (stack(a=nn.Rotary, skip_every=3), True, "at most the number of layers, 2, got 3"),
        (stack(a=nn.Sinusoidal, b=LEARNED, skip_every=2), True, "no part acts in the attention of a layer"),
        (stack(a=nn.Rotary, layers={"b": [0]}), True, "layers.b: there is no such part; parts are a"),
        (stack(a=nn.Rotary, b=LEARNED, layers={"b": [0]}), True, "layers.b: this part acts on the embedding"),
        (
            stack(a=nn.Rotary, layers={"a": [2]}),
            True,
            r"layers.a=\[2\]: must be different layers, .* below 2",
        ),
        (stack(a=nn.Rotary, layers={"a": [0, 0]}), True, "must be different layers"),
        (stack(a=nn.Rotary, layers={"a": [1]}, skip_every=2), True, "part a would act in no layer"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_reason(position, causal: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(position, nn.Decoder if causal else nn.Encoder)


# --- from the command line ---


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        ([], {"a": nn.Sinusoidal, "b": nn.ALiBi}),
        (["pe@pe.parts.b=t5", "pe.parts.b.num_buckets=8"], {"a": nn.Sinusoidal, "b": nn.T5Bias}),
        (["+pe@pe.parts.c=shaw"], {"a": nn.Sinusoidal, "b": nn.ALiBi, "c": nn.Shaw}),
        (["pe@pe.parts.a=rotary", "~pe@pe.parts.b", "pe.skip_every=2"], {"a": nn.Rotary}),
        (["+pe.layers.b=[1]"], {"a": nn.Sinusoidal}),
    ],
)
def test_parts_are_chosen_like_any_option(overrides: list[str], parts: dict) -> None:
    _, _, built = build_parts(compose(["pe=stack", *overrides]))
    first = built.stack.layers[0].attention.position
    found = {} if built.stack.position is None else dict(built.stack.position.named())
    found |= {} if first is None else dict(first.named())
    assert {name: type(part) for name, part in found.items()} == parts


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["+pe.parts.a.bse=3"],
            r"pe\.parts\.a\.bse=3: Sinusoidal has no such option.*Did you mean pe\.parts\.a\.base",
        ),
        (["pe.parts.a.base=x"], r"pe\.parts\.a\.base=x: Sinusoidal takes float here"),
        (["pe@pe.parts.a=rotary", "pe@pe.parts.b=xpos", "model=decoder"], "two rotations are one"),
        (["pe.skip_every=3"], "skip_every must be at least 2 and at most the number of layers, 2, got 3"),
    ],
    ids=["option", "type", "clash", "layers"],
)
def test_wrong_parts_are_one_message(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config = compose(["pe=stack", *overrides])
        check_components(config)
        build_parts(config)
