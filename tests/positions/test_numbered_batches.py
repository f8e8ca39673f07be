"""Position numbers in batches: which tokens they belong to, what they are keyed by, and that decoding sees the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lengthwise.batch import Batch
from lengthwise.evaluation.decoding import at_targets, greedy
from lengthwise.evaluation.length import evaluate_lengths
from lengthwise.evaluation.symmetry import certificate
from lengthwise.evaluation.verdict import kept, verdicts
from lengthwise.nn import ALiBi, Decoder, Encoder, EncoderDecoder, Learned, NoPosition
from lengthwise.positions import Floats, Offset, Positions, Randomized, TaskSupplied
from lengthwise.tasks import Copy, Examples, Layout, Reverse, WordOrder, test_items
from lengthwise.training.data import global_batch, micro_batches

SHAPES = {"encoder": Encoder, "decoder": Decoder, "encoder_decoder": EncoderDecoder}


def string(task: Reverse | Copy) -> Examples:
    """Inputs of 3 and 1 symbols."""
    inputs = np.array([[0, 1, 1], [1, 0, 0]])
    lengths = np.array([3, 1])
    answers = task.answer(inputs, lengths)
    return Examples(inputs, lengths, answers, lengths, np.array([-1, -1]))


# --- the task's own numbers, written out ---


@pytest.mark.parametrize(
    ("shape", "task", "kind", "expected", "expected_source"),
    [
        ("encoder", Reverse(), "coupled", [[1, 2, 3, 3, 2, 1], [1, 1, 1, 1, 0, 0]], None),
        ("encoder", Reverse(), "index", [[1, 2, 3, 1, 2, 3], [1, 1, 2, 3, 0, 0]], None),
        # BOS x x x SEP y y y: BOS and SEP have no number
        ("decoder", Reverse(), "coupled", [[0, 1, 2, 3, 0, 3, 2, 1], [0, 1, 0, 1, 1, 1, 0, 0]], None),
        ("decoder", Copy(), "coupled", [[0, 1, 2, 3, 0, 1, 2, 3], [0, 1, 0, 1, 2, 3, 0, 0]], None),
        ("encoder_decoder", Reverse(), "coupled", [[0, 3, 2, 1], [0, 1, 1, 1]], [[1, 2, 3], [1, 0, 0]]),
    ],
    ids=["reversed slots", "slots", "reversed after a separator", "after a separator", "two sides"],
)
def test_the_tasks_numbers_stand_where_their_symbols_do(shape, task, kind, expected, expected_source) -> None:
    layout = Layout(task, shape, rule=TaskSupplied(kind=kind))
    batch = layout(string(task))
    assert batch.positions is not None
    real = batch.key_mask
    assert torch.equal(batch.positions[real], torch.tensor(expected)[real])
    if expected_source is not None:
        assert batch.source is not None and batch.source.positions is not None
        there = batch.source.key_mask
        assert torch.equal(batch.source.positions[there], torch.tensor(expected_source)[there])


def test_coupled_symbols_are_equal_where_the_task_copies_them() -> None:
    """Whatever the length: equal numbers, equal symbols."""
    task = Reverse(symbols=7)
    batch = Layout(task, "decoder", rule=TaskSupplied())(test_items(task, 9, 50))
    assert batch.positions is not None
    for number in range(1, 10):
        pairs = batch.tokens[batch.positions == number].view(50, 2)
        assert torch.equal(pairs[:, 0], pairs[:, 1])


def test_a_task_without_such_numbers_says_which_it_has() -> None:
    with pytest.raises(ValueError, match=r"word_order gives no position numbers .* at all"):
        Layout(WordOrder(), rule=TaskSupplied())
    with pytest.raises(ValueError, match="kind 'abacus'; it has index, coupled"):
        Layout(Copy(), rule=TaskSupplied(kind="abacus"))


# --- drawn ones ---

DRAWN = {
    "offset": Offset(range=64, at_test="same"),
    "randomized": Randomized(range=64),
    "floats": Floats(range=64),
}


@pytest.mark.parametrize("rule", DRAWN.values(), ids=list(DRAWN))
@pytest.mark.parametrize("shape", SHAPES)
def test_a_training_batch_is_a_function_of_seed_and_step(shape: str, rule: Positions) -> None:
    layout = Layout(Copy(), shape, rule=rule)

    def batch(**which: int) -> Batch:
        options = {"data_seed": 0, "step": 0, **which}
        return global_batch(layout.task, layout, lengths=[6], batch_size=8, split="train", **options)

    first = batch()
    assert first.positions is not None
    assert torch.equal(first.positions, batch().positions)
    for other in (batch(step=1), batch(data_seed=1)):
        assert not torch.equal(first.positions, other.positions)
    plain = global_batch(
        Copy(), Layout(Copy(), shape), lengths=[6], batch_size=8, split="train", data_seed=0, step=0
    )
    assert torch.equal(first.tokens[first.key_mask], plain.tokens[plain.key_mask]), "the symbols stay"
    ranks = [next(micro_batches(first, 0, rank=rank, world=2, accumulate=1)).batch for rank in (0, 1)]
    assert torch.equal(torch.cat([part.positions for part in ranks]), first.positions)
    assert all(
        len(torch.unique(row[mask])) == mask.sum()
        for row, mask in zip(first.positions, first.key_mask, strict=True)
    )


@pytest.mark.parametrize("rule", DRAWN.values(), ids=list(DRAWN))
def test_test_numbers_are_fixed_and_more_items_change_none(rule: Positions) -> None:
    layout = Layout(WordOrder(), "encoder", rule=rule)
    few, many = (layout(test_items(layout.task, 9, count), "test", 9).positions for count in (20, 400))
    assert torch.equal(few, many[:20])
    assert not torch.equal(few, layout(test_items(layout.task, 9, 20), "test", 10).positions)
    assert not torch.equal(few, layout.training_batch(test_items(layout.task, 9, 20), "train", 9).positions)


def test_numbers_do_not_depend_on_how_long_an_answer_is() -> None:
    """Decoding symbol by symbol, a model does not know it yet."""
    task, layout = Copy(), Layout(Copy(), "decoder", rule=Randomized(range=64))
    whole = test_items(task, 5, 6)
    shorter = Examples(
        whole.inputs, whole.lengths, whole.answers[:, :2], whole.lengths * 0 + 2, whole.evidence
    )
    assert torch.equal(layout(whole, 1).positions, layout(shorter, 1).positions)


@pytest.mark.parametrize("shape", ["decoder", "encoder_decoder"])
@pytest.mark.parametrize("rule", [*DRAWN.values(), TaskSupplied()], ids=[*DRAWN, "task"])
def test_greedy_decoding_sees_the_numbers_of_the_forced_pass(shape: str, rule: Positions) -> None:
    task = Copy(symbols=3)
    layout = Layout(task, shape, rule=rule)
    position = ALiBi if isinstance(rule, Floats) else Learned
    model = SHAPES[shape](
        len(layout.vocabulary), width=16, layers=2, heads=2, position=position, seed=3
    ).eval()
    examples = test_items(task, 6, 40)
    answers = greedy(model, examples, layout)
    batch = layout(examples)
    # the model's own answers in place of the right ones: forced, it must say them again
    ids = answers[:, :6].clone()
    own = Examples(examples.inputs, examples.lengths, ids.numpy(), examples.answer_lengths, examples.evidence)
    forced = layout(own)
    with torch.no_grad():
        said = model(forced).argmax(-1)
    scored = batch.targets >= 0
    told = at_targets(answers, batch.targets)
    ended = (told == layout.vocabulary.eos).cumsum(1) > 1  # what follows an end is filled in
    compared = scored & ~ended & (told >= 0)
    assert torch.equal(said[compared], told[compared])
    assert compared.sum() > 40


def test_control_other_numbers_give_other_answers() -> None:
    task = Copy(symbols=3)
    layout = Layout(task, "decoder", rule=Randomized(range=64))
    model = Decoder(len(layout.vocabulary), width=16, layers=2, heads=2, position=Learned).eval()
    batch = layout(test_items(task, 6, 40))
    other = layout(test_items(task, 6, 40), "other")
    assert not torch.allclose(model(batch), model(other))


# --- what is measured ---


def test_flags_say_which_numbers_training_has_shown() -> None:
    """A test of 30 positions is within the numbers that a random start has shown, and beyond those of 0…N-1."""
    task = WordOrder()
    for rule, flags in ((None, "untrained_positions"), (Offset(range=64), "")):
        layout = Layout(task, "encoder", rule=rule)
        trained = max(layout.spans(n, training=True)[0] for n in (4, 10))
        model = Encoder(
            len(layout.vocabulary), width=16, layers=1, heads=2, position=Learned, trained_length=trained
        )
        rows = evaluate_lengths(model, task, layout, [30], 4, train_lengths=[4, 10])
        assert {row["flags"] for row in rows if row["stratum"] == "all"} == {flags}


@pytest.mark.parametrize(
    ("rule", "reversal"),
    [(None, True), (Offset(range=64, at_test="same"), True), (Randomized(range=64), False)],
)
def test_uneven_numbers_keep_no_reversal(rule: Positions | None, reversal: bool) -> None:
    layout = Layout(WordOrder(), "encoder", rule=rule)
    model = Encoder(len(layout.vocabulary), width=16, layers=2, heads=2, position=ALiBi)
    declared = kept(model, layout)
    assert ("reversal" in declared) == reversal
    rows = certificate(model, layout.task, layout, length=8, draws=2, sequences=4)
    found = {row["symmetry"]: row for row in verdicts(rows, declared)}
    assert all(row["agrees"] for row in found.values()), found
    blind = Encoder(len(layout.vocabulary), width=16, layers=1, heads=2, position=NoPosition)
    assert kept(blind, layout) == blind.symmetries
