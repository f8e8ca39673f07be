"""The three axes of length: what is changed, what is not, and what is known of some encodings beforehand."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from lengthwise.batch import IGNORE
from lengthwise.evaluation.axes import (
    AXES,
    COLUMNS,
    evaluate_axes,
    refusal,
    renumbered,
    with_distractors,
    with_gap,
)
from lengthwise.keyed import philox
from lengthwise.nn.position import Learned
from lengthwise.positions import Floats, Offset, Randomized, TaskSupplied
from lengthwise.tasks import (
    AboveMean,
    Copy,
    First,
    Last,
    Layout,
    Majority,
    Offsets,
    Reverse,
    SetMax,
    UniqueCopy,
    WordOrder,
)
from lengthwise.tasks.items import test_items as items_of

TRAINED, TESTED = [4, 5, 6], [6, 9, 15]


def along(model, layout, **options):
    options.setdefault("count", 64)
    options.setdefault("train_lengths", TRAINED)
    options.setdefault("test_lengths", TESTED)
    return evaluate_axes(model, layout.task, layout, **options)


def curve(rows, axis, column="loss"):
    return [row[column] for row in rows if row["axis"] == axis]


def shift(batch, step):
    return renumbered(batch, (lambda n: n + step,) * 2)


@pytest.fixture
def encoder():
    return Layout(WordOrder(), "encoder", "front")


def test_the_table(encoder, build):
    rows = along(build(encoder, "learned", trained=7), encoder)
    assert all(tuple(row) == COLUMNS for row in rows)
    assert [(row["axis"], row["value"], row["length"], row["reaches"]) for row in rows] == [
        ("index", 0, 6, 6),
        ("index", 3, 6, 9),
        ("index", 9, 6, 15),
        ("distance", 1.0, 6, 6),
        ("distance", 9 / 6, 6, 9),  # the last of 7 positions, 6, becomes the last of 10, 9
        ("distance", 15 / 6, 6, 15),
        ("gap", 0, 6, 6),
        ("gap", 3, 6, 9),
        ("gap", 9, 6, 15),
        ("keys", 0, 6, 6),
        ("keys", 3, 6, 9),
        ("keys", 9, 6, 15),
        ("length", 6, 6, 6),
        ("length", 9, 9, 9),
        ("length", 15, 15, 15),
    ]
    assert {row["n"] for row in rows} == {64}
    flags = {(row["axis"], row["reaches"]): row["flags"] for row in rows}
    for axis in ("index", "distance", "gap", "length"):
        assert (flags[axis, 6], flags[axis, 9]) == ("", "untrained_positions")
    assert {flags["keys", reached] for reached in (6, 9, 15)} == {""}  # no number is new


def test_where_nothing_is_changed_all_axes_say_what_the_test_says(encoder, build):
    rows = along(build(encoder, "rotary"), encoder)
    first = [row for row in rows if row["reaches"] == 6]
    assert len({(row["loss"], row["token_accuracy"], row["exact_match"]) for row in first}) == 1


# --- index


def test_a_raised_index_is_what_a_table_moved_by_hand_gives(encoder, build):
    """Rows 4…10 of the table, put at 0…6."""
    table = partial(Learned, max_length=32)
    model, moved = build(encoder, table, trained=7), build(encoder, table, trained=7)
    weight = model.stack.position.table.weight
    with torch.no_grad():
        moved.stack.position.table.weight[:28] = weight[4:]
    batch = encoder(items_of(encoder.task, 6, 8))
    model.eval(), moved.eval()
    assert torch.equal(model(shift(batch, 4)), moved(batch))
    assert not torch.allclose(model(shift(batch, 4)), model(batch), atol=1e-3)


@pytest.mark.parametrize("pe", ("rotary", "alibi", "t5", "none"))
def test_the_index_changes_nothing_where_only_distances_count(pe, encoder, build):
    losses = curve(along(build(encoder, pe).double(), encoder, axes=["index"]), "index")
    assert max(losses) - min(losses) < 1e-9
    accuracies = curve(along(build(encoder, pe), encoder, axes=["index"]), "index", "token_accuracy")
    assert len(set(accuracies)) == 1


@pytest.mark.parametrize("pe", ("learned", "sinusoidal"))
def test_the_index_counts_where_it_is_known(pe, encoder, build):
    losses = curve(along(build(encoder, pe), encoder, axes=["index"]), "index")
    assert max(losses) - min(losses) > 1e-4


def train(model, layout, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model.train()
    for step in range(steps):
        lengths = np.resize(np.array(TRAINED), 96)
        batch = layout(layout.task.generate(lengths, philox("axes tests", step)))
        loss = nn.functional.cross_entropy(
            model(batch).flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def test_a_trained_table_collapses_along_the_index_and_not_along_the_keys(build):
    """The first of some symbols: one number decides, so nothing else can."""
    layout = Layout(First(symbols=4), "encoder", "front")
    model = train(build(layout, "learned", trained=7, layers=1, dropout=0.0), layout, 80)
    rows = along(model, layout, count=256)
    index, keys = (curve(rows, axis, "token_accuracy") for axis in ("index", "keys"))
    assert index[0] > 0.95 and index[-1] < 0.6
    assert keys[1] > 0.9


# --- distance


def test_numbers_are_stretched_to_those_of_the_longer_input(encoder, build, monkeypatch):
    seen = []
    model = build(encoder, "rotary")
    forward = model.forward

    def watched(batch):
        seen.append((batch.tokens.shape[1], batch.positions))
        return forward(batch)

    monkeypatch.setattr(model, "forward", watched)
    along(model, encoder, axes=["distance"])
    numbers = {tuple(positions[0].tolist()) for width, positions in seen if positions is not None}
    assert numbers == {(0, 2, 3, 4, 6, 8, 9), (0, 2, 5, 8, 10, 12, 15)}
    assert {width for width, positions in seen if positions is not None} == {7}


@pytest.mark.parametrize("pe", ("rotary", "alibi", "t5", "sinusoidal", "learned"))
def test_distances_count_for_all_that_know_them(pe, encoder, build):
    losses = curve(along(build(encoder, pe), encoder, axes=["distance"]), "distance")
    assert max(losses) - min(losses) > 1e-4


@pytest.mark.parametrize("shape", ("encoder", "decoder", "encoder_decoder"))
def test_without_an_encoding_index_and_distance_are_flat_to_the_bit(shape, build):
    layout = Layout(WordOrder(), shape)
    rows = along(build(layout, "none"), layout)
    for axis in ("index", "distance", "gap"):
        assert len(set(curve(rows, axis))) == 1
    assert len(set(curve(rows, "keys"))) == 3  # but there are more keys


def test_numbers_that_are_given_are_moved_and_not_replaced(encoder):
    batch = encoder(items_of(encoder.task, 5, 2))
    given = replace(batch, positions=torch.tensor([[0, 3, 4, 9, 11, 20], [1, 2, 3, 4, 5, 6]]))
    assert shift(given, 2).positions.tolist() == [[2, 5, 6, 11, 13, 22], [3, 4, 5, 6, 7, 8]]
    real = replace(batch, positions=torch.rand(2, 6))
    assert torch.equal(shift(real, 2).positions, real.positions + 2)


def test_what_a_pad_is_called_cannot_be_past_a_table(encoder):
    batch = encoder(encoder.task.generate(np.array([4, 6]), philox("pads")))
    moved = shift(batch, 10).positions
    assert moved.tolist() == [[10, 11, 12, 13, 14, 14, 14], [10, 11, 12, 13, 14, 15, 16]]


def test_past_the_table_it_is_not_defined_and_stops_nothing_else(encoder, build):
    model = build(encoder, partial(Learned, max_length=12), trained=7)
    rows = along(model, encoder)
    figures = {(row["axis"], row["reaches"]): (row["token_accuracy"], row["flags"]) for row in rows}
    for axis in ("index", "distance", "gap", "length"):
        assert figures[axis, 15] == (None, "not_defined")
        assert figures[axis, 9][0] is not None
    assert figures["keys", 15][0] is not None


# --- gap


def test_a_gap_is_at_one_place_and_parts_no_neighbours_that_matter(encoder):
    examples = items_of(encoder.task, 8, 64)
    batch = with_gap(encoder(examples), encoder.task, encoder, examples, 5, philox("gap"))
    steps = batch.positions.diff(dim=1)
    assert ((steps == 1).sum(1) == 7).all() and ((steps == 6).sum(1) == 1).all()
    places = (steps == 6).int().argmax(1)  # between this position and the next; input i is at position i + 1
    evidence = torch.from_numpy(examples.evidence)
    assert (places != evidence + 1).all()  # `not` and its adjective stay together
    assert set((places - evidence - 1).tolist()) >= {-1, 1} and places.min() > 0


def test_a_gap_parts_what_is_apart_and_a_stretch_parts_all(encoder, build):
    """Reads the number of the symbol behind `not`, and says so where that is not the next."""

    class NextByNumber(nn.Module):
        prefix_stable, weight = True, None

        def position_flags(self, *spans):
            return ()

        def forward(self, batch):
            numbers = batch.positions
            if numbers is None:
                numbers = torch.arange(batch.tokens.shape[1]).expand(batch.tokens.shape)
            logits = torch.zeros(*batch.tokens.shape, len(encoder.vocabulary))
            negation = encoder.task.fillers
            wanted = numbers[batch.tokens == negation] + 1
            for row, number in enumerate(wanted.tolist()):
                for symbol in batch.tokens[row][numbers[row] == number].tolist():
                    logits[row, 0, symbol] += 1
            return logits

    rows = along(NextByNumber(), encoder)
    right = {axis: curve(rows, axis, "token_accuracy")[1:] for axis in (*AXES, "length")}
    assert {axis: set(values) for axis, values in right.items() if axis != "distance"} == {
        axis: {1.0} for axis in ("index", "gap", "keys", "length")
    }
    assert max(right["distance"]) < 0.9


# --- keys


LAYOUTS = [
    (WordOrder(), "encoder", "front"),
    (WordOrder(), "encoder", "end"),
    (WordOrder(), "encoder", "mean"),
    (WordOrder(), "decoder", "end"),
    (WordOrder(), "encoder_decoder", "end"),
    (SetMax(symbols=8), "encoder", "end"),
    (Last(), "decoder", "end"),
    (Majority(), "encoder", "front"),
    (Copy(), "encoder", "end"),
    (Copy(), "decoder", "end"),
    (Offsets(), "decoder", "end"),
    (AboveMean(), "decoder", "end"),
]
NAMES = [f"{task.name}-{shape}-{readout}" for task, shape, readout in LAYOUTS]


def with_extra(layout, extra=5, length=7):
    examples = items_of(layout.task, length, 6)
    plain = layout(examples)
    changed = with_distractors(plain, layout.task, layout, examples, extra, philox("distractors"))
    return plain, changed


@pytest.mark.parametrize("chosen", LAYOUTS, ids=NAMES)
def test_distractors_take_nothing_away_and_bring_no_new_number(chosen):
    layout = Layout(*chosen)
    plain, changed = with_extra(layout)
    before, after = (batch if batch.source is None else batch.source for batch in (plain, changed))
    width = before.tokens.shape[1]
    assert after.tokens.shape[1] == width + 5 and bool(after.key_mask.all())
    assert set(after.positions.flatten().tolist()) <= set(range(width))
    assert (after.positions.diff(dim=1) >= 0).all()  # in order: what reads memory's order reads theirs
    vocabulary = layout.vocabulary
    neutral = {vocabulary.names.index(symbol) for symbol in layout.task.neutral_symbols}
    allowed = neutral or {vocabulary.bos, vocabulary.slot}
    for row in range(6):
        old = list(zip(before.tokens[row].tolist(), range(width), strict=True))
        new = list(zip(after.tokens[row].tolist(), after.positions[row].tolist(), strict=True))
        for pair in old:  # every symbol is still there under its number
            new.remove(pair)
        assert len(new) == 5 and {symbol for symbol, _ in new} <= allowed
    scored = [[t for t in batch.targets[0].tolist() if t != IGNORE] for batch in (plain, changed)]
    assert scored[0] == scored[1]  # the same answers in the same order, and none at a distractor


@pytest.mark.parametrize("chosen", LAYOUTS, ids=NAMES)
def test_an_order_blind_reader_of_the_right_positions_is_still_right(chosen, cheats):
    """The targets stand where they belong: one who knows them is right along every axis."""
    layout = Layout(*chosen)
    axes = [axis for axis in AXES if refusal(axis, layout.task, layout, (7, 9, 15)) is None]
    assert set(AXES) - set(axes) <= {"gap"}
    oracle = cheats["Oracle"](len(layout.vocabulary))
    rows = along(oracle, layout, train_lengths=[5, 7], test_lengths=[9, 15], count=16, axes=axes)
    assert {row["exact_match"] for row in rows} == {1.0}


def test_answers_are_scored_at_the_symbols_they_belong_to():
    layout = Layout(Copy(), "encoder")
    plain, changed = with_extra(layout)
    for batch in (plain, changed):
        assert (batch.tokens[batch.targets != IGNORE] == layout.vocabulary.slot).all()
    at_slots = [batch.positions[batch.targets != IGNORE] for batch in (shift(plain, 0), changed)]
    assert torch.equal(*at_slots)  # the slot itself, and no copy of it, which has its number but follows it


def test_a_blind_mean_of_all_keys_sees_them(encoder, build):
    assert len(set(curve(along(build(encoder, "none"), encoder, axes=["keys"]), "keys"))) == 3


def test_a_model_that_decodes_is_decoded(build):
    """Learned positions that are interpolated know the total length, so every answer is really decoded."""
    layout = Layout(Reverse(symbols=4), "decoder")
    model = build(layout, partial(Learned, max_length=64, beyond="interpolate"), trained=14)
    rows = along(model, layout, count=8, test_lengths=[7, 9], axes=["index", "distance", "keys"])
    assert len(rows) == 12 and all(row["n"] == 8 for row in rows)


@pytest.mark.parametrize(
    "chosen, says",
    [
        ((Majority(), "encoder", "mean"), "mean of all positions"),
        ((Offsets(), "encoder", "end"), "an answer of its own"),
        ((UniqueCopy(), "encoder_decoder", "end"), "holds inputs alone"),
    ],
)
def test_where_distractors_would_mean_nothing_they_are_refused(chosen, says, build):
    layout = Layout(*chosen)
    assert says in refusal("keys", layout.task, layout, (5, 7))
    assert refusal("index", layout.task, layout, (5, 7)) is None
    assert "no neutral symbols" in refusal("gap", layout.task, layout, (5, 7))
    with pytest.raises(ValueError, match=says):
        along(build(layout), layout, train_lengths=[5], test_lengths=[7], axes=["keys"])
    assert along(build(layout), layout, train_lengths=[5], test_lengths=[7], axes=["index"], count=4)


def test_wrong_questions_are_refused(encoder, build):
    assert AXES == ("index", "distance", "gap", "keys")
    with pytest.raises(ValueError, match="'depth' is unknown"):
        along(build(encoder), encoder, axes=["depth"])
    with pytest.raises(ValueError, match="no test length is longer than the trained 6"):
        along(build(encoder), encoder, test_lengths=[4, 6])


# --- other rules of position numbers


def seen_numbers(model, layout, monkeypatch, axis, reached, length=6):
    """The axis's value, and the numbers of the plain and of the changed batch, source first."""
    batches = []
    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda batch: batches.append(batch) or forward(batch))
    rows = along(model, layout, train_lengths=[length], test_lengths=[reached], count=8, axes=[axis])
    whole = [batch for batch in batches if len(batch) == 8]
    sides = [[b.positions] if b.source is None else [b.source.positions, b.positions] for b in whole]
    return rows[1]["value"], *sides[:2]


