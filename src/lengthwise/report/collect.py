"""From run folders to plain frames, and which runs may be pooled.

Runs are pooled over seeds only if they are the same variant (the config without its seeds) *and* were trained for
as long, on the same schedule, in the same precision, with the same versions. Where one of these differs the runs
form separate groups, each labelled with what sets it apart, and a note says so.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from lengthwise.errors import ConfigError, RunError
from lengthwise.runs import (
    RunFolder,
    Status,
    component_name,
    factors,
    format_lengths,
    parse_lengths,
    read_starts,
    read_table,
    variant_hash,
)

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_PACKAGES = ("lengthwise", "torch", "pytorch-lightning", "numpy")
"""Whose versions can change a figure."""
_IGNORED = (
    "seed",
    "init_seed",
    "data_seed",
    "outputs",
    "overwrite",
    "wandb",
    "evaluation",
    "debug",
    "study",
    "callbacks",
)
"""Config keys that never name a variant: seeds, and what leaves the result as it is."""

TRAINED = "trained"
"""The `evaluation_id` of a test with the options of training."""


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
    start: dict[str, Any]
    lengths: pd.DataFrame
    symmetry: pd.DataFrame

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
    outputs: str | Path, *, runs: Sequence[str] | None = None, checkpoint: str = "last"
) -> Collection:
    """The runs under ``outputs/runs``, or of those only the named ones (a name without a folder is a problem).

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
    settings, groups = _group(found, notes)
    return Collection(
        runs=_run_frame(found, groups),
        lengths=_stack(found, groups, "lengths", checkpoint),
        symmetry=_stack(found, groups, "symmetry", None),
        groups=groups,
        settings=settings,
        problems=problems,
        notes=notes,
    )


def read_sweep(outputs: str | Path, sweep: str) -> dict[str, Any]:
    """``outputs/sweeps/<sweep>.json``. Raises RunError if it is missing or not what a sweep writes."""
    path = Path(outputs) / "sweeps" / f"{sweep}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        record["cells"] = [{**cell, "run": str(cell["run"])} for cell in record["cells"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} cannot be read as a sweep ({_said(error)}).") from error
    return record


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
    for table in (folder.length_csv, folder.symmetry_csv):
        try:
            tables[table] = pd.DataFrame(read_table(table))
        except RunError as error:
            tables[table] = pd.DataFrame()
            problem("damaged", str(error))
    if status.state == "done" and not folder.length_csv.exists():
        problem("damaged", "length.csv is missing: this run has no test")
    try:
        start = read_starts(folder.provenance_file)[-1]
    except (RunError, IndexError) as error:
        start = {}
        problem("damaged", f"{error} Its precision and versions are not known.")
    return _Run(path.name, config, status, start, tables[folder.length_csv], tables[folder.symmetry_csv])


def _config(folder: RunFolder) -> dict[str, Any]:
    """As `RunFolder.read_config`, with libyaml where it is there (ten times as fast), and the slots checked."""
    try:
        config = yaml.load(folder.config_file.read_bytes(), Loader=_Loader)
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
    """What must be equal for pooling although it is not part of a variant."""
    trainer, schedule = run.config["trainer"], run.config.get("schedule")
    steps = run.status.max_steps or trainer.get("max_steps")
    horizon = run.status.horizon or (schedule.get("steps") if isinstance(schedule, dict) else None) or steps
    packages = run.start.get("packages")
    packages = packages if isinstance(packages, dict) else {}
    found = {
        "steps": steps,
        "schedule horizon": horizon,
        "precision": run.start.get("precision") or "unknown",
        "results version": run.start.get("results_version", "unknown"),
        **{f"{name} version": packages.get(name, "unknown") for name in _PACKAGES},
    }
    return tuple((name, str(value)) for name, value in found.items())


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


