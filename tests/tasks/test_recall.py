"""Associative recall, induction heads and selective copying: solvers, distributions, options."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lengthwise.batch import IGNORE
from lengthwise.keyed import philox
from lengthwise.tasks import test_items as items_of
from lengthwise.tasks.mqar import MQAR, distinct
from lengthwise.tasks.recall import InductionHeads, SelectiveCopying
from support.solving import check_card, check_layouts, chi_square_z, drawn, mistakes


def mqar(x):
    """Pairs are read while a key is followed by a value; a key that stands there a second time is asked for."""
    value, place = {}, 0
    while place + 1 < len(x) and x[place][0] == "k" and x[place + 1][0] == "v" and x[place] not in value:
        value[x[place]] = x[place + 1]
        place += 2
    answers = []
    for t, symbol in enumerate(x):
        answers.append(value[symbol] if t >= place and symbol in value else ".")
    return answers, -1


def induction(x):
    assert x[-1] == "*" and x.count("*") == 2
    place = x.index("*") + 1
    return [x[place]], place


def selective(x):
    return [symbol for symbol in x if symbol != "_"], -1


CASES = [
    (MQAR(pairs=1), mqar, range(4, 65, 2)),
    (MQAR(vocabulary=40, pairs=4), mqar, range(16, 65, 2)),
    (MQAR(pairs={64: [4, 8, 16], 32: 8}), mqar, (32, 64)),
    (InductionHeads(), induction, range(3, 65)),
    (InductionHeads(symbols=3), induction, range(3, 65)),
    (SelectiveCopying(tokens=5), selective, range(5, 65)),
    (SelectiveCopying(symbols=2, tokens=1), selective, range(1, 65)),
]
LONG = [
    (MQAR(vocabulary=8192, pairs={500: 64, 128: [8, 32]}), mqar, (128, 500)),
    (MQAR(), mqar, (66, 128, 500)),
    (InductionHeads(), induction, (65, 128, 500)),
    (SelectiveCopying(), selective, (65, 128, 500)),
]


def named(value):
    """Of a task its name and options, of a solver and lengths nothing."""
    return "-".join([value.name, *map(str, value.options.values())]) if hasattr(value, "name") else ""


@pytest.mark.parametrize(("task", "solve", "lengths"), CASES, ids=named)
def test_generators_agree_with_the_slow_solvers(task, solve, lengths):
    assert mistakes(task, drawn(task, lengths, 10_000, "solver"), solve) == 0


@pytest.mark.parametrize(("task", "solve", "lengths"), LONG, ids=named)
def test_also_at_long_lengths(task, solve, lengths):
    assert mistakes(task, drawn(task, lengths, 200, "long"), solve) == 0


@pytest.mark.parametrize(("task", "solve", "lengths"), CASES, ids=named)
def test_the_slow_solvers_see_a_wrong_answer(task, solve, lengths):
    examples = drawn(task, lengths, 50, "control")
    other = examples.answers + 1  # another symbol, or none at all
    there = np.arange(examples.answers.shape[1]) < examples.answer_lengths[:, None]
    wrong = np.where(there & (examples.answers != IGNORE), other, examples.answers)
    assert mistakes(task, replace(examples, answers=wrong), solve) == 50
    assert mistakes(task, replace(examples, evidence=examples.evidence + 1), solve) == 50


@pytest.mark.parametrize(
    ("task", "solve"),
    [(MQAR(), mqar), (MQAR(pairs=1), mqar), (InductionHeads(), induction), (SelectiveCopying(), selective)],
    ids=named,
)
def test_worked_examples(task, solve):
    for asked, answer in task.worked:
        assert solve(asked.split())[0] == answer.split()
    legal = {"mqar": MQAR(pairs=1), "selective_copying": SelectiveCopying(tokens=3)}.get(task.name, task)
    check_card(legal, solve)


@pytest.mark.parametrize(
    ("task", "solve", "lengths", "layouts"),
    [
        (MQAR(vocabulary=20, pairs=2), mqar, (8, 12), 2),
        (InductionHeads(), induction, (3, 9), 5),
        (SelectiveCopying(tokens=3), selective, (3, 8), 3),
    ],
    ids=named,
)
def test_perfect_and_random_answers_through_every_layout(task, solve, lengths, layouts):
    assert check_layouts(task, drawn(task, lengths, 300, "layouts"), solve) == layouts


# -- distributions


def slots_of(examples, pairs):
    """(B, N) the slot, from 0, of each pair's key."""
    keys = examples.inputs[:, 0 : 2 * pairs : 2]
    behind = examples.inputs[:, 2 * pairs :: 2]
    found = behind[:, None, :] == keys[:, :, None]
    assert (found.sum(axis=2) == 1).all()
    return found.argmax(axis=2)


