"""The cells of a sweep: each one run, told apart by what its configuration can change of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lengthwise.errors import ConfigError
from lengthwise.runs import RunFolder


@dataclass
class Cell:
    """One combination of a sweep.

    overrides: what distinguishes and defines it, as a command line takes it.
    config:    composed and checked.
    axes:      those of the overrides that differ from cell to cell; for people.
    """

    overrides: list[str]
    config: dict[str, Any]
    axes: list[str] | None = None

    @cached_property
    def folder(self) -> RunFolder:
        """Where its run is or will be."""
        return RunFolder.locate(self.config["outputs"], self.config)

    @property
    def name(self) -> str:
        """Of the run's folder."""
        return self.folder.name

    @property
    def text(self) -> str:
        """What distinguishes it, in a line."""
        return " ".join(self.overrides if self.axes is None else self.axes) or "the default configuration"


def refuse_collisions(cells: Sequence[Cell]) -> None:
    """Raises ConfigError where two cells are one and the same run, naming them and the way out."""
    seen: dict[Path, Cell] = {}
    for cell in cells:
        path = cell.folder.path
        if path in seen:
            first, second = set(seen[path].overrides), set(cell.overrides)
            axes = sorted({text.partition("=")[0].lstrip("+") for text in first ^ second}) or ["nothing"]
            usable = [axis for axis in axes if not isinstance(_value(cell.config, axis), dict | list)]
            label = "-".join(f"${{{axis}}}" for axis in usable)
            way_out = f"add 'run.label={label}'" if label else "give each a run.label of its own"
            raise ConfigError(
                f"two cells of the sweep are the same run: they differ in {', '.join(axes)} only, which does not "
                f"make another run. To keep them apart {way_out}"
            )
        seen[path] = cell


def _value(config: dict[str, Any], key: str) -> Any:
    """What `key`, with dots, has; a mapping where there is no such key."""
    value: Any = config
    for part in key.split("."):
        value = value.get(part, {}) if isinstance(value, dict) else {}
    return value
