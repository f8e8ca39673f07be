"""``lengthwise runs``: the runs on disk, listed, filtered, sorted; one shown, two compared."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from lengthwise.errors import ConfigError
from lengthwise.report.conditions import SHORT, cell, column_of, missing, select
from lengthwise.report.deleting import delete
from lengthwise.report.reading import Reader
from lengthwise.runs import find_run, load_runs

if TYPE_CHECKING:
    import pandas as pd

_OPTIONS = {"outputs": "outputs", "sort": None, "columns": None, "limit": None}
_ALWAYS = ("hash", "state", "steps")
_ABOUT = (
    "run",
    "hash",
    "variant",
    "state",
    "reason",
    "problem",
    "steps",
    "max_steps",
    "horizon",
    "started",
    "updated",
)
_TOLD = ("steps", "schedule horizon")
"""Of the context what the row has already: `max_steps`, `horizon`."""
COMMANDS = ("show", "compare", "delete")


def browse(arguments: Sequence[str]) -> int:
    """List, show, compare or delete runs; the exit code.

    Raises ConfigError for a condition or a column that cannot be, RunError for a run that is not there or busy.
    """
    flags = {word for word in arguments if word in ("--json", "--yes")}
    words = [word for word in arguments if word not in flags]
    command = words.pop(0) if words and words[0] in COMMANDS else "list"
    given, rest = _options(words)
    if command == "show":
        return _show(given, rest, "--json" in flags)
    if command == "compare":
        return _compare(given, rest, "--json" in flags)
    if command == "delete":
        return delete(given, rest, "--yes" in flags)
    return _list(given, rest, "--json" in flags)


def _options(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    given: dict[str, Any] = dict(_OPTIONS)
    rest = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key in given:
            given[key] = value
        else:
            rest.append(word)
    return given, rest


# -- listing


def _list(given: dict[str, Any], conditions: Sequence[str], as_json: bool) -> int:
    frame = load_runs(given["outputs"])
    if frame.empty:
        if as_json:
            print("[]")
        else:
            print(f"no run under {given['outputs']} yet: python train.py pe=learned norm=pre")
        return 0
    everything = len(frame)
    frame, complaints = select(frame, conditions)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    frame = _sorted(frame, given["sort"])
    if given["limit"]:
        if not re.fullmatch("[0-9]+", given["limit"]):
            raise ConfigError(f"limit={given['limit']}: must be a whole number")
        frame = frame.head(int(given["limit"]))
    if as_json:
        print(json.dumps([_plain(row) for _, row in frame.iterrows()], indent=1, ensure_ascii=False))
        return 0
    wanted = str(given["columns"]).split(",") if given["columns"] else None
    columns = [column_of(frame, key) for key in wanted] if wanted else _telling(frame)
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(_title(column), overflow="fold")
    for _, row in frame.iterrows():
        table.add_row(*(cell(column, row[column]) for column in columns))
    console.print(table)
    console.print(f"{len(frame)} of {everything} runs under {given['outputs']}")
    for _, row in frame.iterrows():
        why = [row[name] for name in ("problem", "reason") if not missing(row[name])]
        if row["state"] in ("failed", "interrupted", "damaged") and why:
            console.print(f"{row['state']}: {row['run']}: {why[0]}", soft_wrap=True)
    return 0


def _sorted(frame: pd.DataFrame, key: str | None) -> pd.DataFrame:
    """By `key`, from low to high, or with a minus in front from high to low; runs without the value last."""
    if not key:
        return frame
    down = key.startswith("-")
    column = column_of(frame, key.removeprefix("-"))
    return frame.sort_values(column, ascending=not down, na_position="last", kind="stable", key=_comparable)


def _comparable(values: pd.Series) -> pd.Series:
    numbers = all(isinstance(value, int | float) for value in values if not missing(value))
    return values.astype(float) if numbers else values.map(lambda v: "" if missing(v) else str(v))


def _telling(frame: pd.DataFrame) -> list[str]:
    """What distinguishes these runs: hash and state, the factors that differ, and how well they do."""
    factors = [
        column
        for column in frame.columns
        if column not in (*_ABOUT, "init_seed", "data_seed")
        and "." not in column
        and len({str(value) for value in frame[column] if not missing(value)}) > 1
    ]
    always = [
        column for column in (*_ALWAYS, "task", "pe") if column in frame.columns
    ]  # damaged runs have few
    results = [
        f"results.last/{measure}/{part}"
        for measure in SHORT
        for part in ("in_distribution", "extrapolation")
        if f"results.last/{measure}/{part}" in frame.columns
    ]
    return list(dict.fromkeys([*always, *factors, *results]))


def _title(column: str) -> str:
    return column.removeprefix("results.").removeprefix("last/").replace("/", " ").replace("_", " ")


def _plain(row: pd.Series) -> dict[str, Any]:
    """What the row holds, without what it lacks."""
    return {
        str(key): value.item() if hasattr(value, "item") else value
        for key, value in row.items()
        if not missing(value)
    }


# -- one, two


def _row_of(given: dict[str, Any], name: str) -> dict[str, Any]:
    """What is known of a run; what it was trained with (precision, device, versions) before its results."""
    folder = find_run(given["outputs"], name)
    outputs = folder.path.absolute().parents[1]
    frame = load_runs(outputs)
    row = _plain(frame[frame["run"] == folder.name].iloc[0])
    read, _ = Reader(outputs).read([folder.name])
    context = {key: value for run in read for key, value in run.context if key not in _TOLD}
    results = {key: value for key, value in row.items() if key.startswith("results.")}
    return {key: value for key, value in row.items() if key not in results} | context | results


def _show(given: dict[str, Any], names: Sequence[str], as_json: bool) -> int:
    if not names:
        raise ConfigError("runs show: name a run: its folder, or the first characters of its hash")
    rows = [_row_of(given, name) for name in names]
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    for row in rows:
        width = max(map(len, row))
        print("\n".join(f"{key:<{width}}  {cell(key, value)}" for key, value in row.items()) + "\n")
    return 0


def compare(one: dict[str, Any], other: dict[str, Any]) -> dict[str, list[tuple[str, Any, Any]]]:
    """What differs between two runs: ``config`` (key, value, value), then ``results`` likewise."""
    keys = list(dict.fromkeys([*one, *other]))
    differing = [(key, one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)]
    hidden = ("run", "hash", "variant", "started", "updated")
    return {
        "config": [d for d in differing if not d[0].startswith("results.") and d[0] not in hidden],
        "results": [(k.removeprefix("results."), a, b) for k, a, b in differing if k.startswith("results.")],
    }


def _compare(given: dict[str, Any], names: Sequence[str], as_json: bool) -> int:
    if len(names) != 2:
        raise ConfigError(f"runs compare: name two runs, not {len(names)}")
    one, other = (_row_of(given, name) for name in names)
    found = compare(one, other)
    if as_json:
        print(json.dumps({"runs": [one["run"], other["run"]], **found}, indent=1, ensure_ascii=False))
        return 0
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(f"a: {one['run']}\nb: {other['run']}", soft_wrap=True)
    for part, rows in found.items():
        table = Table(box=None, pad_edge=False, title=f"{part} that differ", title_justify="left")
        for name in (part, "a", "b", "b - a" if part == "results" else ""):
            table.add_column(name)
        for key, a, b in rows:
            numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (a, b))
            gap = f"{b - a:+.4g}" if numbers and part == "results" else ""
            table.add_row(key, cell(key, a), cell(key, b), gap)
        console.print(table if rows else f"no {part} differ")
    return 0
