"""Held-out items: the same for every run, seed, count and list of lengths."""

from __future__ import annotations

import numpy as np

from lengthwise.keyed import philox
from lengthwise.tasks.contract import Examples, Task, concatenate, interleave

BLOCK = 256
"""Items drawn from one key; more items are more blocks, so fewer items are a prefix of more."""


def test_items(task: Task, length: int, count: int) -> Examples:
    """The first `count` test items of `task` at `length`, keyed by (task, length, block) alone.

    Where the task has twins, items 2i and 2i + 1 are twins. A task on finite data gives at most what it has.
    Raises ValueError for an illegal length or a count below 1.
    """
    return _items(task, "test", length, count)


def validation_items(task: Task, length: int, count: int) -> Examples:
    """As `test_items`, from streams of their own: what a learning rate or a checkpoint is chosen on."""
    return _items(task, "val", length, count)


def bin_lengths(task: Task, low: int, high: int, count: int) -> np.ndarray:
    """(count,) lengths drawn uniformly from those that `task` has from `low` to `high`, the same for every run.

    Raises ValueError where it has none of them, or ends before `high`.
    """
    if task.max_length is not None and high > task.max_length:
        task.check_length(high)
    legal = legal_lengths(task, low, high)
    if not legal:
        task.check_length(high)
    return philox("items", "bin", task.identity, low, high).choice(legal, size=count)


def legal_lengths(task: Task, low: int, high: int) -> list[int]:
    """The lengths from `low` to `high` that `task` has."""
    return [length for length in range(low, high + 1) if is_legal(task, length)]


def is_legal(task: Task, length: int) -> bool:
    """Whether `task` has inputs of that length."""
    try:
        task.check_length(length)
    except ValueError:
        return False
    return True


test_items.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it by its name


def _items(task: Task, split: str, length: int, count: int) -> Examples:
    task.check_length(length)
    if count < 1:
        raise ValueError(f"count={count} is not possible; ask for at least 1 item")
    whole = task.whole_test(length) if split == "test" else None
    fixed = task.fixed_items(split) if whole is None else whole["all"]
    if fixed is not None:
        return fixed.rows(slice(0, count))
    blocks = [_block(task, split, length, index) for index in range(-(-count // BLOCK))]
    return concatenate(blocks).rows(slice(0, count))


def _block(task: Task, split: str, length: int, index: int) -> Examples:
    generator = philox("items", split, task.identity, int(length), index)
    size = BLOCK // 2 if task.has_twins else BLOCK
    examples = task.generate(np.full(size, length), generator, split)
    twins = task.twin(examples) if task.has_twins else None
    return examples if twins is None else interleave(examples, twins)