def test_the_slots_of_two_pairs_are_drawn_without_replacement_by_the_power_law():
    task = MQAR(pairs=2, power=0.25)
    slots = slots_of(task.generate(np.full(20_000, 12), philox("slots")), 2)
    weight = np.arange(1, 5) ** (0.25 - 1.0)
    chance = weight / weight.sum()
    first_then_second = np.outer(chance, weight) / (weight.sum() - weight)[:, None]
    np.fill_diagonal(first_then_second, 0.0)
    assert chi_square_z(slots[:, 0] * 4 + slots[:, 1], first_then_second.ravel()) < 5
    even = (1 - np.eye(4)).ravel() / 12
    assert chi_square_z(slots[:, 0] * 4 + slots[:, 1], even) > 5


def test_the_published_power_puts_most_keys_near():
    slots = slots_of(MQAR(pairs=1).generate(np.full(20_000, 64), philox("near")), 1)
    weight = np.arange(1, 32) ** -0.99
    assert chi_square_z(slots[:, 0], weight / weight.sum()) < 5


def test_keys_and_values_are_uniform_and_differ():
    examples = MQAR(vocabulary=16, pairs=3).generate(np.full(20_000, 12), philox("keys"))
    keys, values = examples.inputs[:, 0:6:2], examples.inputs[:, 1:6:2]
    for k in range(3):
        assert chi_square_z(keys[:, k] - 1, np.full(7, 1 / 7)) < 5
        assert chi_square_z(values[:, k] - 8, np.full(8, 1 / 8)) < 5
    for drawn_once in (keys, values):
        assert (np.diff(np.sort(drawn_once, axis=1), axis=1) > 0).all()
    pairs = (keys[:, 0] - 1) * 7 + keys[:, 2] - 1
    assert chi_square_z(pairs, (1 - np.eye(7)).ravel() / 42) < 5


@pytest.mark.parametrize(("count", "choices"), [(2, 8), (3, 12), (3, 5), (5, 5)])
def test_distinct_draws_are_uniform(count, choices):
    numbers = distinct(30_000, count, choices, philox("distinct", count, choices))
    assert numbers.shape == (30_000, count) and numbers.min() >= 0 and numbers.max() < choices
    assert (np.diff(np.sort(numbers, axis=1), axis=1) > 0).all()
    pairs = numbers[:, 0] * choices + numbers[:, -1]
    assert chi_square_z(pairs, (1 - np.eye(choices)).ravel() / (choices * (choices - 1))) < 5


def test_random_fillers_hide_the_blanks_and_change_no_answer():
    plain, noisy = MQAR(pairs=2), MQAR(pairs=2, fillers="random")
    examples = noisy.generate(np.full(2000, 32), philox("fillers"))
    asked = examples.answers != IGNORE
    assert (asked.sum(axis=1) == 2).all() and not asked[:, :4].any() and not asked[:, 1::2].any()
    for b in range(200):
        row = examples.inputs[b]
        for t in np.flatnonzero(asked[b]):
            assert examples.answers[b, t] == row[list(row[:4:2]).index(row[t]) * 2 + 1]
    fillers = examples.inputs[:, 5::2]
    assert chi_square_z(fillers, np.full(256, 1 / 256)) < 5
    assert (plain.generate(np.full(2000, 32), philox("fillers")).inputs[:, 5::2] == 0).all()
    assert "bag_optimal" not in noisy.baselines(32)


def test_the_test_has_its_own_numbers_of_pairs():
    task = MQAR(vocabulary=300, pairs={64: 4, 128: [8, 16]}, test_pairs={64: [4, 8], 256: 64})

    def numbers(length, split):
        examples = task.generate(np.full(400, length), philox("numbers"), split)
        return np.bincount((examples.answers != IGNORE).sum(axis=1), minlength=65)

    assert numbers(64, "train")[4] == numbers(64, "val")[4] == 400
    assert chi_square_z(np.repeat([0, 1], numbers(64, "test")[[4, 8]]), [0.5, 0.5]) < 5
    assert numbers(64, "test")[[4, 8]].sum() == 400
    assert numbers(128, "test")[[8, 16]].sum() == numbers(128, "train")[[8, 16]].sum() == 400
    assert numbers(256, "train")[64] == numbers(256, "test")[64] == 400
    assert (items_of(task, 256, 8).answers != IGNORE).sum() == 8 * 64
    mean = np.mean([4, 8])
    assert task.baselines(64)["bag_optimal"] == pytest.approx(1 / mean)


