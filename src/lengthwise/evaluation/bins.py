"""Accuracy over bins of lengths: one figure for all that lies between two lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lengthwise.evaluation.length import NOT_DEFINED, flags_of, protocol_of, score_batch
from lengthwise.evaluation.modes import evaluation_mode
from lengthwise.evaluation.scores import Scores
from lengthwise.runs.lengths import bin_name
from lengthwise.tasks.contract import Examples
from lengthwise.tasks.items import bin_lengths, test_items

if TYPE_CHECKING:
    from lengthwise.nn.transformer import Transformer
    from lengthwise.tasks.contract import Task
    from lengthwise.tasks.layout import Layout

Row = dict[str, Any]


def evaluate_bins(
    model: Transformer,
    task: Task,
    layout: Layout,
    bins: Sequence[tuple[int, int]],
    count: int = 1024,
    *,
    train_lengths: Sequence[int],
    max_tokens_per_batch: int = 16384,
) -> list[Row]:
    """One row for each bin [low, high]: `count` items of lengths drawn uniformly from those that the task has in it.

    Columns as in `evaluate_lengths`; the stratum is ``bin_<low>-<high>`` and length is high. The items of one length
    are the first of those that this length alone is tested on. A bin with a length that the encoding cannot represent
    is "not_defined" as a whole: the others alone would flatter it.

    Raises ValueError for a bin that the task does not have.
    """
    longest = max(train_lengths)
    with evaluation_mode(model):
        return [
            _one_bin(
                model, layout, bin_items(task, low, high, count), (low, high), longest, max_tokens_per_batch
            )
            for low, high in bins
        ]


def bin_items(task: Task, low: int, high: int, count: int) -> list[Examples]:
    """The test items of a bin, those of one length together, longest first."""
    lengths, counts = np.unique(bin_lengths(task, low, high, count), return_counts=True)
    pairs = zip(lengths.tolist(), counts.tolist(), strict=True)
    return [test_items(task, length, many) for length, many in reversed(list(pairs))]


def _one_bin(
    model: Transformer,
    layout: Layout,
    sets: Sequence[Examples],
    bounds: tuple[int, int],
    longest_trained: int,
    max_tokens: int,
) -> Row:
    protocol = protocol_of(model, layout)
    flags: dict[str, None] = {}
    parts = []
    for examples in sets:
        length = int(examples.lengths[0])
        batch = layout(examples, "test", length)
        found = flags_of(model, batch, layout.spans(length), length, length > longest_trained)
        flags |= dict.fromkeys(found)
        if NOT_DEFINED in found:
            flags, parts = {NOT_DEFINED: None}, [Scores(*(np.zeros(0) for _ in range(5)))]
            break
        parts.append(score_batch(model, layout, batch, length, protocol, max_tokens))
    scores = Scores.join(parts)
    return {
        "split": "test", "protocol": protocol, "length": bounds[1], "stratum": bin_name(*bounds),
        **scores.figures(np.ones(len(scores.exact), dtype=bool)), "flags": ";".join(flags),
    }  # fmt: skip
