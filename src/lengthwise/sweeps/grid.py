"""The cells of a study: every combination of each of its grids."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from lengthwise.errors import ConfigError


def expand(grids: Sequence[Mapping[str, Any]], given: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """One list of overrides a cell, in the order of the grids, without repeats.

    Args:
        grids: each maps a key to one value (fixed in that grid) or to a list of values (an axis). Keys joined by a
            comma vary together: ``"pe,model.heads": [[rotary, 4], [alibi, 8]]``. The cells are those of all grids.
        given: from the command line, key to overrides; they replace the axis or value of the same key, or are a
            further axis.

    Raises ConfigError for a grid that is not a mapping, an axis without values, or rows of unequal width.
    """
    cells: dict[tuple[str, ...], None] = {}
    for grid in grids:
        if not isinstance(grid, Mapping):
            raise ConfigError(f"study.grids: each grid maps keys to values or lists of values, not {grid!r}")
        axes: dict[str, list[list[str]]] = {}
        for key, value in grid.items():
            axes[key] = _axis(str(key), value, given)
        for key, texts in given.items():
            axes[key] = [[text] for text in texts]
        for rows in itertools.product(*axes.values()):
            cells[tuple(itertools.chain(*rows))] = None
    return [list(cell) for cell in cells]


def keys_of(grids: Sequence[Any]) -> set[str]:
    """Every key that some grid sets."""
    return {part for grid in grids if isinstance(grid, Mapping) for key in grid for part in _parts(str(key))}


def _parts(key: str) -> list[str]:
    return [part.strip() for part in key.split(",")]


def _axis(key: str, value: Any, given: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The values of one entry of a grid, each as the overrides that make it; keys in `given` are left to it."""
    parts = _parts(key)
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ConfigError(f"study.grids: the axis {key!r} has no values")
    rows = [[item] for item in values] if len(parts) == 1 else values
    for row in rows:
        if not isinstance(row, list) or len(row) != len(parts):
            raise ConfigError(
                f"study.grids: each row of {key!r} needs {len(parts)} values, one for each key: {row!r}"
            )
    texts = [
        [f"{part}={_text(item)}" for part, item in zip(parts, row, strict=True) if part not in given]
        for row in rows
    ]
    return [list(row) for row in dict.fromkeys(map(tuple, texts))]


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_text(item)}" for key, item in value.items()) + "}"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    """`text` as an override takes it: as it is where Hydra reads it as just that, else in quotes."""
    from hydra.core.override_parser.overrides_parser import (
        OverridesParser,  # a report expands grids without Hydra
    )

    try:
        (override,) = OverridesParser.create().parse_overrides([f"key={text}"])
        if (
            not override.is_sweep_override()
            and override.value() == text
            and isinstance(override.value(), str)
        ):
            return text
    except Exception:  # what its lexer does not know
        pass
    escaped = text.replace("'", "\\'")
    return f"'{escaped}'"
