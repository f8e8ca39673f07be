"""How many test inputs training had seen: against a set of all that it saw, and when that is only a lower bound."""

from __future__ import annotations

import numpy as np
import pytest

from lengthwise.keyed import philox
from lengthwise.tasks import Copy, SetMax, train_overlap
from lengthwise.tasks import test_items as items_of
from lengthwise.tasks.overlap import LOOKED_AT, LOOKED_AT_IF_FEW


def stream(task, lengths, batches, size=32):
    """Batches of `size` sequences, and a list that tells how many were drawn."""
    drawn = []

    def batch(index):
        drawn.append(size)
        generator = philox("overlap", index)
        return task.generate(generator.choice(lengths, size=size), generator)

    return (batch(index) for index in range(batches)), drawn


def inputs_of(examples):
    return [tuple(row[:n]) for row, n in zip(examples.inputs.tolist(), examples.lengths, strict=True)]


@pytest.mark.parametrize("task", [Copy(symbols=3), SetMax()], ids=lambda task: task.name)
def test_all_of_a_short_training_is_compared(task):
    tests = [items_of(task, length, 300) for length in (4, 5, 6, 9)]
    train, drawn = stream(task, [4, 5, 6], 40)
    shares = train_overlap(tests, train)
    again, _ = stream(task, [4, 5, 6], 40)
    seen = {one for examples in again for one in inputs_of(examples)}
    expected = [np.mean([one in seen for one in inputs_of(test)]) for test in tests]
    assert shares == [(pytest.approx(share), "exact") for share in expected]
    assert expected[3] == 0 and 0 < max(expected) < 1 and sum(drawn) == 40 * 32
    fewer, _ = stream(task, [4, 5, 6], 20)
    assert train_overlap(tests, fewer)[0][0] < shares[0][0]  # control: what was not drawn is not counted


def test_a_long_training_gives_a_lower_bound():
    task = Copy(symbols=50)
    test = items_of(task, 10, 200)
    train, drawn = stream(task, [10], 200, size=1000)
    assert train_overlap([test], train) == [(0.0, "at_least")]
    assert LOOKED_AT < sum(drawn) < LOOKED_AT + 10_000
    just, drawn = stream(task, [10], LOOKED_AT // 1000, size=1000)
    assert train_overlap([test], just) == [(0.0, "exact")] and sum(drawn) == LOOKED_AT


def test_of_few_inputs_every_one_is_found_however_late():
    """Bits of length 10: 1024 inputs, and those of them that 100 000 sequences of many lengths do not show."""
    task, lengths = Copy(), [10, *range(20, 60)]
    test = task.generate(np.full(4096, 10), philox("all of them"))
    assert len(set(inputs_of(test))) > 1000
    train, drawn = stream(task, lengths, 10_000, size=1000)
    assert train_overlap([test], train) == [(1.0, "exact")]
    assert LOOKED_AT < sum(drawn) < LOOKED_AT_IF_FEW + 10_000


def test_once_all_are_found_nothing_more_is_drawn():
    task = Copy()
    train, drawn = stream(task, [2, 3], 10_000)
    assert train_overlap([items_of(task, 2, 64), items_of(task, 3, 64)], train) == [(1.0, "exact")] * 2
    assert sum(drawn) < 10_000


def test_nothing_to_compare():
    task = Copy()
    assert train_overlap([], stream(task, [3], 5)[0]) == []
    assert train_overlap([items_of(task, 3, 8)], iter(())) == [(0.0, "exact")]