def test_the_bag_and_the_key_tell_the_values_only():
    """A rule that knows them answers one in N, whatever it picks: here the value that comes first."""
    examples = MQAR(pairs=4).generate(np.full(4000, 32), philox("bag"))
    hits = examples.answers == np.sort(examples.inputs[:, 1:8:2], axis=1)[:, :1]
    share = hits.sum() / (examples.answers != IGNORE).sum()
    assert abs(share - MQAR(pairs=4).baselines(32)["bag_optimal"]) < 0.02


def test_induction_places_and_symbols_are_uniform():
    examples = InductionHeads(symbols=5).generate(np.full(20_000, 9), philox("induction"))
    assert chi_square_z(examples.evidence - 1, np.full(7, 1 / 7)) < 5
    assert chi_square_z(examples.answers[:, 0], np.full(4, 1 / 4)) < 5
    assert chi_square_z(examples.inputs[examples.inputs < 4], np.full(4, 1 / 4)) < 5


@pytest.mark.parametrize("length", [22, 30, 100])
def test_the_window_of_induction_heads(length):
    """Measured: the first `*` in sight answers, else the window's first symbol."""
    task = InductionHeads(symbols=6)
    examples = task.generate(np.full(20_000, length), philox("window", length))
    window = examples.inputs[:, -21:]
    shown = (window[:, :-1] == 5).any(axis=1)
    place = np.where(shown, (window == 5).argmax(axis=1) + 1, 0)
    right = window[np.arange(len(window)), place] == examples.answers[:, 0]
    expected = task.baselines(length)["window"]
    assert abs(right.mean() - expected) <= 4 * np.sqrt(expected * (1 - expected) / 20_000)


def test_selective_places_and_data_are_uniform():
    examples = SelectiveCopying(symbols=6, tokens=3).generate(np.full(20_000, 5), philox("selective"))
    taken = (examples.inputs > 0) @ (1 << np.arange(5))
    chances = np.array([bin(code).count("1") == 3 for code in range(32)]) / 10
    assert chi_square_z(taken, chances) < 5
    assert chi_square_z(examples.answers - 1, np.full(5, 1 / 5)) < 5
    assert chi_square_z(examples.answers[:, 0] * 5 + examples.answers[:, 2] - 6, np.full(25, 1 / 25)) < 5


# -- options and lengths


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: MQAR(vocabulary=3), ("vocabulary=3", "from 4")),
        (lambda: MQAR(pairs=0), ("pairs=0", "from 1 to 127")),
        (lambda: MQAR(pairs=128), ("pairs=128", "from 1 to 127")),
        (lambda: MQAR(pairs={64: 17}), ("pairs=", "64", "a quarter of the length")),
        (lambda: MQAR(pairs={63: 4}), ("pairs=", "63", "even lengths")),
        (lambda: MQAR(pairs={64: []}), ("pairs=", "even lengths")),
        (lambda: MQAR(pairs={"many": 4}), ("pairs=", "many")),
        (lambda: MQAR(pairs={}), ("pairs={}", "at least one")),
        (lambda: MQAR(test_pairs={64: [4, 4]}), ("test_pairs=", "different")),
        (lambda: MQAR(power=0), ("power=0", "above 0")),
        (lambda: MQAR(fillers="noise"), ("fillers='noise'", "blank or random")),
        (lambda: InductionHeads(symbols=2), ("symbols=2", "from 3")),
        (lambda: SelectiveCopying(tokens=0), ("tokens=0", "from 1")),
        (lambda: MQAR().check_length(14), ("length 14", "at least 16")),
        (lambda: MQAR().check_length(17), ("length 17", "even length of at least 16")),
        (lambda: MQAR(pairs={32: 4, 64: 8}).check_length(48), ("length 48", "use one of 32, 64")),
        (
            lambda: MQAR(pairs={32: 4}, test_pairs={128: 8}).check_length(256),
            ("length 256", "from 32 to 128"),
        ),
        (lambda: MQAR(pairs=4, test_pairs={8: 2}).check_length(10), ("length 10", "or one of 8")),
        (lambda: InductionHeads().check_length(2), ("length 2", "at least 3")),
        (lambda: SelectiveCopying(tokens=4).check_length(3), ("length 3", "at least 4")),
    ],
)
def test_what_is_impossible_is_said(build, words):
    with pytest.raises(ValueError) as error:
        build()
    for word in ("task ", *words):
        assert word in str(error.value), error.value


def test_a_table_of_pairs_is_the_same_task_however_it_is_written():
    tables = ({64: 4, 256: [32, 16]}, {"256": (16, 32), "64": [4]})
    one, other = (MQAR(pairs=table) for table in tables)
    assert one.identity == other.identity == MQAR(**one.options).identity
    assert one.identity != MQAR(pairs={64: 4, 256: [16]}).identity
    one.check_length(64)
    assert one.legal_length(64) is None and MQAR(pairs=4, test_pairs={8: 2}).legal_length(8) is None
