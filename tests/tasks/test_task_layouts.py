"""Layouts: hand-written rows for every shape, pads, counts of positions, illegal pairs, vocabulary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lengthwise.evaluation.scores import mark
from lengthwise.keyed import philox
from lengthwise.tasks import (
    AboveMean,
    Copy,
    Digits,
    Examples,
    Last,
    Layout,
    Majority,
    Offsets,
    Reverse,
    Task,
    Vocabulary,
    WordOrder,
)

X = -100


class Three(Task):
    """Symbols a, b, c; made for these tests: the examples are written by hand."""

    name = "three"
    symbols = answer_symbols = ("a", "b", "c")

    def __init__(self, *, answer_format: str, causal: bool = False) -> None:
        self.answer_format = answer_format
        self.causal = causal


# a, b, c = 0, 1, 2; pad 3, bos 4, sep 5, eos 6, slot 7, patch 8
PAD, BOS, SEP, EOS, SLOT, PATCH = 3, 4, 5, 6, 7, 8


def label():
    return Examples(
        inputs=np.array([[0, 1, 2], [2, 0, 0]]),
        lengths=np.array([3, 1]),
        answers=np.array([[2], [1]]),
        answer_lengths=np.array([1, 1]),
        evidence=np.array([2, 0]),
    )


def string():
    return Examples(
        inputs=np.array([[0, 1, 2], [2, 0, 0]]),
        lengths=np.array([3, 1]),
        answers=np.array([[2, 1, 0], [1, 0, 0]]),
        answer_lengths=np.array([3, 1]),
        evidence=np.array([-1, -1]),
    )


HAND_WRITTEN = [
    # (task, shape, readout, examples, tokens, targets)
    ("label", False, "encoder", "front", [[7, 0, 1, 2], [7, 2, 3, 3]], [[2, X, X, X], [1, X, X, X]]),
    ("label", False, "encoder", "end", [[0, 1, 2, 7], [2, 7, 3, 3]], [[X, X, X, 2], [X, 1, X, X]]),
    ("label", False, "encoder", "mean", [[0, 1, 2], [2, 3, 3]], [[2], [1]]),
    (
        "label",
        False,
        "decoder",
        "end",
        [[4, 0, 1, 2, 5], [4, 2, 5, 3, 3]],
        [[X, X, X, X, 2], [X, X, 1, X, X]],
    ),
    ("label", False, "encoder_decoder", "end", [[4], [4]], [[2], [1]]),
    ("per_token", True, "encoder", "end", [[0, 1, 2], [2, 3, 3]], [[2, 1, 0], [1, X, X]]),
    ("per_token", True, "decoder", "end", [[4, 0, 1, 2], [4, 2, 3, 3]], [[X, 2, 1, 0], [X, 1, X, X]]),
    (
        "per_token",
        False,
        "decoder",
        "end",
        [[4, 0, 1, 2, 5, 2, 1, 0], [4, 2, 5, 1, 3, 3, 3, 3]],
        [[X, X, X, X, 2, 1, 0, 6], [X, X, 1, 6, X, X, X, X]],
    ),
    ("per_token", True, "encoder_decoder", "end", [[4, 2, 1, 0], [4, 1, 3, 3]], [[2, 1, 0, 6], [1, 6, X, X]]),
    (
        "sequence",
        False,
        "encoder",
        "end",
        [[0, 1, 2, 7, 7, 7], [2, 7, 3, 3, 3, 3]],
        [[X, X, X, 2, 1, 0], [X, 1, X, X, X, X]],
    ),
    (
        "sequence",
        False,
        "decoder",
        "end",
        [[4, 0, 1, 2, 5, 2, 1, 0], [4, 2, 5, 1, 3, 3, 3, 3]],
        [[X, X, X, X, 2, 1, 0, 6], [X, X, 1, 6, X, X, X, X]],
    ),
    ("sequence", False, "encoder_decoder", "end", [[4, 2, 1, 0], [4, 1, 3, 3]], [[2, 1, 0, 6], [1, 6, X, X]]),
]


@pytest.mark.parametrize(("kind", "causal", "shape", "readout", "tokens", "targets"), HAND_WRITTEN)
def test_hand_written_rows(kind, causal, shape, readout, tokens, targets):
    task = Three(answer_format=kind, causal=causal)
    layout = Layout(task, shape, readout)
    examples = label() if kind == "label" else string()
    batch = layout(examples)
    assert batch.tokens.tolist() == tokens
    assert batch.targets.tolist() == targets
    assert batch.key_mask.tolist() == [[token != PAD for token in row] for row in tokens]
    assert batch.lengths.tolist() == [3, 1] and batch.evidence.tolist() == examples.evidence.tolist()
    if shape == "encoder_decoder":
        assert batch.source.tokens.tolist() == [[0, 1, 2], [2, PAD, PAD]]
        assert batch.source.key_mask.tolist() == [[True] * 3, [True, False, False]]
        assert (batch.source.targets == X).all()
        assert layout.positions(3) == (3, len(tokens[0]))
        inputs = batch.source.tokens
    else:
        assert batch.source is None
        assert layout.positions(3) == (len(tokens[0]),)
        inputs = batch.tokens
    start = layout.input_start
    assert inputs[0, start : start + 3].tolist() == [0, 1, 2]
    assert batch.tokens.dtype == batch.targets.dtype == torch.int64 and batch.key_mask.dtype == torch.bool


def test_readout_defaults():
    assert Layout(Three(answer_format="label")).readout == "end"
    assert Layout(Three(answer_format="label"), "decoder").readout == "end"
    assert Layout(Three(answer_format="label"), "encoder_decoder").readout is None
    assert Layout(Three(answer_format="sequence")).readout is None


@pytest.mark.parametrize("shape", ["encoder", "decoder", "encoder_decoder"])
def test_feature_layouts(shape):
    task = Digits(patch=4)
    examples = task.generate(np.full(3, 4), philox("features"))
    layout = Layout(task, shape)
    batch = layout(examples)
    side = batch.source if shape == "encoder_decoder" else batch
    start = layout.input_start
    assert (side.tokens[:, start : start + 4] == layout.vocabulary.patch).all()
    assert np.array_equal(side.features[:, start : start + 4].numpy(), examples.features)
    elsewhere = side.features.clone()
    elsewhere[:, start : start + 4] = 0
    assert not elsewhere.any() and side.features.abs().sum() > 0
    if shape == "encoder_decoder":
        assert batch.features is None


@pytest.mark.parametrize("task", [WordOrder(), Offsets(), AboveMean(), Reverse()], ids=lambda task: task.name)
@pytest.mark.parametrize("shape", ["encoder", "decoder", "encoder_decoder"])
def test_rows_do_not_depend_on_their_batch_mates_and_pads_hold_nothing(task, shape):
    lengths = np.array([7, 4, 10, 5])
    examples = task.generate(lengths, philox("pads"))
    layout = Layout(task, shape)
    whole = layout(examples)
    for b, length in enumerate(lengths):
        alone = layout(examples.rows(slice(b, b + 1)))
        sides = [(whole, alone)] + ([(whole.source, alone.source)] if shape == "encoder_decoder" else [])
        for full, own in sides:
            width = own.tokens.shape[1]
            assert own.key_mask.all()
            assert torch.equal(full.tokens[b, :width], own.tokens[0])
            assert torch.equal(full.targets[b, :width], own.targets[0])
            assert (full.tokens[b, width:] == layout.vocabulary.pad).all()
            assert (full.targets[b, width:] == X).all() and not full.key_mask[b, width:].any()
        widths = [own.tokens.shape[1] for _, own in reversed(sides)]  # the source first
        assert tuple(widths) == layout.positions(length)


def test_the_batch_does_not_share_memory_with_the_examples():
    examples = Copy().generate(np.array([3, 3]), philox("memory"))
    batch = Layout(Copy(), "encoder")(examples)
    batch.tokens.fill_(0)
    batch.lengths.fill_(9)
    batch.evidence.fill_(9)
    assert examples.lengths.tolist() == [3, 3] and examples.evidence.tolist() == [-1, -1]
    mean = Layout(Last(), "encoder", "mean")
    items = Last().generate(np.array([3]), philox("memory"))
    before = items.answers.copy()
    mean(items).targets.fill_(0)
    assert np.array_equal(items.answers, before)


@pytest.mark.parametrize(
    ("task", "shape", "readout", "words"),
    [
        (Last(), "decoder", "front", ["readout=front", "last", "decoder", "readout=end"]),
        (Last(), "decoder", "mean", ["readout=mean", "decoder", "readout=end"]),
        (Last(), "encoder_decoder", "front", ["readout=front", "encoder_decoder", "readout=end"]),
        (Offsets(), "encoder", "front", ["readout=front", "offsets", "readout=end"]),
        (Reverse(), "encoder", "mean", ["readout=mean", "reverse", "readout=end"]),
        (Last(), "transformer", "end", ["shape='transformer'", "encoder, decoder, encoder_decoder"]),
        (Last(), "encoder", "middle", ["readout='middle'", "front, end, mean"]),
    ],
)
def test_impossible_choices_are_explained(task, shape, readout, words):
    with pytest.raises(ValueError) as error:
        Layout(task, shape, readout)
    assert all(word in str(error.value) for word in words), error.value


def test_vocabulary():
    vocabulary = Vocabulary(["x", "y"])
    assert len(vocabulary) == 8
    assert [getattr(vocabulary, s) for s in ("pad", "bos", "sep", "eos", "slot", "patch")] == [
        2,
        3,
        4,
        5,
        6,
        7,
    ]
    assert vocabulary.decode([3, 0, 1, 4, -100]) == "<bos> x y <sep> ·"
    assert vocabulary.decode(torch.tensor([1, 2])) == "y <pad>"
    for wrong in ([], ["x", "x"], ["<pad>", "x"]):
        with pytest.raises(ValueError, match="vocabulary"):
            Vocabulary(wrong)


def test_vocabulary_is_equal_in_all_shapes():
    for task in (Majority(), Digits(), Reverse()):
        sizes = {len(Layout(task, shape).vocabulary) for shape in ("encoder", "decoder", "encoder_decoder")}
        assert sizes == {len(task.symbols) + 6}


# --- answers whose length the input does not tell, and places that are not scored ---


class Varying(Three):
    variable_answers = True

    def answer_length(self, length: int) -> int:
        return length


def varying() -> Examples:
    return Examples(
        inputs=np.array([[0, 1, 2], [2, 0, 0]]),
        lengths=np.array([3, 1]),
        answers=np.array([[2, 1], [0, 0]]),
        answer_lengths=np.array([2, 0]),
        evidence=np.array([-1, -1]),
    )


def test_slots_tell_nothing_of_how_long_an_answer_is() -> None:
    """As many as the longest answer needs, and one; behind the end is the first answer symbol, in the loss alone."""
    batch = Layout(Varying(answer_format="sequence"), "encoder")(varying())
    assert batch.tokens.tolist() == [[0, 1, 2, SLOT, SLOT, SLOT, SLOT], [2, SLOT, SLOT, PAD, PAD, PAD, PAD]]
    assert batch.targets.tolist() == [[X, X, X, 2, 1, EOS, 0], [X, EOS, 0, X, X, X, X]]
    layout = Layout(Varying(answer_format="sequence"), "encoder")
    assert layout.positions(3) == (7,) and layout.positions(1) == (3,)
    decoder = Layout(Varying(answer_format="sequence"), "decoder")(varying())
    assert decoder.targets.tolist() == [[X, X, X, X, 2, 1, EOS], [X, X, EOS, X, X, X, X]]


def test_what_stands_behind_the_end_is_in_no_accuracy() -> None:
    targets = Layout(Varying(answer_format="sequence"), "encoder")(varying()).targets
    said = targets.clone()
    said[0, 6], said[1, 2] = 1, 2  # wrong, but behind the end
    marks = mark(said, targets, EOS)
    assert marks.exact.tolist() == [True, True]
    assert int(marks.symbols.sum()) == 2 and int(marks.scored.sum()) == 6
    said[0, 5] = 0  # control: no end
    assert mark(said, targets, EOS).exact.tolist() == [False, True]


def test_a_model_that_sees_the_answers_among_later_inputs_is_refused() -> None:
    class Next(Three):
        causal_only = True

    task = Next(answer_format="per_token", causal=True)
    for shape in ("encoder", "encoder_decoder"):
        with pytest.raises(ValueError, match="answers among the inputs that follow"):
            Layout(task, shape)
    assert Layout(task, "decoder").positions(3) == (4,)


def test_places_that_are_not_scored() -> None:
    class Partly(Three):
        partly_scored = True

    examples = replace(string(), answers=np.array([[X, 1, X], [1, 0, 0]]))
    task = Partly(answer_format="per_token", causal=True)
    assert Layout(task, "encoder")(examples).targets.tolist() == [[X, 1, X], [1, X, X]]
    assert Layout(task, "decoder")(examples).targets.tolist() == [[X, X, 1, X], [X, 1, X, X]]
    with pytest.raises(ValueError, match=r"scores some places only.*use shape encoder or decoder"):
        Layout(task, "encoder_decoder")
