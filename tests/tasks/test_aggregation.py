"""Answers from a whole set: its maximum, sum, number of kinds, the class of its largest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lengthwise.keyed import philox
from lengthwise.tasks import aggregation, max_retrieval
from lengthwise.tasks.aggregation import DigitSum, MaxRegression, UniqueCount
from lengthwise.tasks.max_retrieval import MaxRetrieval
from support.solving import check_card, check_layouts, chi_square_z, drawn, mistakes


def largest(x):
    numbers = [int(symbol) for symbol in x]
    return [str(max(numbers))], numbers.index(max(numbers))


def digit_sum(x):
    assert "0" not in x
    return list(str(sum(int(symbol) for symbol in x))), -1


def unique(x):
    return [str(len(set(x)))], -1


def retrieval(x):
    """Of rows (value, one-hot class), or of "value/class" as on the card."""
    items = [symbol.split("/") for symbol in x] if isinstance(x, list) else []
    for value, *one_hot in x.tolist() if not items else []:
        assert sorted(set(one_hot)) == [0.0, 1.0] and sum(one_hot) == 1.0 and 0.0 <= value < 1.0
        items.append([value, f"c{one_hot.index(1.0)}"])
    best = 0
    for place, (value, _) in enumerate(items):
        if float(value) > float(items[best][0]):
            best = place
    return [items[best][1]], best


ALL = range(1, 65)
CASES = [
    (MaxRegression(), largest),
    (MaxRegression(largest=3), largest),
    (DigitSum(), digit_sum),
    (UniqueCount(), unique),
    (UniqueCount(symbols=40), unique),
    (MaxRetrieval(), retrieval),
    (MaxRetrieval(classes=2), retrieval),
]


def named(value):
    """Of a task its name and options, of a solver and lengths nothing."""
    return "-".join([value.name, *map(str, value.options.values())]) if hasattr(value, "name") else ""


@pytest.mark.parametrize(("task", "solve"), CASES, ids=named)
def test_generators_agree_with_the_slow_solvers(task, solve):
    assert mistakes(task, drawn(task, ALL, 10_000, "solver"), solve) == 0


@pytest.mark.parametrize(("task", "solve"), CASES, ids=named)
def test_also_at_long_lengths(task, solve):
    assert mistakes(task, drawn(task, (65, 128, 500), 200, "long"), solve) == 0


@pytest.mark.parametrize(("task", "solve"), CASES, ids=named)
def test_the_slow_solvers_see_a_wrong_answer(task, solve):
    examples = drawn(task, ALL, 50, "control")
    assert mistakes(task, replace(examples, answers=examples.answers + 1), solve) == 50
    assert mistakes(task, replace(examples, evidence=examples.evidence + 1), solve) == 50


@pytest.mark.parametrize(("task", "solve"), CASES[::2], ids=named)
def test_worked_examples(task, solve):
    check_card(type(task)(), solve)


@pytest.mark.parametrize(
    ("task", "solve", "layouts"),
    [
        (MaxRegression(largest=9), largest, 5),
        (DigitSum(), digit_sum, 3),
        (UniqueCount(symbols=4), unique, 5),
        (MaxRetrieval(classes=3), retrieval, 5),
    ],
    ids=named,
)
def test_perfect_and_random_answers_through_every_layout(task, solve, layouts):
    assert check_layouts(task, drawn(task, (1, 4, 13), 300, "layouts"), solve) == layouts


# -- distributions


def test_numbers_are_uniform_from_one_to_the_largest():
    examples = MaxRegression(largest=7).generate(np.array([3, 5] * 20_000), philox("numbers"))
    inputs = examples.inputs[::2, :3]
    assert chi_square_z(inputs @ (7 ** np.arange(3)), np.full(343, 1 / 343)) < 5
    expected = np.diff((np.arange(8) / 7) ** 3)
    assert chi_square_z(examples.answers[::2, 0], expected) < 5
    assert chi_square_z(examples.answers[::2, 0], np.full(7, 1 / 7)) > 5
    assert [*MaxRegression().symbols[:2], MaxRegression().symbols[-1]] == ["1", "2", "99"]


def test_digits_are_uniform_from_one_to_nine():
    examples = DigitSum().generate(np.array([2, 20] * 20_000), philox("digits"))
    pairs = examples.inputs[::2, :2]
    assert chi_square_z((pairs[:, 0] - 1) * 9 + pairs[:, 1] - 1, np.full(81, 1 / 81)) < 5
    longer = examples.answer_lengths[::2] == 2  # sums from 10 on: 45 of 81
    assert chi_square_z(longer.astype(int), [36 / 81, 45 / 81]) < 5
    assert set(examples.answer_lengths[1::2]) == {2, 3}
    assert [DigitSum().answer_length(n) for n in (1, 2, 11, 12, 95, 112)] == [1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize(("length", "symbols"), [(1, 4), (3, 4), (6, 4), (5, 30)])
def test_how_many_different_symbols_is_uniform(length, symbols):
    task = UniqueCount(symbols=symbols)
    examples = task.generate(np.array([length, 8] * 10_000), philox("unique", length, symbols)).rows(
        slice(0, None, 2)
    )
    most = min(length, symbols)
    assert chi_square_z(examples.answers[:, 0] - symbols, np.full(most, 1 / most)) < 5
    for place in {0, length - 1}:
        assert chi_square_z(examples.inputs[:, place], np.full(symbols, 1 / symbols)) < 5
    assert task.baselines(length)["position_only"] == 1 / most


def test_symbols_past_the_first_of_each_kind_are_independent():
    """With c = 2 of n = 4: three, two or one of the smaller symbol, as 1 + two fair coins say."""
    task = UniqueCount(symbols=2)
    examples = task.generate(np.full(40_000, 4), philox("coins"))
    two = examples.answers[:, 0] == 3
    zeros = (examples.inputs[two] == 0).sum(axis=1)
    assert chi_square_z(zeros - 1, [1 / 4, 1 / 2, 1 / 4]) < 5
    assert chi_square_z(zeros - 1, [1 / 3, 1 / 3, 1 / 3]) > 5
    places = examples.inputs[two][zeros == 1].argmin(axis=1)
    assert chi_square_z(places, np.full(4, 1 / 4)) < 5, "the order is uniform"


def test_values_and_classes_are_uniform():
    examples = (
        MaxRetrieval(classes=4).generate(np.array([3, 7] * 10_000), philox("values")).rows(slice(0, None, 2))
    )
    values, classes = examples.features[:, :3, 0], examples.features[:, :3, 1:].argmax(axis=2)
    assert chi_square_z((values.ravel() * 20).astype(int), np.full(20, 1 / 20)) < 5
    assert chi_square_z(classes @ (4 ** np.arange(3)), np.full(64, 1 / 64)) < 5
    assert chi_square_z(examples.evidence, np.full(3, 1 / 3)) < 5
    assert (
        examples.features.dtype == np.float32
        and examples.features.shape[2] == MaxRetrieval(classes=4).feature_dim
    )


# -- the formulas of the baselines


@pytest.mark.parametrize("length", [4, 6])
def test_the_window_of_the_maximum_against_every_string(length, monkeypatch):
    monkeypatch.setattr(aggregation, "WINDOW", 3)
    task = MaxRegression(largest=4)
    strings = np.stack(np.meshgrid(*[np.arange(4)] * length), axis=-1).reshape(-1, length)
    seen, all_of_them = strings[:, -3:].max(axis=1), strings.max(axis=1)
    joint = np.zeros((4, 4))
    np.add.at(joint, (seen, all_of_them), 1 / len(strings))
    assert task.baselines(length)["window"] == pytest.approx(joint.max(axis=1).sum())
    assert task.baselines(length)["position_only"] == pytest.approx(joint.sum(axis=0).max())


def test_the_window_of_the_retrieved_class(monkeypatch):
    monkeypatch.setattr(max_retrieval, "WINDOW", 3)
    task = MaxRetrieval(classes=3)
    examples = task.generate(np.full(20_000, 9), philox("window"))
    last = examples.features[:, -3:]
    guess = last[np.arange(len(last)), last[..., 0].argmax(axis=1), 1:].argmax(axis=1)
    expected = task.baselines(9)["window"]
    assert abs((guess == examples.answers[:, 0]).mean() - expected) < 4 * np.sqrt(0.25 / 20_000)
    assert expected == pytest.approx(1 / 3 + 2 / 9)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: MaxRegression(largest=1), ("largest=1", "from 2")),
        (lambda: UniqueCount(symbols=1.5), ("symbols=1.5", "integer")),
        (lambda: MaxRetrieval(classes=1), ("classes=1", "from 2")),
        (lambda: DigitSum().check_length(0), ("length 0", "at least 1")),
    ],
)
def test_what_is_impossible_is_said(build, words):
    with pytest.raises(ValueError) as error:
        build()
    for word in ("task ", *words):
        assert word in str(error.value), error.value
