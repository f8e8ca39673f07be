"""The Chomsky-hierarchy suite: whole inputs of short lengths are distributed by the definitions, and so baselines are
the best rules of their kind, by enumeration."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from lengthwise.keyed import philox
from lengthwise.tasks import BucketSort, DuplicateString, Task, parity, regular
from lengthwise.tasks.expressions import expressions
from support.chomsky_suite import TASKS, solver, space

W = 3
DRAWS = 20_000

SHORT = {
    "modular_arithmetic": (1, 3, 5),
    "cycle_navigation": (1, 5),
    "stack_manipulation": (1, 2, 5),
    "modular_arithmetic_brackets": (2, 6, 7),
    "solve_equation": (2, 5, 8, 9),
    "missing_duplicate": (1, 2, 7),
    "binary_addition": (1, 2, 3, 6),
    "binary_multiplication": (1, 2, 3, 6),
    "bucket_sort": (1, 4),
}
CASES = [
    pytest.param(name, n, id=f"{name}-{n}")
    for name, task in TASKS.items()
    for n in SHORT.get(task.name, (1, 2, 6))
]


def chi_square_z(drawn, expected):
    """Chi-square of `drawn` inputs against {input: probability}, as standard deviations of a normal variable (Wilson
    and Hilferty's cube root, good from one degree of freedom on)."""
    counts = Counter(drawn)
    assert set(counts) <= set(expected), "an impossible input was drawn"
    degrees, total = len(expected) - 1, sum(counts.values())
    if not degrees:
        return 0.0
    statistic = sum((counts[x] - total * p) ** 2 / (total * p) for x, p in expected.items())
    spread = 2 / (9 * degrees)
    return ((statistic / degrees) ** (1 / 3) - 1 + spread) / np.sqrt(spread)


def drawn(task, n, key=0):
    examples = task.generate(np.full(DRAWS, n), philox("distribution", task.identity, key))
    return [tuple(task.symbols[i] for i in x) for x in examples.inputs.tolist()]


@pytest.mark.parametrize(("name", "n"), CASES)
def test_inputs_are_distributed_by_the_definition(name, n):
    expected = {x: float(p) for x, p in space(TASKS[name], n).items()}
    assert sum(expected.values()) == pytest.approx(1.0)
    assert abs(chi_square_z(drawn(TASKS[name], n), expected)) < 5


@pytest.mark.parametrize(("name", "n"), [case for case in CASES if case.values[1] >= 5])
def test_a_distribution_that_is_off_is_seen(name, n):
    """One input in twenty stands in for another one: as wrong as a range that ends one too early."""
    expected = {x: float(p) for x, p in space(TASKS[name], n).items()}
    sample = drawn(TASKS[name], n)
    likely = max(expected, key=lambda x: expected[x])
    off = [likely if k % 20 == 0 else x for k, x in enumerate(sample)]
    assert chi_square_z(off, expected) > 5


@pytest.mark.parametrize("n", [5, 12, 40])
def test_the_outermost_operator_is_uniform_over_its_places(n):
    task = TASKS["modular_arithmetic_brackets"]
    tokens, _ = expressions(np.full(DRAWS, n), philox("outermost", n), task.symbols, "+-*")
    opened, closed = (tokens == task.symbols.index(bracket) for bracket in "()")
    depth = (opened.astype(int) - closed).cumsum(axis=1)
    operators = np.isin(tokens, [task.symbols.index(o) for o in "+-*"]) & (depth == 1)
    operators[:, 1] = False  # a sign
    operators[:, 1:] &= ~(operators[:, :-1] | opened[:, :-1])
    place = operators.argmax(axis=1)
    assert abs(chi_square_z(place.tolist(), dict.fromkeys(range(2, n - 2), 1 / (n - 4)))) < 5
    if n > 5:
        early = np.where(place == n - 3, 2, place)  # as if the last place had been forgotten
        assert chi_square_z(early.tolist(), dict.fromkeys(range(2, n - 2), 1 / (n - 4))) > 5


@pytest.mark.parametrize(("name", "limit"), [("stack_manipulation", 60), ("binary_addition", 59)])
def test_where_the_first_part_ends_is_uniform_at_long_lengths(name, limit):
    """The stack is 1…l-1 long, the first number 1…l-2."""
    ends = [
        next(k for k, symbol in enumerate(x) if symbol not in "01") if set(x) - {"0", "1"} else 0
        for x in drawn(TASKS[name], 61)
    ]
    assert abs(chi_square_z(ends, dict.fromkeys(range(1, limit + 1), 1 / limit))) < 5
    assert min(ends) == 1 and max(ends) == limit


# -- baselines


@pytest.fixture
def small_window(monkeypatch):
    for module in (regular, parity):
        monkeypatch.setattr(module, "WINDOW", W)


VIEWS = {
    "uniform": None,
    "position_only": lambda x, y, t: t,
    "bag_optimal": lambda x, y, t: (tuple(sorted(x)), t),
    "remaining_bag": lambda x, y, t: (tuple(sorted(x)), y[:t], t),
    "previous_only": lambda x, y, t: (y[t - 1 : t], t),
    "window": lambda x, y, t: x[-W:],
}


def best_from(view, task: Task, n):
    """Token accuracy of the best rule that sees `view`, by enumeration."""
    solve, tables, places = solver(task), defaultdict(Counter), 0.0
    for x, weight in space(task, n).items():
        y = tuple(solve(list(x)))
        places += float(weight) * len(y)
        for t in range(len(y)):
            tables[view(x, y, t)][y[t]] += float(weight)
    return sum(max(table.values()) for table in tables.values()) / places


BASELINES = [
    pytest.param(task, n, id=f"{name}-{n}")
    for name, task, lengths in [
        *((name, task, SHORT.get(task.name, (1, 2, 5, 7))) for name, task in TASKS.items()),
        ("bucket_sort-3", BucketSort(symbols=3), (2, 6)),
        ("duplicate_string-3", DuplicateString(symbols=3), (1, 4)),
    ]
    for n in lengths
]


BAGS_MEASURED = (
    "compute_sqrt",
    "modular_arithmetic",
    "modular_arithmetic_brackets",
    "solve_equation",
    "stack_manipulation",
)


def exact(task: Task) -> bool:
    return type(task).baselines is not Task.baselines and task.name not in (
        "binary_addition",
        "binary_multiplication",
    )


@pytest.mark.parametrize(("task", "n"), BASELINES)
def test_baselines_are_the_best_rules(task, n, small_window):
    """Formulas to the last digit; what is measured on samples to within its error."""
    baselines = task.baselines(n)
    assert baselines.pop("uniform") == pytest.approx(1 / len(task.answer_symbols))
    assert "position_only" in baselines or n == 1
    for name, value in baselines.items():
        measured = not exact(task) or (
            name in ("bag_optimal", "remaining_bag") and task.name in BAGS_MEASURED
        )
        tolerance = 0.02 if measured else 1e-9
        assert value == pytest.approx(best_from(VIEWS[name], task, n), abs=tolerance), name
    if n > W and task.name in ("even_pairs", "parity", "cycle_navigation") and task.answer_format == "label":
        assert "window" in baselines


def test_enumeration_tells_rules_apart(small_window):
    task = TASKS["parity-balanced"]
    window = task.baselines(6)["window"]
    assert window != pytest.approx(best_from(VIEWS["position_only"], task, 6), abs=1e-3)
    assert best_from(VIEWS["bag_optimal"], task, 6) == pytest.approx(1.0)


def test_the_window_on_balanced_bits_at_a_real_length():
    """Fitted on one set of samples, scored on another, without the formula."""
    task, n = TASKS["parity-balanced"], 27
    fit, score = (task.generate(np.full(60_000, n), philox("window", k)) for k in range(2))
    odd = [np.mean(fit.answers[fit.inputs[:, -21:].sum(axis=1) == ones] == 3) > 0.5 for ones in range(22)]
    guesses = 2 + np.array(odd)[score.inputs[:, -21:].sum(axis=1)]
    accuracy = (guesses == score.answers[:, 0]).mean()
    assert abs(accuracy - task.baselines(n)["window"]) < 0.01
    assert task.baselines(n)["window"] > 0.51


def test_position_alone_on_bucket_sort():
    """The figure to compare a score with: 90.1 % over lengths 41…500, and so on samples."""
    task = TASKS["bucket_sort"]
    exact_mean = np.mean([task.baselines(n)["position_only"] for n in range(41, 501)])
    assert exact_mean == pytest.approx(0.901, abs=0.0005)
    right = []
    for n in (41, 100, 300, 500):
        fit, score = (task.generate(np.full(2000, n), philox("position", n, k)).answers for k in range(2))
        rule = np.array([np.bincount(fit[:, t]).argmax() for t in range(n)])
        right.append((rule == score).mean() - task.baselines(n)["position_only"])
    assert np.abs(right).max() < 0.01
