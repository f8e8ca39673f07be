"""From run folders to plain frames, and which runs may be pooled.

Runs are pooled over seeds only if they are the same variant (the config without its seeds) *and* were trained for
as long, on the same schedule, in the same precision, with the same versions. Where one of these differs the runs
form separate groups, each labelled with what sets it apart, and a note says so.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from lengthwise.errors import ConfigError, RunError
from lengthwise.report.labels import labels_of
from lengthwise.runs import (
    RunFolder,
    Status,
    completed,
    component_name,
    factors,
    format_lengths,
    parse_lengths,
    read_starts,
    read_table,
    variant_hash,
)
from lengthwise.runs.provenance import only_tests
from lengthwise.runs.tables import LENGTH_KEY
from lengthwise.runs.tested import TRAINED, current_rows
from lengthwise.texts import without_place

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_UNKNOWN = "unknown"
_PACKAGES = ("lengthwise", "torch", "pytorch-lightning", "numpy")
"""Whose versions can change a figure."""


@dataclass(frozen=True)
class Problem:
    """A run that is not in the figures, or only in part, and why."""

    run: str
    state: str
    reason: str


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seeds: one line in a figure.

    `context` is what must be equal for pooling and is no part of the variant (steps, schedule, precision, versions).
    """

    key: str
    label: str
    encoding: str
    setting: str
    variant: str
    context: tuple[tuple[str, str], ...]
    runs: tuple[tuple[int | str, str], ...]  # (seed, folder name)
    declared: frozenset[tuple[str, bool]] = frozenset()  # (symmetry, whether the model says that it keeps it)


@dataclass(frozen=True)
class Setting:
    """What must be equal for results to share axes: the task and the lengths trained on."""

    key: str
    title: str
    task: str
    train_lengths: tuple[int, ...]


@dataclass
class Collection:
    """Everything a page shows, as frames.

    runs:     run, group, seed, state, reason, task, encoding, label, setting, steps, max_steps, precision
    lengths:  one row of length.csv a row, with run, group, setting, seed; the rows of one checkpoint and one
              evaluation alone
    symmetry: the same for symmetry.csv
    """

    runs: pd.DataFrame
    lengths: pd.DataFrame
    symmetry: pd.DataFrame
    groups: list[Group]
    settings: list[Setting]
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def groups_of(self, setting: Setting) -> list[Group]:
        return [group for group in self.groups if group.setting == setting.key]


@dataclass
class _Run:
    name: str
    config: dict[str, Any]
    status: Status
    starts: list[dict[str, Any]]
    lengths: list[dict[str, Any]]
    symmetry: list[dict[str, Any]]

    @property
    def done(self) -> bool:
        return self.status.state == "done"

    @property
    def variant(self) -> str:
        return self.status.variant or variant_hash(self.config)

    @property
    def seed(self) -> int | str:
        """As people call it: one number, or ``"<init_seed>+<data_seed>"`` where the two differ."""
        return factors(self.config).get("seed", 0)


def collect(
    outputs: str | Path,
    *,
    runs: Sequence[str] | None = None,
    checkpoint: str = "last",
    named: Sequence[str] = (),
) -> Collection:
    """The runs under ``outputs/runs``, or of those only the named ones (a name without a folder is a problem).

    `named`: keys that labels name wherever variants differ in them, see `labels_of`.

    Nothing here stops at a damaged run: it is named in `problems`. Raises RunError if there is no run at all.
    """
    root = Path(outputs) / "runs"
    names = _folders(root) if runs is None else list(dict.fromkeys(runs))
    if not names:
        raise RunError(
            f"there is no run in {root} yet: train one first (python train.py). Is outputs= right?"
        )
    problems: list[Problem] = []
    found = [run for name in names if (run := _read(root / name, problems)) is not None]
    notes: list[str] = []
    found = _without_copies(found, problems)
    problems += _untested(found, checkpoint)
    settings, groups = _group(found, notes, named)
    return Collection(
        runs=_run_frame(found, groups),
        lengths=_stack({run.name: _of_checkpoint(run.lengths, checkpoint) for run in found}, groups),
        symmetry=_stack({run.name: _own_evaluation(run.symmetry) for run in found}, groups),
        groups=groups,
        settings=settings,
        problems=problems,
        notes=notes,
    )