class Fillers(Copy):
    """A copy that says that a gap may be anywhere, to see what a gap does to the numbers that it has."""

    neutral_symbols = ("a",)


@pytest.mark.parametrize("shape", ("encoder", "decoder", "encoder_decoder"))
@pytest.mark.parametrize("kind", ("coupled", "index"))
@pytest.mark.parametrize("axis, value", [("index", 4), ("distance", 10 / 6), ("gap", 4)])
def test_the_tasks_own_numbers_rise_by_its_own_and_none_stays_none(
    axis, value, kind, shape, build, monkeypatch
):
    """At 6 symbols the highest number is 6, at 10 it is 10; BOS and SEP have none."""
    layout = Layout(Fillers(), shape, rule=TaskSupplied(kind=kind, max_offset=20))
    got, plain, changed = seen_numbers(build(layout, "rotary", trained=30), layout, monkeypatch, axis, 10)
    assert got == value
    assert any((numbers == 0).any() for numbers in plain) or shape == "encoder"
    pairs = {}
    for before, after in zip(plain, changed, strict=True):
        assert torch.equal(after == 0, before == 0)
        for row, (old, new) in enumerate(zip(before.tolist(), after.tolist(), strict=True)):
            for pair in zip(old, new, strict=True):
                pairs.setdefault(row, set()).add(pair)
    for found in pairs.values():
        moved = dict(found)
        assert len(moved) == len(found)  # equal numbers stay equal
        assert max(moved.values()) == 10
        if axis == "index":
            assert all(new == old + 4 for old, new in found if old)
        elif axis == "distance":
            assert all(new == round(old * 10 / 6) for old, new in found)
        else:
            first = min(old for old, new in found if new != old)
            assert first > 1 and all(new == old + 4 * (old >= first) for old, new in found)


