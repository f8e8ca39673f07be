"""The cells of a study: every combination of each of its grids."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from lengthwise.errors import ConfigError


def expand(grids: Sequence[Mapping[str, Any]], given: Mapping[str, str]) -> list[list[str]]:
    """One list of overrides a cell, in the order of the grids, without repeats.

    Args:
        grids: each maps a key to one value (fixed in that grid) or to a list of values (an axis).
        given: overrides from the command line; they replace the axis or value of the same key.

    Raises ConfigError for a grid that is not a mapping or an axis without values.
    """
    cells: list[list[str]] = []
    for grid in grids:
        if not isinstance(grid, Mapping):
            raise ConfigError(f"study.grids: each grid maps keys to values or lists of values, not {grid!r}")
        axes = {key: values if isinstance(values, list) else [values] for key, values in grid.items()}
        for key, values in axes.items():
            if not values:
                raise ConfigError(f"study.grids: the axis {key!r} has no values")
        axes.update({key: [None] for key in axes if key in given})
        for combination in itertools.product(*axes.values()):
            cell = [
                given[key] if key in given else f"{key}={_text(value)}"
                for key, value in zip(axes, combination, strict=True)
            ]
            if cell not in cells:
                cells.append(cell)
    return cells


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return str(value)
