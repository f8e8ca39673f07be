"""Neutral symbols change no answer: judged by the order of the symbols, and by their position numbers."""

from __future__ import annotations

import numpy as np
import pytest

from lengthwise.keyed import philox
from lengthwise.tasks import First, Last, SetMax, WordOrder


def by_order(task, sequence):
    """The answer to `sequence` (n,), worked out by hand."""
    if isinstance(task, First):
        return sequence[0]
    if isinstance(task, Last):
        return sequence[-1]
    if isinstance(task, SetMax):
        return max(sequence)
    return sequence[list(sequence).index(task.fillers) + 1]  # what follows `not`


def by_numbers(task, sequence, numbers):
    """As `by_order`, of one who knows the numbers alone; None where two answers are possible."""
    if isinstance(task, SetMax):
        return max(sequence)
    if isinstance(task, WordOrder):
        wanted = numbers[list(sequence).index(task.fillers)] + 1
    else:
        wanted = numbers.max() if type(task) is Last else numbers.min()
    candidates = {symbol for symbol, number in zip(sequence, numbers, strict=True) if number == wanted}
    return candidates.pop() if len(candidates) == 1 else None


def with_neutral(task, sequence, gap, symbol):
    n = len(sequence)
    numbers = np.insert(np.arange(n), gap, min(gap, n - 1))
    return np.insert(sequence, gap, symbol), numbers


def outcomes(task, allowed: bool):
    """Whether the answer stays, in both readings, for every gap that is (not) allowed and every neutral symbol."""
    examples = task.generate(np.full(24, 6), philox("neutral"))
    gaps = task.neutral_gaps(examples)
    assert gaps.shape == (24, 7) and gaps.any(axis=1).all()
    for row in range(24):
        for gap in np.flatnonzero(gaps[row] == allowed):
            for name in task.neutral_symbols:
                changed, numbers = with_neutral(task, examples.inputs[row], gap, task.symbols.index(name))
                answer = examples.answers[row, 0]
                yield by_order(task, changed) == answer == by_numbers(task, changed, numbers)


TASKS = (WordOrder(), Last(), First(), SetMax(symbols=8))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_answer_stays(task):
    found = list(outcomes(task, allowed=True))
    assert found and all(found)


@pytest.mark.parametrize("task", TASKS[:3], ids=lambda task: task.name)
def test_in_the_other_gaps_it_may_change(task):
    """Control: what is not allowed is not allowed for a reason."""
    found = list(outcomes(task, allowed=False))
    assert found and not all(found)


def test_neutral_symbols_are_symbols():
    for task in TASKS:
        assert set(task.neutral_symbols) <= set(task.symbols)
