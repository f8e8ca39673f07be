"""The factors of a page: every choice in which its runs differ, seeds apart."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from lengthwise.report.reading import Run
from lengthwise.runs import component_name, factors, scientific
from lengthwise.runs.naming import SLOTS, leaves

_SEEDS = ("seed", "init_seed", "data_seed")
_FLAT = {
    "model.width", "model.layers", "model.heads", "model.dropout", "optimizer.lr", "data.batch_size", "data.lengths",
    "trainer.accumulate", "run.label",
}  # fmt: skip
"""Keys that `lengthwise.runs.factors` gives under a shorter name."""

Value = str | int | float | bool | None
"""None: the run has no such option."""


def choices(run: Run) -> dict[str, Value]:
    """Everything that was chosen for a run, and what it was trained with.

    Short names as W&B has them (``pe``, ``heads``), other options under their dotted ones (``pe.base``), versions and
    hardware as in `Run.context`.
    """
    flat = {name: value for name, value in factors(run.config).items() if name not in _SEEDS}
    for name, value in leaves(scientific(run.config)).items():
        slot, _, leaf = name.rpartition(".")
        if leaf == "_target_" and slot not in SLOTS:
            flat[slot] = component_name(value)
        elif leaf not in ("_target_", "_partial_") and name not in _FLAT and name not in _SEEDS:
            flat.setdefault(name, value)
    flat |= dict(run.context)
    return {name: _plain(value) for name, value in flat.items()}


def varying(table: Sequence[Mapping[str, Value]]) -> list[str]:
    """The names in which the rows of `table` differ, the encoding first.

    An option counts only if it differs between rows with the same component in its slot: ``pe.base`` tells two rotary
    runs apart, and says nothing about a learned table. Of two names that say the same of every row the first is kept.
    """
    names = list(dict.fromkeys(name for row in table for name in row))
    found: list[str] = []
    seen: set[tuple[str, ...]] = set()
    for name in sorted(names, key=lambda name: name != "pe"):
        column = tuple(_key(row.get(name)) for row in table)
        owners = [owner for owner in names if name.startswith(f"{owner}.")]
        by_owner: dict[tuple[str, ...], set[str]] = {}
        for row, value in zip(table, column, strict=True):
            by_owner.setdefault(tuple(_key(row.get(owner)) for owner in owners), set()).add(value)
        if column not in seen and any(len(values) > 1 for values in by_owner.values()):
            found.append(name)
            seen.add(column)
    return found


def _plain(value: Any) -> Value:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, str | int) else json.dumps(value)


def _key(value: Value) -> str:
    """Equal for equal values; 1 and true are not."""
    return repr(value)
