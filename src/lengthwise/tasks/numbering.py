"""Position numbers for a batch that is laid out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lengthwise.batch import IGNORE, Batch
from lengthwise.keyed import Key, philox
from lengthwise.positions import Positions, Sequential
from lengthwise.tasks.contract import Examples
from lengthwise.tasks.rows import place

if TYPE_CHECKING:
    from lengthwise.tasks.layout import Layout


def numbered(
    layout: Layout, batch: Batch, examples: Examples, rule: Positions, key: tuple[Key, ...]
) -> Batch:
    """`batch`, the layout of `examples`, with the numbers of `rule` on each side, from a stream named by `key`."""
    if isinstance(rule, Sequential):
        return batch
    lengths, which = np.unique(examples.lengths, return_inverse=True)
    counts = np.array([layout.positions(int(length)) for length in lengths])[which]  # (B, 1 or 2)
    given = _given(layout, examples, rule.kind, counts.max(axis=0)) if rule.supplied else [None, None]

    def side(name: str, index: int, part: Batch) -> Batch:
        stream = philox("positions", name, layout.task.identity, *key) if rule.draws else None
        numbers = rule.numbers(counts[:, index], stream, given[index])
        assert numbers is not None
        return _widened(replace(part, positions=torch.from_numpy(numbers)), layout.vocabulary.pad)

    if batch.source is None:
        return side("both", 0, batch)
    return replace(side("target", 1, batch), source=side("source", 0, batch.source))


def _given(layout: Layout, examples: Examples, kind: str, widths: np.ndarray) -> list[np.ndarray]:
    """The task's own numbers for each side, (B, width) each."""
    sides = [np.zeros((len(examples), width), dtype=np.int64) for width in widths]
    answer_width = max(layout.task.answer_length(int(n)) for n in np.unique(examples.lengths))
    inputs, answers = layout.task.position_numbers(examples, answer_width, kind)
    place(sides[0], np.full_like(examples.lengths, layout.input_start), inputs, examples.lengths)
    starts = layout.answer_start(examples.lengths)
    if starts is not None:
        place(sides[-1], starts, answers, np.minimum(widths[-1] - starts, answer_width))
    return sides


def _widened(batch: Batch, pad: int) -> Batch:
    """`batch`, padded to the width of its numbers."""
    assert batch.positions is not None
    more = batch.positions.shape[1] - batch.tokens.shape[1]

    def widened(values: torch.Tensor, fill: Any) -> torch.Tensor:
        return torch.cat([values, values.new_full((len(values), more, *values.shape[2:]), fill)], dim=1)

    aligned = batch.targets.shape[1] == batch.tokens.shape[1]  # else one answer is read from the mean
    return replace(
        batch,
        tokens=widened(batch.tokens, pad),
        key_mask=widened(batch.key_mask, False),
        targets=widened(batch.targets, IGNORE) if aligned else batch.targets,
        features=None if batch.features is None else widened(batch.features, 0.0),
    )
