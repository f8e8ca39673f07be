"""A sweep: cells checked together, then run one after the other, each in a process of its own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lengthwise.errors import ConfigError, RunError
from lengthwise.runs import RunFolder, Status
from lengthwise.runs.atomic import explain, write_atomic
from lengthwise.runs.tested import is_complete
from lengthwise.sweeps.job import run_job


@dataclass
class Cell:
    """One combination of a sweep.

    overrides: what distinguishes and defines it, as a command line takes it.
    config:    composed and checked.
    """

    overrides: list[str]
    config: dict[str, Any]

    @property
    def folder(self) -> RunFolder:
        """Where its run is or will be."""
        return RunFolder.locate(self.config["outputs"], self.config)


@dataclass
class Outcome:
    """What became of a cell: ``done``, ``failed`` or ``interrupted``, and why."""

    run: str
    overrides: list[str]
    state: str = "waiting"
    reason: str | None = None


def refuse_collisions(cells: Sequence[Cell]) -> None:
    """Raises ConfigError where two cells are one and the same run, naming them and the way out."""
    seen: dict[Path, Cell] = {}
    for cell in cells:
        path = cell.folder.path
        if path in seen:
            first, second = set(seen[path].overrides), set(cell.overrides)
            axes = sorted({text.partition("=")[0].lstrip("+") for text in first ^ second}) or ["nothing"]
            label = "-".join(f"${{{axis}}}" for axis in axes)
            raise ConfigError(
                f"two cells of the sweep are the same run: they differ in {', '.join(axes)} only, which does not "
                f"make another run. To keep them apart add 'run.label={label}'"
            )
        seen[path] = cell


class Sweep:
    """The record of a sweep, ``<outputs>/sweeps/<name>.json``, and its execution.

    name:  of the record, and the W&B group of the runs.
    study: the study it belongs to, or None.
    flags: of the command line that say where configuration is looked for; every job gets them.

    Raises ConfigError where two cells collide, RunError where the record cannot be written.
    """

    def __init__(
        self, name: str, cells: Sequence[Cell], *, study: str | None = None, flags: Sequence[str] = ()
    ) -> None:
        if not cells:
            raise ConfigError("the sweep has no cells: every axis needs at least one value")
        refuse_collisions(cells)
        self.name, self.cells, self.study, self.flags = name, list(cells), study, list(flags)
        self.outcomes = [Outcome(cell.folder.name, cell.overrides) for cell in cells]
        self.path = Path(cells[0].config["outputs"]) / "sweeps" / f"{name}.json"
        self._record()

    def run(self) -> int:
        """Run every cell; one that fails does not stop the others. The exit code: 0 where all are done."""
        for number, (cell, outcome) in enumerate(zip(self.cells, self.outcomes, strict=True), start=1):
            print(f"\n[{number}/{len(self.cells)}] {' '.join(cell.overrides)}", flush=True)
            try:
                self._run_cell(cell, outcome)
            except KeyboardInterrupt:
                outcome.state, outcome.reason = "interrupted", "stopped by the user"
                self._record()
                self._report()
                raise
            self._record()
        return self._report()

    def _run_cell(self, cell: Cell, outcome: Outcome) -> None:
        if is_complete(cell.folder, cell.config):
            outcome.state = "done"
            steps, asked = cell.folder.status().steps, cell.config["trainer"]["max_steps"]
            more = f", more than the {asked} asked for" if steps > asked else ""
            print(f"done already: {cell.folder.name} ({steps} steps{more})", flush=True)
            return
        group = cell.config["wandb"]["group"] or self.name
        code, reason = run_job([*cell.overrides, f"wandb.group={group}"], self.flags)
        # Done is what the status says, never an exit code: a trainer may exit with 0 after SIGTERM.
        status = _status(cell.folder)
        if code == 0 and status is not None and status.state == "done":
            outcome.state = "done"
        else:
            outcome.state = "failed"
            outcome.reason = status.reason if status is not None and status.reason else reason

    def _record(self) -> None:
        content = {
            "id": self.name,
            "study": self.study,
            "cells": [asdict(outcome) for outcome in self.outcomes],
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.path.parent).close()
        except OSError as error:
            raise RunError(
                f"cannot write to {self.path.parent}: {explain(error)}. Choose another folder with outputs=<folder>."
            ) from error
        write_atomic(self.path, json.dumps(content, indent=2).encode() + b"\n")

    def _report(self) -> int:
        """Name what failed; 1 where anything did."""
        failed = [outcome for outcome in self.outcomes if outcome.state in ("failed", "interrupted")]
        done = sum(outcome.state == "done" for outcome in self.outcomes)
        print(f"\nsweep {self.name}: {done} of {len(self.cells)} runs done, {len(failed)} failed", flush=True)
        for outcome in failed:
            print(
                f"  {outcome.state}: {' '.join(outcome.overrides)}\n    {outcome.reason}\n    {outcome.run}"
            )
        if failed:
            print("The same command again runs only what is missing.", flush=True)
        return 1 if failed else 0


def _status(folder: RunFolder) -> Status | None:
    try:
        return folder.status()
    except RunError:
        return None  # it never came as far as a status


def runs_of_study(outputs: Path, study: str) -> list[str]:
    """The run folders of every sweep of `study` under `outputs`, without repeats.

    Raises RunError where there is none.
    """
    runs: list[str] = []
    for path in sorted((outputs / "sweeps").glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            cells = content["cells"] if content["study"] == study else []
            runs += [cell["run"] for cell in cells if cell["run"] not in runs]
        except (ValueError, KeyError, TypeError):
            continue  # not a record of ours
    if not runs:
        raise RunError(f"study={study} has not been run under {outputs}: python train.py study={study}")
    return runs