def _folders(root: Path) -> list[str]:
    try:
        return sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(
            f"cannot read {root}: {error.strerror}. Choose another folder with outputs=<folder>."
        ) from error


def _read(path: Path, problems: list[Problem]) -> _Run | None:
    def problem(state: str, reason: str) -> None:
        problems.append(Problem(path.name, state, reason.replace(f"{path}{os.sep}", "")))

    folder = RunFolder(path)
    if not path.is_dir():
        problem("missing", "was planned, but there is no such folder")
        return None
    try:
        status = folder.status()
        config = _config(folder)
    except RunError as error:
        problem("damaged", str(error))
        return None
    if status.state != "done":
        problem(status.state, status.reason or "not finished yet")
    tables = {}
    for table, needed in ((folder.length_csv, ("step", *LENGTH_KEY)), (folder.symmetry_csv, ())):
        try:
            tables[table] = _table(table, needed)
        except RunError as error:
            tables[table] = []
            problem("damaged", str(error))
    if status.state == "done" and not folder.length_csv.exists():
        problem("damaged", "length.csv is missing: this run has no test")
    try:
        starts = read_starts(folder.provenance_file)
        if not starts:
            raise RunError(f"{folder.provenance_file} names no start.")
    except RunError as error:
        starts = []
        problem("damaged", f"{error} Its precision and versions are not known.")
    return _Run(path.name, config, status, starts, tables[folder.length_csv], tables[folder.symmetry_csv])


def _table(path: Path, needed: Sequence[str]) -> list[dict[str, Any]]:
    rows = read_table(path)
    if rows and (missing := [name for name in needed if name not in rows[0]]):
        raise RunError(f"{path} is damaged: there is no column {missing[0]}.")
    return rows


def _config(folder: RunFolder) -> dict[str, Any]:
    """As `RunFolder.read_config`, with libyaml where it is there (ten times as fast), and the slots checked."""
    try:
        config = completed(yaml.load(folder.config_file.read_bytes(), Loader=_Loader))
        for slot in ("task", "pe", "data", "trainer"):
            if not isinstance(config[slot], dict):
                raise TypeError(f"{slot} is {config[slot]!r:.40}")
        parse_lengths(config["data"]["lengths"])
        variant_hash(config)
    except FileNotFoundError:
        raise RunError("config.yaml is missing.") from None
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError, ConfigError) as error:
        raise RunError(f"config.yaml is damaged ({_said(error)}).") from error
    return config


def _said(error: Exception) -> str:
    return " ".join((f"lacks {error}" if isinstance(error, KeyError) else str(error)).split())[:160]


def _context(run: _Run) -> tuple[tuple[str, str], ...]:
    """What must be equal for pooling although it is not part of a variant.

    From every start: a run that was resumed under another version has both, in order (``2.12.0 then 2.13.0``). A
    start that only tested the run again says nothing about the precision and the device that it was trained with.
    """
    trainer, schedule = run.config["trainer"], run.config.get("schedule")
    steps = run.status.max_steps or trainer.get("max_steps")
    horizon = run.status.horizon or (schedule.get("steps") if isinstance(schedule, dict) else None) or steps
    training = [start for start in run.starts if not only_tests(start)]
    device = _through(start.get("device") for start in training)
    found = {
        "steps": steps,
        "schedule horizon": horizon,
        "precision": _through(start.get("precision") for start in training),
        **({} if device == _UNKNOWN else {"device": device}),  # older records do not tell
        "results version": _through(start.get("results_version") for start in run.starts),
        **{f"{name} version": _through(_packages(s).get(name) for s in run.starts) for name in _PACKAGES},
    }
    return tuple((name, str(value)) for name, value in found.items())


