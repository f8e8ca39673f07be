"""Training curves, thinned out for a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from lengthwise.errors import RunError
from lengthwise.runs import read_table

CURVES = {
    "loss": "training loss",
    "val_loss": "validation loss",
    "val_token_accuracy": "validation accuracy",
}
MOST = 60
"""Points of a curve that are kept."""

Curve = tuple[list[int], list[float | None]]
"""Steps and values; None where a value was not finite."""


def training_curves(path: Path) -> dict[str, Curve]:
    """The curves of ``train.csv`` by column, at most `MOST` points each; no file, no curves.

    Raises RunError if the table is damaged.
    """
    rows = read_table(path)
    if rows and "step" not in rows[0]:
        raise RunError(f"{path} is damaged: there is no column step.")
    curves = {}
    for name in CURVES:
        points = [(row["step"], row[name]) for row in rows if row.get(name) is not None]
        if any(isinstance(step, str | None) or isinstance(value, str) for step, value in points):
            raise RunError(f"{path} is damaged: step or {name} is no number somewhere.")
        if points:
            kept = [points[at] for at in thinned([value for _, value in points])]
            curves[name] = (
                [int(step) for step, _ in kept],
                [float(f"{value:.4g}") if math.isfinite(value) else None for _, value in kept],
            )
    return curves


def thinned(values: Sequence[Any], most: int = MOST) -> list[int]:
    """Indices of at most `most` of `values`, in order: first, last, and of each stretch the lowest and the highest."""
    count = len(values)
    if count <= most:
        return list(range(count))
    stretches = (most - 2) // 2
    edges = [1 + (count - 2) * at // stretches for at in range(stretches + 1)]
    kept = {0, count - 1}
    for start, end in pairwise(edges):
        known = [at for at in range(start, end) if math.isfinite(values[at])] or [start]
        kept |= {min(known, key=values.__getitem__), max(known, key=values.__getitem__)}
    return sorted(kept)
