"""Run folders as they are read for a page: quickly, and with what is wrong with one said instead of raised."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml

from lengthwise.errors import ConfigError, RunError
from lengthwise.report.words import counted
from lengthwise.runs import (
    RunFolder,
    Status,
    completed,
    factors,
    format_lengths,
    parse_lengths,
    read_starts,
    read_table,
    variant_hash,
)
from lengthwise.runs.provenance import only_tests
from lengthwise.runs.seal import unsealed
from lengthwise.runs.tables import LENGTH_KEY
from lengthwise.runs.tested import TRAINED

UNKNOWN = "unknown"
_PACKAGES = ("lengthwise", "torch", "pytorch-lightning", "numpy")
"""Whose versions can change a figure."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Of YAML: the fast one, where it is there."""


@dataclass(frozen=True)
class Problem:
    """A run that is not in the figures, or only in part, and why."""

    run: str
    state: str
    reason: str


@dataclass
class Run:
    """One run folder: its configuration (read only, runs share parts of it), status, starts and tables."""

    name: str
    config: dict[str, Any]
    status: Status
    starts: list[dict[str, Any]]
    lengths: list[dict[str, Any]]
    symmetry: list[dict[str, Any]]
    variant: str

    @property
    def done(self) -> bool:
        return self.status.state == "done"

    @cached_property
    def seed(self) -> int | str:
        """As people call it: one number, or ``"<init_seed>+<data_seed>"`` where the two differ."""
        return factors(self.config).get("seed", 0)

    @cached_property
    def context(self) -> tuple[tuple[str, str], ...]:
        """What must be equal for pooling although it is not part of a variant.

        From every start: a run that was resumed under another version has both, in order (``2.12.0 then 2.13.0``). A
        start that only tested the run again says nothing about the precision and the device that it was trained with.
        """
        trainer, schedule = self.config["trainer"], self.config.get("schedule")
        steps = self.status.max_steps or trainer.get("max_steps")
        horizon = (
            self.status.horizon or (schedule.get("steps") if isinstance(schedule, dict) else None) or steps
        )
        training = [start for start in self.starts if not only_tests(start)]
        device = _through(start.get("device") for start in training)
        found = {
            "steps": steps,
            "schedule horizon": horizon,
            "precision": _through(start.get("precision") for start in training),
            **({} if device == UNKNOWN else {"device": device}),  # older records do not tell
            "results version": _through(start.get("results_version") for start in self.starts),
            **{
                f"{name} version": _through(_packages(s).get(name) for s in self.starts) for name in _PACKAGES
            },
        }
        return tuple((name, str(value)) for name, value in found.items())


class Reader:
    """Reads each of the runs in a folder once, however many studies it belongs to.

    Raises RunError if the folder itself cannot be read; never for a single run.
    """

    def __init__(self, outputs: str | Path) -> None:
        self.root = Path(outputs) / "runs"
        self._read: dict[str, tuple[Run | None, list[Problem]]] = {}

    def names(self) -> list[str]:
        """The run folders, by name."""
        try:
            return sorted(
                path.name for path in self.root.iterdir() if path.is_dir() and not path.name.startswith(".")
            )
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunError(
                f"cannot read {self.root}: {error.strerror}. Choose another folder with outputs=<folder>."
            ) from error

    def read(self, names: Iterable[str]) -> tuple[list[Run], list[Problem]]:
        """The runs that can be read, and everything that is wrong with any."""
        runs: list[Run] = []
        problems: list[Problem] = []
        for name in names:
            if name not in self._read:
                own: list[Problem] = []
                self._read[name] = (_read(self.root / name, own), own)
            run, own = self._read[name]
            problems += own
            if run is not None:
                runs.append(run)
        return runs, problems


def _read(path: Path, problems: list[Problem]) -> Run | None:
    def problem(state: str, reason: str) -> None:
        problems.append(Problem(path.name, state, reason.replace(f"{path}{os.sep}", "")))

    folder = RunFolder(path)
    if not path.is_dir():
        problem("missing", "was planned, but there is no such folder")
        return None
    try:
        status = folder.status()
        config, variant = _config(folder)
    except RunError as error:
        problem("damaged", str(error))
        return None
    if status.state != "done":
        problem(status.state, status.reason or "not finished yet")
    tables, torn = {}, False
    for table, needed in ((folder.length_csv, ("step", *LENGTH_KEY)), (folder.symmetry_csv, ())):
        try:
            tables[table] = _table(table, needed, problem)
        except RunError as error:
            tables[table] = []
            torn = torn or table == folder.length_csv
            problem("damaged", str(error))
    if status.state == "done" and not folder.length_csv.exists():
        problem("damaged", "length.csv is missing: this run has no test")
    elif (
        status.state == "done"
        and not torn
        and (lacking := _lacking(status, config, tables[folder.length_csv]))
    ):
        problem("damaged", f"length.csv {lacking}")
    try:
        starts = read_starts(folder.provenance_file)
        if not starts:
            raise RunError(f"{folder.provenance_file} names no start.")
    except RunError as error:
        starts = []
        problem("damaged", f"{error} Its precision and versions are not known.")
    return Run(
        path.name, config, status, starts, tables[folder.length_csv], tables[folder.symmetry_csv],
        status.variant or variant,
    )  # fmt: skip