def _through(values: Iterable[Any]) -> str:
    """What held from start to start; once where it did not change."""
    known = dict.fromkeys(_UNKNOWN if value is None else str(value) for value in values)
    return " then ".join(known) or _UNKNOWN


def _packages(start: Mapping[str, Any]) -> Mapping[str, Any]:
    packages = start.get("packages")
    return packages if isinstance(packages, dict) else {}


def _untested(runs: Sequence[_Run], checkpoint: str) -> list[Problem]:
    """Finished runs with a test, though of none of this checkpoint's present weights: they have no figure to show."""
    return [
        Problem(run.name, "untested", f"checkpoint {checkpoint} was not tested since it was last trained")
        for run in runs
        if run.done and run.lengths and not _of_checkpoint(run.lengths, checkpoint)
    ]


def _without_copies(runs: list[_Run], problems: list[Problem]) -> list[_Run]:
    """Each seed of a group once: a copied folder must not count as another seed."""
    seen: dict[Any, str] = {}
    kept = []
    for run in runs:
        key = (run.variant, _context(run), run.seed)
        if run.done and key in seen:
            problems.append(
                Problem(run.name, "copy", f"same config and seed as {seen[key]}; not counted again")
            )
            continue
        if run.done:
            seen[key] = run.name
        kept.append(run)
    return kept


def _group(runs: list[_Run], notes: list[str], named: Sequence[str]) -> tuple[list[Setting], list[Group]]:
    """Settings and groups of the finished runs, in the order of their labels."""
    settings: dict[str, Setting] = {}
    members: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[_Run]] = {}
    for run in runs:
        if not run.done:
            continue
        setting = _setting(run)
        settings.setdefault(setting.key, setting)
        members.setdefault((setting.key, run.variant, _context(run)), []).append(run)
    groups: list[Group] = []
    for setting in settings.values():
        inside = {key: found for key, found in members.items() if key[0] == setting.key}
        labels = labels_of({key[1]: found[0].config for key, found in inside.items()}, named)
        apart = _differences([dict(key[2]) for key in inside])
        split = [key for key in inside if sum(key[1] == other[1] for other in inside) > 1]
        for key, found in inside.items():
            label = labels[key[1]]
            if key in split:
                same_variant = _differences([dict(other[2]) for other in inside if other[1] == key[1]])
                label += "".join(
                    f", {_worded(name, dict(key[2]).get(name, _UNKNOWN))}" for name in same_variant
                )
            seeds = tuple(sorted(((run.seed, run.name) for run in found), key=str))
            groups.append(
                Group(
                    "/".join([*key[:2], json.dumps(key[2])]), label, component_name(found[0].config["pe"]),
                    setting.key, key[1], key[2], seeds, _declared(found),
                )
            )  # fmt: skip
        if apart:
            notes.append(_apart_note(setting, apart, [dict(key[2]) for key in inside], bool(split)))
    order = {name: index for index, name in enumerate(_ENCODING_ORDER)}
    groups.sort(
        key=lambda group: (group.setting, order.get(group.encoding, len(order)), _natural(group.label))
    )
    return sorted(settings.values(), key=lambda setting: setting.title), groups


def _natural(label: str) -> list[tuple[int, str]]:
    """Numbers in a label by their size: ``heads=8`` before ``heads=16``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", label)]


def _declared(runs: list[_Run]) -> frozenset[tuple[str, bool]]:
    """Symmetries that the runs' models declare to keep or not, where all say the same (``results`` of the status)."""
    said = [
        {
            (name.split("/")[1], bool(value))
            for name, value in run.status.results.items()
            if name.startswith("symmetry/") and name.endswith("/declared")
        }
        for run in runs
    ]
    return frozenset(set.intersection(*said))


_ENCODING_ORDER = (
    "none", "integer", "unit_interval", "binary", "sinusoidal", "learned", "rotary", "alibi", "t5",
)  # fmt: skip


