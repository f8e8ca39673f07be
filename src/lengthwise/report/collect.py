"""From run folders to plain frames, and which runs may be pooled.

Runs are pooled over seeds only if they are the same variant (the config without its seeds) *and* were trained for
as long, on the same schedule, in the same precision, with the same versions. Where one of these differs the runs
form separate groups, each labelled with what sets it apart, and a note says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from lengthwise.errors import RunError
from lengthwise.report.labels import labels_of
from lengthwise.report.reading import UNKNOWN, Problem, Reader, Run
from lengthwise.runs import component_name, format_lengths, parse_lengths
from lengthwise.runs.tested import TRAINED, current_rows
from lengthwise.texts import without_place


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
    read:     the runs of `runs` themselves
    names:    all run folders that were asked for, those that cannot be read too
    root:     the folder they are in
    """

    runs: pd.DataFrame
    lengths: pd.DataFrame
    symmetry: pd.DataFrame
    groups: list[Group]
    settings: list[Setting]
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    read: list[Run] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    root: Path = Path()

    def groups_of(self, setting: Setting) -> list[Group]:
        return [group for group in self.groups if group.setting == setting.key]


def collect(
    outputs: str | Path,
    *,
    runs: Sequence[str] | None = None,
    checkpoint: str = "last",
    named: Sequence[str] = (),
    reader: Reader | None = None,
) -> Collection:
    """The runs under ``outputs/runs``, or of those only the named ones (a name without a folder is a problem).

    `named`: keys that labels name wherever variants differ in them, see `labels_of`. `reader`: one that may have read
    some of them before.

    Nothing here stops at a damaged run: it is named in `problems`. Raises RunError if there is no run at all.
    """
    reader = reader or Reader(outputs)
    names = reader.names() if runs is None else list(dict.fromkeys(runs))
    if not names:
        raise RunError(
            f"there is no run in {reader.root} yet: train one first (python train.py). Is outputs= right?"
        )
    found, problems = reader.read(names)
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
        read=found,
        names=names,
        root=reader.root,
    )


def _untested(runs: Sequence[Run], checkpoint: str) -> list[Problem]:
    """Finished runs with a test, though of none of this checkpoint's present weights: they have no figure to show."""
    return [
        Problem(run.name, "untested", f"checkpoint {checkpoint} was not tested since it was last trained")
        for run in runs
        if run.done and run.lengths and not _of_checkpoint(run.lengths, checkpoint)
    ]


def _without_copies(runs: list[Run], problems: list[Problem]) -> list[Run]:
    """Each seed of a group once: a copied folder must not count as another seed."""
    seen: dict[Any, str] = {}
    kept = []
    for run in runs:
        key = (run.variant, run.context, run.seed)
        if run.done and key in seen:
            problems.append(
                Problem(run.name, "copy", f"same config and seed as {seen[key]}; not counted again")
            )
            continue
        if run.done:
            seen[key] = run.name
        kept.append(run)
    return kept


def _group(runs: list[Run], notes: list[str], named: Sequence[str]) -> tuple[list[Setting], list[Group]]:
    """Settings and groups of the finished runs, in the order of their labels."""
    settings: dict[str, Setting] = {}
    members: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[Run]] = {}
    for run in runs:
        if not run.done:
            continue
        setting = _setting(run)
        settings.setdefault(setting.key, setting)
        members.setdefault((setting.key, run.variant, run.context), []).append(run)
    groups: list[Group] = []
    for setting in settings.values():
        inside = {key: found for key, found in members.items() if key[0] == setting.key}
        labels = labels_of({key[1]: found[0].config for key, found in inside.items()}, named)
        apart = _differences([dict(key[2]) for key in inside])
        split = [key for key in inside if sum(key[1] == other[1] for other in inside) > 1]
        trained_otherwise = [name for name in apart if name in _TRAINING]
        for key, found in inside.items():
            same_variant = _differences([dict(other[2]) for other in inside if other[1] == key[1]])
            told = dict.fromkeys([*trained_otherwise, *(same_variant if key in split else [])])
            label = labels[key[1]] + "".join(
                f", {_worded(name, dict(key[2]).get(name, UNKNOWN))}" for name in told
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
    order = {name: index for index, name in enumerate(ENCODING_ORDER)}
    groups.sort(
        key=lambda group: (group.setting, order.get(group.encoding, len(order)), _natural(group.label))
    )
    return sorted(settings.values(), key=lambda setting: setting.title), groups


def _natural(label: str) -> list[tuple[int, str]]:
    """Numbers in a label by their size: ``heads=8`` before ``heads=16``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", label)]


def _declared(runs: list[Run]) -> frozenset[tuple[str, bool]]:
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


_TRAINING = ("steps", "schedule horizon")
"""Of the context, what makes a training another one: told of every variant where the runs differ in it."""

ENCODING_ORDER = (
    "none", "integer", "unit_interval", "binary", "sinusoidal", "learned", "rotary", "alibi", "t5",
)  # fmt: skip


def _apart_note(setting: Setting, names: list[str], contexts: list[dict[str, str]], split: bool) -> str:
    parts = []
    for name in names:
        values = sorted({context.get(name, UNKNOWN) for context in contexts})
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


def _setting(run: Run) -> Setting:
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


def _run_frame(runs: list[Run], groups: list[Group]) -> pd.DataFrame:
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
            "max_steps": dict(run.context)["steps"],
            "precision": dict(run.context)["precision"],
        })  # fmt: skip
    columns = [
        "run", "group", "seed", "state", "reason", "task", "encoding", "label", "setting", "steps",
        "max_steps", "precision",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _stack(tables: Mapping[str, list[dict[str, Any]]], groups: list[Group]) -> pd.DataFrame:
    """The rows of all runs that belong to a group, in the order of `tables` (by name of the run)."""
    owner = {name: (group, seed) for group in groups for seed, name in group.runs}
    stacked = []
    for name, rows in tables.items():
        if name in owner:
            group, seed = owner[name]
            head = {"run": name, "group": group.key, "setting": group.setting, "seed": seed}
            stacked += [row | head for row in rows]
    return pd.DataFrame(stacked)


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


def baselines_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, dict[int, float]]]:
    """Baselines: group -> name -> length -> accuracy, from ``baseline_<name>`` and ``best_blind`` of the rows.

    Of each group for itself: which rules a model is compared with depends on how its answers are read.
    """
    found: dict[str, dict[str, dict[int, float]]] = {}
    for row in sorted(rows, key=lambda row: row["length"]):
        for column, value in row.items():
            if column.startswith("baseline_") or column == "best_blind":
                of_group = found.setdefault(row["group"], {})
                of_group.setdefault(column.removeprefix("baseline_"), {}).setdefault(
                    int(row["length"]), value
                )
    return found
