"""The cells of a study: every combination of each of its grids."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from lengthwise.errors import ConfigError


def expand(grids: Sequence[Mapping[str, Any]], given: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """One list of overrides a cell, in the order of the grids, without repeats.

    Args:
        grids: each maps a key to one value (fixed in that grid) or to a list of values (an axis).
        given: from the command line, key to overrides; they replace the axis or value of the same key, and several
            overrides of a key that a grid does not have are a further axis.

    Raises ConfigError for a grid that is not a mapping or an axis without values.
    """
    cells: list[list[str]] = []
    for grid in grids:
        if not isinstance(grid, Mapping):
            raise ConfigError(f"study.grids: each grid maps keys to values or lists of values, not {grid!r}")
        axes: dict[str, Sequence[str]] = {}
        for key, value in grid.items():
            values = value if isinstance(value, list) else [value]
            if not values:
                raise ConfigError(f"study.grids: the axis {key!r} has no values")
            axes[key] = [f"{key}={_text(item)}" for item in values]
        axes |= {key: texts for key, texts in given.items() if key in grid or len(texts) > 1}
        cells += [list(cell) for cell in itertools.product(*axes.values()) if list(cell) not in cells]
    return cells


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return str(value)
