"""Held-out items: keyed by (task, length, block) alone, in twins where possible; overlap with training."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch

from lengthwise.keyed import digest, philox
from lengthwise.tasks import (
    Copy,
    Digits,
    Last,
    Majority,
    Reverse,
    SetMax,
    Sort,
    WordOrder,
    seen_inputs,
    shared_items,
    validation_items,
)
from lengthwise.tasks import test_items as items_of
from support.lengths import test_lengths, train_lengths


def equal(a, b):
    values = [(getattr(a, field.name), getattr(b, field.name)) for field in fields(a)]
    return all(x is y is None or np.array_equal(x, y) for x, y in values)


TASKS = [WordOrder(), Last(), Majority(), SetMax(), Reverse(), Sort(), Digits()]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_items_depend_on_task_length_and_index_only(task):
    length = test_lengths(task)[-1]
    many = items_of(task, length, 600)
    for count in (1, 255, 256, 257, 400):
        assert equal(items_of(task, length, count), many.rows(slice(0, count)))
    for other in test_lengths(task)[:3]:
        items_of(task, other, 10)  # other lengths in between change nothing
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)  # nor do seeds
    assert equal(items_of(type(task)(**task.options), length, 600), many)
    assert not equal(validation_items(task, length, 100), many.rows(slice(0, 100)))
    assert (many.lengths == length).all()
    if task.fixed_items("test") is None:
        assert len(many) == 600
        assert not np.array_equal(many.inputs[:256], many.inputs[256:512])


def test_other_options_and_lengths_are_other_streams():
    a, b = items_of(Copy(symbols=4), 12, 100), items_of(Copy(symbols=5), 12, 100)
    assert not np.array_equal(np.minimum(a.inputs, 3), np.minimum(b.inputs, 3))
    shorter = items_of(Copy(symbols=4), 11, 100)  # compared as streams: the same draws would fill other rows
    assert not np.array_equal(a.inputs.ravel()[:1100], shorter.inputs.ravel())
    assert not np.array_equal(items_of(Copy(), 9, 64).inputs, items_of(Reverse(), 9, 64).inputs)


@pytest.mark.parametrize("task", TASKS[:-1], ids=lambda task: task.name)
def test_keys_that_differ_by_two_to_the_32_give_different_data(task):
    lengths = np.full(64, train_lengths(task)[-1])

    def data(seed, step):
        return task.generate(lengths, philox("train", seed, step))

    assert equal(data(1, 2), data(1, 2))
    assert not equal(data(1, 2), data(1 + 2**32, 2))
    assert not equal(data(1, 2), data(1, 2 + 2**32))
    assert digest("train", 1, 2) != digest("train", 1 + 2**32, 2)
    truncated = task.generate(lengths, philox("train", (1 + 2**32) % 2**32, 2))
    assert equal(truncated, data(1, 2))  # what a 32-bit seed would do


@pytest.mark.parametrize("count", [512, 7])
@pytest.mark.parametrize("length", [3, 4, 10, 50])
def test_word_order_items_are_anagram_twins(length, count):
    task = WordOrder()
    items = items_of(task, length, count)
    pairs = count // 2
    first, second = items.rows(slice(0, 2 * pairs, 2)), items.rows(slice(1, 2 * pairs, 2))
    assert np.array_equal(np.sort(first.inputs, axis=1), np.sort(second.inputs, axis=1))
    assert (first.answers != second.answers).all()
    assert set(np.unique(items.answers)) <= {9, 10}
    assert np.array_equal(first.evidence, second.evidence)
    rows = np.arange(count)
    assert (items.inputs[rows, items.evidence] == 8).all()
    assert np.array_equal(items.inputs[rows, items.evidence + 1], items.answers[:, 0])
    assert equal(task.twin(task.twin(items)), items)


def test_a_blind_model_scores_exactly_one_half_on_twins():
    items = items_of(WordOrder(), 10, 1024)

    def blind(inputs):  # any function of the bag
        return np.array([9 + digest(sorted(row.tolist()))[0] % 2 for row in inputs])

    assert (blind(items.inputs) == items.answers[:, 0]).mean() == 0.5
    sighted = items.inputs[np.arange(1024), items.evidence + 1]
    assert (sighted == items.answers[:, 0]).mean() == 1.0
    loose = WordOrder().generate(
        np.full(1024, 10), philox("loose")
    )  # without twins it is one half only on average
    assert (blind(loose.inputs) == loose.answers[:, 0]).mean() != 0.5


def test_digits_items_are_the_held_out_pictures_each_once():
    task = Digits()
    items = items_of(task, 16, 1024)
    assert len(items) == 500 and len(validation_items(task, 16, 1024)) == 297
    assert len(items_of(task, 16, 20)) == 20
    train = task.generate(np.full(5000, 16), philox("any"), "train")
    assert shared_items(items, seen_inputs([train])) == 0.0


def test_bad_requests():
    with pytest.raises(ValueError, match="count=0"):
        items_of(Last(), 5, 0)
    with pytest.raises(ValueError, match="odd lengths"):
        items_of(Majority(), 4, 10)


def test_shared_items_agrees_with_a_set():
    task = Copy(symbols=3)
    test = items_of(task, 5, 300)
    train = [task.generate(np.tile([4, 5, 6], 40), philox("shared", i)) for i in range(3)]
    seen = {tuple(e.inputs[b, : e.lengths[b]]) for e in train for b in range(len(e))}
    expected = np.mean([tuple(row) in seen for row in test.inputs])
    assert 0 < expected < 1
    assert shared_items(test, seen_inputs(train)) == expected
    assert shared_items(test, seen_inputs([test])) == 1.0
    assert shared_items(test, seen_inputs([])) == 0.0