def _group(runs: list[_Run], notes: list[str]) -> tuple[list[Setting], list[Group]]:
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
        labels = _labels({key: found[0].config for key, found in inside.items()})
        apart = _differences([dict(key[2]) for key in inside])
        split = [key for key in inside if sum(key[1] == other[1] for other in inside) > 1]
        for key, found in inside.items():
            label = labels[key]
            if key in split:
                same_variant = _differences([dict(other[2]) for other in inside if other[1] == key[1]])
                label += "".join(f", {_worded(name, dict(key[2])[name])}" for name in same_variant)
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
    groups.sort(key=lambda group: (group.setting, order.get(group.encoding, len(order)), group.label))
    return sorted(settings.values(), key=lambda setting: setting.title), groups


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
        values = sorted({context.get(name, "unknown") for context in contexts})
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
    options = [
        f"{key}={value}" for key, value in sorted(run.config["task"].items()) if not key.startswith("_")
    ]
    title = (
        task
        + (f" ({', '.join(options)})" if options else "")
        + f", trained on lengths {format_lengths(lengths)}"
    )
    key = json.dumps([run.config["task"], lengths], sort_keys=True, default=str)
    return Setting(key, title, task, lengths)


def _flat(node: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(node, Mapping):
        return {prefix: node}
    flat: dict[str, Any] = {}
    for key, value in node.items():
        flat |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return flat


def _labels(configs: Mapping[Any, dict[str, Any]]) -> dict[Any, str]:
    """For each variant its encoding, and the other choices in which the variants of this setting differ.

    An option is a difference only between variants that have the same component in that slot: ``pe.base`` tells two
    rotary variants apart and says nothing about a learned table. What more than half of them share goes unsaid.
    """
    flats = {}
    for key, config in configs.items():
        kept = {name: value for name, value in config.items() if name not in (*_IGNORED, "task", "data")}
        kept["trainer"] = {k: v for k, v in kept["trainer"].items() if k in ("accumulate", "clip")}
        kept["batch_size"] = config["data"].get("batch_size")
        flats[key] = {name: value for name, value in _flat(kept).items() if name != "schedule.steps"}
    names = sorted({name for flat in flats.values() for name in flat})
    parts: dict[Any, list[str]] = {key: [component_name(configs[key]["pe"])] for key in configs}
    for name in names:
        if name in ("pe._target_",) or name.endswith("_partial_"):
            continue
        slot = name.partition(".")[0]
        target = f"{slot}._target_"
        by_target: dict[Any, Counter[str]] = {}
        for flat in flats.values():
            kind = None if name == target else flat.get(target)
            by_target.setdefault(kind, Counter())[repr(flat.get(name))] += 1
        for key, flat in flats.items():
            values = by_target[None if name == target else flat.get(target)]
            usual = 2 * values[repr(flat.get(name))] > values.total()
            if len(values) > 1 and not usual:
                shown = component_name(configs[key][slot]) if name == target else flat.get(name)
                parts[key].append(f"{slot if name == target else name.rpartition('.')[2]}={shown}")
    return {key: " ".join(found) for key, found in parts.items()}


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


def _stack(runs: list[_Run], groups: list[Group], table: str, checkpoint: str | None) -> pd.DataFrame:
    owner = {name: group for group in groups for _, name in group.runs}
    frames = []
    for run in runs:
        frame = getattr(run, table)
        group = owner.get(run.name)
        if group is None or frame.empty:
            continue
        frame = _own_evaluation(frame)
        if checkpoint is not None:
            frame = _of_checkpoint(frame, checkpoint)
        head = {"run": run.name, "group": group.key, "setting": group.setting, "seed": run.seed}
        frames.append(frame.assign(**head))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _own_evaluation(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows tested with the options of training; of what was measured twice the later ones."""
    kept = frame
    if "evaluation_id" in kept:
        kept = kept[kept["evaluation_id"].fillna(TRAINED) == TRAINED]
    if "split" in kept:
        kept = kept[kept["split"] == "test"]
    same = [name for name in _ROW_KEY if name in kept]
    return kept.drop_duplicates(same, keep="last")


def _of_checkpoint(frame: pd.DataFrame, checkpoint: str) -> pd.DataFrame:
    """Rows of one checkpoint, and of its newest weights: a run that was extended keeps older rows at other lengths."""
    if "checkpoint" in frame:
        frame = frame[frame["checkpoint"] == checkpoint]
    return frame[frame["step"] == frame["step"].max()] if "step" in frame else frame


_ROW_KEY = ("checkpoint", "step", "length", "stratum", "action", "quantity", "dtype")


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
