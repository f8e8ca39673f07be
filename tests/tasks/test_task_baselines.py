"""Baselines against exhaustive enumeration of small tasks, and against blind rules on generated items."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest

from lengthwise.keyed import philox
from lengthwise.tasks import (
    AboveMean,
    BinMajority,
    BucketSort,
    Copy,
    Digits,
    EvenPairs,
    First,
    Last,
    Majority,
    Offsets,
    Reverse,
    SetMax,
    Sort,
    UniqueCopy,
    WordOrder,
    best_blind,
    bin_majority,
    majority,
    offsets,
    retrieval,
    sets,
    validation_items,
    word_order,
)
from lengthwise.tasks import test_items as items_of
from lengthwise.tasks.combinatorics import largest_share, majority_in_window, mean_largest_share, sum_at_most

W = 3


@pytest.fixture
def small_window(monkeypatch):
    for module in (bin_majority, majority, offsets, retrieval, sets, word_order):
        monkeypatch.setattr(module, "WINDOW", W)


# -- all inputs of a small task with their probabilities: [(weight, x, y)]


def strings(n, symbols, answer):
    for x in itertools.product(range(symbols), repeat=n):
        yield symbols**-n, x, answer(x)


def ranged(n, symbols, answer):
    for x in itertools.product(range(symbols), repeat=n):
        yield sum(r**-n for r in range(max(x) + 1, symbols + 1)) / symbols, x, answer(x)


def distinct(n, symbols, answer):
    permutations = list(itertools.permutations(range(symbols), n))
    for x in permutations:
        yield 1 / len(permutations), x, answer(x)


def with_ones(n, weights):
    """weights[k] = probability of k ones."""
    for x in itertools.product(range(2), repeat=n):
        same = sum(1 for other in itertools.product(range(2), repeat=n) if sum(other) == sum(x))
        yield weights.get(sum(x), 0) / same, x, (int(2 * sum(x) > n),)


def negations(n):
    for p in range(n - 1):
        for other in set(range(n)) - {p, p + 1}:
            for label in (2, 3):
                x = [0] * n
                x[p], x[p + 1], x[other] = 1, label, 5 - label
                yield 0.5 / (n - 1) / (n - 2), tuple(x), (label,)


def bits_before(x, places=(1, 2)):
    return tuple(tuple(x[t - o] if t >= o else 0 for o in places) for t in range(len(x)))


def above(x):
    return tuple(int(v * len(x) > sum(x)) for v in x)


SPACES = [
    (WordOrder(fillers=1), 5, lambda: negations(5)),
    (WordOrder(fillers=1), 9, lambda: negations(9)),
    (Last(symbols=3), 5, lambda: strings(5, 3, lambda x: x[-1:])),
    (First(symbols=3), 5, lambda: strings(5, 3, lambda x: x[:1])),
    (Majority(margins=[1, 3]), 7, lambda: with_ones(7, {2: 0.25, 3: 0.25, 4: 0.25, 5: 0.25})),
    (BinMajority(), 6, lambda: with_ones(6, dict.fromkeys((0, 1, 2, 4, 5, 6), 1 / 6))),
    (BinMajority(), 5, lambda: with_ones(5, dict.fromkeys(range(6), 1 / 6))),
    (Offsets(offsets=[1, 2]), 6, lambda: strings(6, 2, bits_before)),
    (Offsets(offsets=[1]), 5, lambda: strings(5, 2, lambda x: bits_before(x, (1,)))),
    (SetMax(symbols=4), 5, lambda: ranged(5, 4, lambda x: (max(x),))),
    (AboveMean(symbols=4), 3, lambda: ranged(3, 4, above)),
    (AboveMean(symbols=4), 1, lambda: ranged(1, 4, above)),
    (Copy(symbols=2), 6, lambda: strings(6, 2, tuple)),
    (Reverse(symbols=3), 4, lambda: strings(4, 3, lambda x: x[::-1])),
    (UniqueCopy(symbols=5), 3, lambda: distinct(3, 5, tuple)),
    (Sort(symbols=6), 4, lambda: distinct(4, 6, lambda x: tuple(sorted(x)))),
]

VIEWS = {
    "position_only": lambda task, x, y, t: t,
    "token_only": lambda task, x, y, t: x[t],
    "bag_optimal": lambda task, x, y, t: (sorted(x), t, x[t] if task.answer_format == "per_token" else None),
    "remaining_bag": lambda task, x, y, t: (sorted(x), y[:t], t),
    "previous_only": lambda task, x, y, t: (y[t - 1 : t], t),
    "window": lambda task, x, y, t: (
        x[-W:] if task.answer_format == "label" else (t, x[max(0, t - 1) : t + 2])
    ),
}


def best_from(view, task, space):
    """The accuracy of the best rule that sees `view`, by enumeration."""
    tables, places = defaultdict(Counter), 0
    for weight, x, y in space:
        places = len(y)
        for t in range(places):
            tables[repr(view(task, x, y, t))][y[t]] += weight
    return sum(max(table.values()) for table in tables.values()) / places


@pytest.mark.parametrize(("task", "n", "space"), SPACES, ids=lambda value: getattr(value, "name", None))
def test_baselines_are_the_best_rules(task, n, space, small_window):
    assert np.isclose(sum(weight for weight, *_ in space()), 1.0)
    baselines = task.baselines(n)
    assert baselines.pop("uniform") == 1 / len(task.answer_symbols)
    assert baselines
    for name, value in baselines.items():
        assert np.isclose(value, best_from(VIEWS[name], task, space()), atol=1e-9), name


def test_enumeration_tells_baselines_apart(small_window):
    task, n, space = SPACES[2]
    assert not np.isclose(task.baselines(n)["bag_optimal"], best_from(VIEWS["position_only"], task, space()))
    assert best_from(lambda task, x, y, t: x, task, space()) == pytest.approx(1.0)


# -- rules on generated items at lengths where nothing can be enumerated


def close(accuracy, expected, count):
    return abs(accuracy - expected) < 5 * np.sqrt(expected * (1 - expected) / count) + 1e-12


def test_window_rule_on_word_order():
    items = validation_items(WordOrder(), 100, 8192)
    guesses = []
    for x in items.inputs[:, -21:].tolist():
        seen = [(x[i - 1], x[i]) for i in range(1, 21) if x[i] >= 9]
        straight = [adjective for before, adjective in seen if before == 8]
        guesses.append(straight[0] if straight else 19 - seen[0][1] if seen else 9)
    accuracy = (np.array(guesses) == items.answers[:, 0]).mean()
    expected = WordOrder().baselines(100)["window"]
    assert close(accuracy, expected, 4096)  # twins: half as many independent items
    assert not close(accuracy, 0.5, 4096)


@pytest.mark.parametrize("task", [Majority(), BinMajority()], ids=lambda task: task.name)
def test_window_rule_on_majorities(task):
    items = items_of(task, 101, 8192)
    accuracy = ((items.inputs[:, -21:].sum(axis=1) > 10) == items.answers[:, 0]).mean()
    assert close(accuracy, task.baselines(101)["window"], 8192)


def test_fixed_margins_leave_little_to_a_window():
    assert Majority().baselines(101)["window"] < 0.6 < 0.9 < BinMajority().baselines(101)["window"]


def test_bag_rule_on_last():
    items = items_of(Last(), 30, 8192)
    guesses = np.array([np.bincount(row).argmax() for row in items.inputs])
    assert close((guesses == items.answers[:, 0]).mean(), Last().baselines(30)["bag_optimal"], 8192)


def test_window_rule_on_set_max():
    task, n = SetMax(), 50
    lengths = np.full(60_000, n)
    fit, score = (task.generate(lengths, philox("set_max rule", i)) for i in range(2))
    seen = fit.inputs[:, -21:].max(axis=1)
    rule = np.array([np.bincount(fit.answers[seen == a, 0], minlength=64).argmax() for a in range(64)])
    accuracy = (rule[score.inputs[:, -21:].max(axis=1)] == score.answers[:, 0]).mean()
    assert close(accuracy, task.baselines(n)["window"], 60_000)


def test_token_and_window_rules_on_above_mean():
    task, n = AboveMean(), 60
    fit, score = (task.generate(np.full(20_000, n), philox("above_mean rule", i)) for i in range(2))
    rate = np.bincount(fit.inputs.ravel(), (fit.answers == 65).ravel(), minlength=64) / np.bincount(
        fit.inputs.ravel()
    )
    right = ((rate > 0.5)[score.inputs] == (score.answers == 65)).mean(axis=1)
    baselines = task.baselines(n)
    assert abs(right.mean() - baselines["token_only"]) < 5 * right.std() / np.sqrt(20_000)
    window = []
    for x, y in zip(score.inputs[:300].tolist(), score.answers[:300].tolist(), strict=True):
        for t in range(n):
            start = min(max(t - 10, 0), n - 21)
            window.append((x[t] > sum(x[start : start + 21]) / 21) == (y[t] == 65))
    assert abs(np.mean(window) - baselines["window"]) < 0.01


def test_the_symbol_after_the_previous_one_on_sort():
    items = items_of(Sort(), 100, 1024)
    previous = np.concatenate([np.full((1024, 1), -1), items.answers[:, :-1]], axis=1)
    right = (previous + 1 == items.answers).mean(axis=1)
    expected = Sort().baselines(100)["previous_only"]
    assert expected == pytest.approx(2 / 3)
    assert abs(right.mean() - expected) < 5 * right.std() / 32 + 1e-12


def test_position_rule_on_sort():
    fit, score = items_of(Sort(), 20, 20_000), validation_items(Sort(), 20, 20_000)
    rule = np.array([np.bincount(fit.answers[:, t]).argmax() for t in range(20)])
    assert abs((rule == score.answers).mean() - Sort().baselines(20)["position_only"]) < 0.003


def test_digits_commonest_class():
    task = Digits()
    labels = task.fixed_items("test").answers[:, 0]
    assert task.baselines(16)["position_only"] in np.bincount(labels) / len(labels)


def test_best_blind_leaves_out_windows_and_solutions():
    assert best_blind(Majority().baselines(101)) == 0.5
    assert best_blind(WordOrder().baselines(100)) == 0.5
    assert best_blind(Sort().baselines(50)) == pytest.approx(1 / 3)
    assert best_blind({"uniform": 1.0, "bag_optimal": 1.0}) == 1.0


# -- the probabilities themselves


@pytest.mark.parametrize(("n", "classes"), [(1, 2), (2, 2), (5, 2), (4, 3), (6, 4)])
def test_largest_share_by_enumeration(n, classes):
    shares = [max(Counter(x).values()) / n for x in itertools.product(range(classes), repeat=n)]
    assert largest_share(n, classes) == pytest.approx(np.mean(shares), abs=1e-12)


@pytest.mark.parametrize(("n", "classes"), [(300, 8), (1000, 2), (1000, 8)])
def test_largest_share_of_long_strings_by_simulation(n, classes):
    counts = philox("shares", n, classes).multinomial(n, [1 / classes] * classes, size=20_000).max(axis=1) / n
    assert abs(counts.mean() - largest_share(n, classes)) < 5 * counts.std() / np.sqrt(20_000)


def test_interpolated_shares():
    exact = np.mean([largest_share(k, 2) for k in range(1, 401)])
    assert mean_largest_share(400, 2) == pytest.approx(exact, abs=5e-4)


def test_sums_and_windows_by_enumeration():
    sums = [sum(x) for x in itertools.product(range(4), repeat=5)]
    bounds = np.array([-1, 0, 3, 9, 15, 40])
    assert np.allclose(sum_at_most(5, 4, bounds), [np.mean([s <= b for s in sums]) for b in bounds])
    x = [1] * 4 + [0] * 3
    windows = [sum(x[i] for i in kept) > 1 for kept in itertools.combinations(range(7), 3)]
    assert np.allclose(majority_in_window(7, np.array([4]), 3), np.mean(windows))


def test_only_rules_that_read_the_input_can_be_solutions():
    """Where one answer is always right, a model blind to everything scores 1."""
    assert best_blind({"uniform": 0.5, "position_only": 1.0}) == 1.0
    assert best_blind({"uniform": 0.5, "position_only": 0.6, "bag_optimal": 1.0, "remaining_bag": 1.0}) == 0.6
    assert best_blind(EvenPairs().baselines(1)) == 1.0


def test_a_baseline_that_is_no_number_is_no_baseline():
    with pytest.raises(ValueError, match="position_only"):
        best_blind({"uniform": 0.5, "position_only": float("nan")})


@pytest.mark.parametrize("length", [1000, 1100, 5000])
def test_bucket_sort_at_lengths_whose_factorials_overflow(length):
    known = BucketSort().baselines(length)
    assert 1 - 2 / length**0.5 < known["position_only"] < 1
    assert known["position_only"] < known["previous_only"] < 1
    answers = BucketSort().generate(np.full(200, length), philox("bucket", length)).answers
    own = np.mean([np.bincount(column).max() / 200 for column in answers.T[:: length // 200]])
    assert own == pytest.approx(known["position_only"], abs=0.015)
