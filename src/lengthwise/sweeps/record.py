"""``<outputs>/sweeps/<id>.json``: which runs belong to a sweep, and what became of them when it was last run.

The truth about each run is its own status; this says which runs they are, and why those failed that never came as far
as a status.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lengthwise.errors import RunError
from lengthwise.keyed import digest
from lengthwise.runs.atomic import PREFIX, explain, remove_leftovers, write_atomic
from lengthwise.runs.status import now
from lengthwise.sweeps.cells import Cell

FORMAT = 1

_ABOUT: dict[str, Any] = {"id": str, "study": str | None, "command": list, "updated": str, "cells": list}
_CELL: dict[str, Any] = {
    "run": str, "overrides": list, "axes": list | None, "state": str, "reason": str | None, "max_steps": int,
    "parameters": int | None, "seconds": int | float | None, "steps": int | None, "ended": str | None,
}  # fmt: skip

WAITING, RUNNING, DONE, FAILED, INTERRUPTED = "waiting", "running", "done", "failed", "interrupted"


@dataclass
class Entry:
    """A cell, and what became of it.

    state:      waiting, running, done, failed or interrupted; reason: why.
    plan:       what there is to do: "new", "resumes", "again", "measures" or "nothing".
    parameters: of the model, None where nobody counted. seconds: of the job that did it, steps: that it trained;
    ended: when, ISO 8601, UTC.
    """

    cell: Cell
    state: str = WAITING
    reason: str | None = None
    plan: str = "new"
    parameters: int | None = None
    seconds: float | None = None
    steps: int | None = None
    ended: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """For the record."""
        about = {"run": self.cell.name, "overrides": self.cell.overrides, "axes": self.cell.axes}
        names = ("state", "reason", "parameters", "seconds", "steps", "ended")
        about["max_steps"] = self.cell.config["trainer"]["max_steps"]
        return about | {name: getattr(self, name) for name in names}


@dataclass
class Record:
    """What is known of a sweep on disk. folder: its own, for jobs and logs, beside the file."""

    path: Path
    name: str
    study: str | None = None
    command: list[str] = field(default_factory=list)
    illegal: list[dict[str, Any]] = field(default_factory=list)
    created: str = field(default_factory=now)
    contrasts: list[dict[str, Any]] | None = None
    """What the study stated when the sweep first started; None where that is not known, or a run was there before."""

    @property
    def folder(self) -> Path:
        """For the files of its jobs."""
        return self.path.with_suffix("")

    def write(self, entries: Sequence[Entry]) -> None:
        """Replace the file.  Raises RunError where it cannot be written."""
        about = {"format": FORMAT, "id": self.name, "study": self.study, "command": self.command}
        about |= {"created": self.created, "updated": now(), "illegal": self.illegal}
        about |= {"contrasts": self.contrasts}
        cells = [entry.to_dict() for entry in entries]
        write_atomic(self.path, json.dumps({**about, "cells": cells}, indent=1).encode() + b"\n")

    @classmethod
    def open(cls, outputs: str | Path, name: str, **about: Any) -> Record:
        """The record called `name`; an earlier one of that name goes on.

        Raises RunError where it could not be written.
        """
        path = Path(outputs) / "sweeps" / f"{name}.json"
        record = cls(path, name, **about)
        try:
            record.folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(path.parent)
            tempfile.TemporaryFile(dir=path.parent).close()
        except OSError as error:
            raise RunError(
                f"cannot write to {path.parent}: {explain(error)}. Choose another folder with outputs=<folder>."
            ) from error
        if (earlier := read(path)) is not None:
            record.created = earlier.get("created") or record.created
            record.contrasts = earlier.get("contrasts")  # what is stated now was not stated then
        return record


def sweep_name(label: str, cells: Sequence[Cell]) -> str:
    """The same for the same cells, however the command was worded: a sweep that is started again goes on."""
    plain = re.sub(r"[^a-z0-9_]+", "-", label.lower()).strip("-")[:60] or "sweep"
    return f"{plain}-{digest('sweep', sorted(cell.name for cell in cells), size=4).hex()}"


def read(path: Path) -> dict[str, Any] | None:
    """The content of a record, or None where it is none of ours, damaged, or a newer version's."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        about = content["format"] <= FORMAT and _is(content, _ABOUT)
        return content if about and all(_is(cell, _CELL) for cell in content["cells"]) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _is(given: Any, types: dict[str, Any]) -> bool:
    """Whether every key is there, of its type; lists are of text."""
    return isinstance(given, dict) and all(
        isinstance(given[key], kind)
        and not isinstance(given[key], bool)
        and (
            key == "cells" or not isinstance(given[key], list) or all(isinstance(i, str) for i in given[key])
        )
        for key, kind in types.items()
    )


def records(outputs: str | Path) -> Iterator[dict[str, Any]]:
    """Every sweep recorded under `outputs`, the one touched last at the end."""
    paths = (path for path in (Path(outputs) / "sweeps").glob("*.json") if not path.name.startswith(PREFIX))
    found = [content for path in paths if (content := read(path))]
    return iter(sorted(found, key=lambda content: str(content.get("updated") or "")))


def runs_of_study(outputs: str | Path, study: str) -> list[str]:
    """The run folders of every sweep of `study` under `outputs`, without repeats.

    Raises RunError where there is none.
    """
    runs = [
        cell["run"]
        for content in records(outputs)
        if content.get("study") == study
        for cell in content["cells"]
    ]
    if not runs:
        raise RunError(f"study={study} has not been run under {outputs}: python train.py study={study}")
    return list(dict.fromkeys(runs))


def stated_at_start(outputs: str | Path, study: str | None) -> list[dict[str, Any]] | None:
    """The contrasts of `study` when its first sweep under `outputs` started; None where that is not on record."""
    own = [content for content in records(outputs) if study and content.get("study") == study]
    first = min(own, key=lambda content: str(content.get("created") or ""), default={})
    contrasts = first.get("contrasts")
    return contrasts if isinstance(contrasts, list) else None