def _lacking(status: Status, config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """What ``length.csv`` should hold, by the status and the configuration, and does not; "" if nothing."""
    recorded = set(status.evaluations.get(TRAINED, ()))
    found: dict[str, set[int]] = {}
    for row in rows:
        if (row["evaluation_id"] or TRAINED) == TRAINED:
            found.setdefault(row["checkpoint"], set()).add(row["length"])
    evaluation = config.get("evaluation") or {}
    asked = recorded & set(parse_lengths(evaluation.get("lengths") or []))
    expected = {
        checkpoint: asked
        for checkpoint in evaluation.get("checkpoints") or ()
        if any(name.startswith(f"{checkpoint}/") for name in status.results)
    }
    lost = {checkpoint: needed - found.get(checkpoint, set()) for checkpoint, needed in expected.items()}
    said = [f"{format_lengths(lengths)} (checkpoint {name})" for name, lengths in lost.items() if lengths]
    if rest := recorded - set().union(*found.values(), *lost.values()):
        said.append(format_lengths(rest))
    if said:
        return f"lacks tests that were made, at lengths {' and '.join(said)}: test the run again"
    return "" if rows else "is empty: this run has no test"


_WHOLE = ("step", "length")
_NUMBERS = (
    *_WHOLE, "n", "n_tokens", "token_accuracy", "exact_match", "loss", "best_blind", "train_overlap", "asked",
    "error_mean", "error_max", "difference_mean", "difference_max", "flips",
)  # fmt: skip


def _table(path: Path, needed: Sequence[str], problem: Callable[[str, str], None]) -> list[dict[str, Any]]:
    """The rows; a figure that is not finite, or cannot be, is left out and said.

    Raises RunError for a table that is damaged, lacks a column, or has something else where a number belongs.
    """
    rows = read_table(path)
    if rows and (missing := [name for name in needed if name not in rows[0]]):
        raise RunError(f"{path} is damaged: there is no column {missing[0]}.")
    columns = [name for name in rows[0] if name in _NUMBERS or name.startswith("baseline_")] if rows else []
    lost: dict[str, dict[str, int]] = {}
    for number, row in enumerate(rows, start=2):
        for name in columns:
            value = row[name]
            if wrong := _wrong(name, value):
                row[name] = value = None
                count = lost.setdefault(wrong, {})
                count[name] = count.get(name, 0) + 1
            if isinstance(value, str) or (name in _WHOLE and (value is None or value % 1)):
                raise RunError(f"{path} is damaged: {name} is {value!r:.40} in line {number}.")
    for wrong, counts in lost.items():
        said = ", ".join(f"{name} in {counted(count, 'row')}" for name, count in counts.items())
        limits = "" if wrong == NOT_FINITE else " (a share is from 0 to 1, a number of items from 0)"
        problem(wrong, f"{path}: {said}{limits}; these figures are left out.")
    return rows


NOT_FINITE, OUT_OF_RANGE = "not finite", "out of range"
_COUNTS = ("n", "n_tokens", "asked")
_SHARES = ("token_accuracy", "exact_match", "best_blind", "train_overlap", "flips")


def _wrong(name: str, value: Any) -> str:
    """What is wrong with a figure; "" if nothing, or it is none."""
    if not isinstance(value, int | float):
        return ""
    if not math.isfinite(value):
        return NOT_FINITE
    share = name in _SHARES or name.startswith("baseline_")
    return OUT_OF_RANGE if (share and not 0 <= value <= 1) or (name in _COUNTS and value < 0) else ""


def _config(folder: RunFolder) -> tuple[dict[str, Any], str]:
    """The configuration, its slots checked, and the hash of its variant."""
    try:
        config = completed(parse_config(unsealed(folder.config_file.read_bytes(), folder.config_file)))
        for slot in ("task", "pe", "data", "trainer"):
            if not isinstance(config[slot], dict):
                raise TypeError(f"{slot} is {config[slot]!r:.40}")
        parse_lengths(config["data"]["lengths"])
        return config, variant_hash(config)
    except FileNotFoundError:
        raise RunError("config.yaml is missing.") from None
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError, ConfigError, RecursionError) as error:
        raise RunError(f"config.yaml is damaged ({_said(error)}).") from error


def parse_config(data: bytes) -> Any:
    """What YAML says, top-level key by top-level key, so that what runs of a sweep have in common is parsed once.

    Where a piece is not a mapping on its own (an alias, a document mark, a text that goes on at the margin) the whole
    is parsed as one.
    """
    before, *blocks = re.split(rb"(?m)^(?=[A-Za-z_])", data)
    try:
        parts = [_block(block) for block in blocks]
    except (yaml.YAMLError, ValueError):
        parts = []
    if before.strip() or not parts or not all(isinstance(part, dict) for part in parts):
        return yaml.load(data, LOADER)
    return {key: value for part in parts for key, value in part.items()}


@lru_cache(maxsize=4096)
def _block(text: bytes) -> Any:
    return yaml.load(text, LOADER)


def _said(error: Exception) -> str:
    return " ".join((f"lacks {error}" if isinstance(error, KeyError) else str(error)).split())[:160]


def _through(values: Iterable[Any]) -> str:
    """What held from start to start; once where it did not change."""
    known = dict.fromkeys(UNKNOWN if value is None else str(value) for value in values)
    return " then ".join(known) or UNKNOWN


def _packages(start: Mapping[str, Any]) -> Mapping[str, Any]:
    packages = start.get("packages")
    return packages if isinstance(packages, dict) else {}