def _apart_note(setting: Setting, names: list[str], contexts: list[dict[str, str]], split: bool) -> str:
    parts = []
    for name in names:
        values = sorted({context.get(name, _UNKNOWN) for context in contexts})
        parts.append(f"{name} ({', '.join(values)})")
    pooled = "Runs of one variant that differ in it are shown apart, never pooled." if split else ""
    return f"{setting.title}: the runs differ in {' and '.join(parts)}; compare with care. {pooled}".strip()


def _worded(name: str, value: str) -> str:
    return f"{value} steps" if name == "steps" else f"{name} {value}"


def _differences(contexts: list[dict[str, str]]) -> list[str]:
    names = list(dict.fromkeys(name for context in contexts for name in context))
    different = [name for name in names if len({context.get(name) for context in contexts}) > 1]
    if "steps" in different and "schedule horizon" in different:
        same = all(context.get("steps") == context.get("schedule horizon") for context in contexts)
        different = [name for name in different if not (same and name == "schedule horizon")]
    return different


def _setting(run: _Run) -> Setting:
    lengths = tuple(sorted(set(parse_lengths(run.config["data"]["lengths"]))))
    task = component_name(run.config["task"])
    chosen = without_place(run.config["task"])
    options = [f"{key}={value}" for key, value in sorted(chosen.items()) if not key.startswith("_")]
    title = (
        task
        + (f" ({', '.join(options)})" if options else "")
        + f", trained on lengths {format_lengths(lengths)}"
    )
    key = json.dumps([chosen, lengths], sort_keys=True, default=str)
    return Setting(key, title, task, lengths)


def _run_frame(runs: list[_Run], groups: list[Group]) -> pd.DataFrame:
    owner = {name: group for group in groups for _, name in group.runs}
    rows = []
    for run in runs:
        group = owner.get(run.name)
        rows.append({
            "run": run.name, "group": group.key if group else None, "seed": run.seed, "state": run.status.state,
            "reason": run.status.reason or "", "task": component_name(run.config["task"]),
            "encoding": component_name(run.config["pe"]),
            "label": group.label if group else component_name(run.config["pe"]),
            "setting": _setting(run).key,
            "steps": run.status.steps,
            "max_steps": dict(_context(run))["steps"],
            "precision": dict(_context(run))["precision"],
        })  # fmt: skip
    columns = [
        "run", "group", "seed", "state", "reason", "task", "encoding", "label", "setting", "steps",
        "max_steps", "precision",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _stack(tables: Mapping[str, list[dict[str, Any]]], groups: list[Group]) -> pd.DataFrame:
    """The rows of all runs that belong to a group, in the order of `tables` (by name of the run)."""
    owner = {name: (group, seed) for group in groups for seed, name in group.runs}
    frames = []
    for name, rows in tables.items():
        if name in owner and rows:
            group, seed = owner[name]
            head = {"run": name, "group": group.key, "setting": group.setting, "seed": seed}
            frames.append(pd.DataFrame(rows).assign(**head))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _of_checkpoint(rows: list[dict[str, Any]], checkpoint: str) -> list[dict[str, Any]]:
    """Rows of ``length.csv``: test, one checkpoint's present weights, the options of training."""
    return _latest(row for row in current_rows(rows, checkpoint) if row["split"] == "test")


def _own_evaluation(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of ``symmetry.csv`` measured with the options of training."""
    return _latest(row for row in rows if (row.get("evaluation_id") or TRAINED) == TRAINED)


_ROW_KEY = ("checkpoint", "step", "length", "stratum", "action", "quantity", "dtype")


def _latest(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of what was measured twice the later row."""
    return list({tuple(row.get(name) for name in _ROW_KEY): row for row in rows}.values())


def baselines_of(frame: pd.DataFrame) -> dict[str, dict[int, float]]:
    """Blind baselines: name -> length -> accuracy, from the columns ``baseline_<name>`` and ``best_blind``."""
    found = {}
    for column in frame.columns:
        if column.startswith("baseline_") or column == "best_blind":
            known = frame[["length", column]].dropna().drop_duplicates("length").sort_values("length")
            found[column.removeprefix("baseline_")] = dict(
                zip(known["length"].tolist(), known[column].tolist(), strict=True)
            )
    return found