class Bounded(Fillers):
    """As `Fillers`, with room for 20 numbers up to length 20."""

    def highest_number(self, length, kind):
        return max(length, 20)


def test_numbers_that_a_longer_input_does_not_raise_are_not_raised():
    layout = Layout(Bounded(), "decoder", rule=TaskSupplied(kind="index"))
    for axis in ("index", "distance", "gap"):
        said = refusal(axis, layout.task, layout, (6, 10, 20))
        assert f"{axis}: positions=task (kind index of task copy) brings no larger numbers" in said
        assert refusal(axis, layout.task, layout, (6, 10, 21)) is None
    assert refusal("keys", layout.task, layout, (6, 10, 20)) is None


@pytest.mark.parametrize("rule", [Offset(range=64, at_test="same"), Randomized(range=64), Floats(range=64)])
@pytest.mark.parametrize("axis", ("index", "distance", "gap"))
def test_numbers_from_one_range_cannot_be_raised(axis, rule, build):
    layout = Layout(WordOrder(), "encoder", "front", rule=rule)
    said = f"{axis}: positions={type(rule).__name__.lower()} brings no larger numbers with length"
    with pytest.raises(ValueError, match=said):
        along(build(layout, "rotary", trained=64), layout, axes=[axis])


@pytest.mark.parametrize("rule", [Offset(range=64), Randomized(range=64, at_test="sequential")])
def test_where_the_test_counts_the_axes_are_those_of_counting(rule, encoder, build):
    layout = Layout(WordOrder(), "encoder", "front", rule=rule)
    model = build(layout, "sinusoidal", trained=64)
    assert along(model, layout) == along(model, encoder)


@pytest.mark.parametrize("rule", [Offset(range=64, at_test="same"), Randomized(range=64)])
def test_more_keys_are_more_keys_by_any_rule(rule, build, monkeypatch):
    layout = Layout(WordOrder(), "encoder", "front", rule=rule)
    value, (plain,), (changed,) = seen_numbers(
        build(layout, "rotary", trained=64), layout, monkeypatch, "keys", 9
    )
    assert value == 3 and changed.shape[1] == plain.shape[1] + 3
    for before, after in zip(plain.tolist(), changed.tolist(), strict=True):
        assert set(after) == set(before)


def test_an_axis_named_twice_is_measured_once(encoder, build):
    model = build(encoder)
    assert along(model, encoder, axes=["index", "index"]) == along(model, encoder, axes=["index"])


def test_the_same_call_gives_the_same_figures_and_leaves_the_model_alone(encoder, build):
    model = build(encoder, "learned").train()
    first = along(model, encoder)
    torch.manual_seed(9)
    assert first == along(model, encoder) and model.training
    assert [r for r in first if r["axis"] == "keys"] == along(model, encoder, axes=["keys"])[:3]
