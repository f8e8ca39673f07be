"""``lengthwise runs``: the runs on disk, listed, filtered, sorted; one shown, two compared, some deleted."""

from __future__ import annotations

import json
import math
import operator
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from lengthwise.errors import ConfigError, RunError
from lengthwise.runs import RunFolder, find_run, load_runs

if TYPE_CHECKING:
    import pandas as pd

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, "=": operator.eq, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_CONDITION = re.compile(r"^([\w./-]+?)(>=|<=|!=|=|>|<)(.*)$", re.DOTALL)
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
_SHORT = ("token_accuracy", "exact_match")
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
        return _delete(given, rest, "--yes" in flags)
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


# -- which runs


def select(frame: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """The rows that meet all of `conditions`: ``pe=rotary,alibi``, ``seed!=0``, ``extrapolation>0.9``.

    A run without the value meets none but ``!=``. Raises ConfigError for a condition that is none.
    """
    for text in conditions:
        match = _CONDITION.match(text)
        if match is None:
            raise ConfigError(
                f"{text}: conditions are written key=value, key!=value, key>number or key<number"
            )
        key, sign, wanted = match.groups()
        column = column_of(frame, key)
        values = wanted.split(",") if sign in ("=", "!=") else [wanted]
        frame = frame[[_meets(value, sign, values, text) for value in frame[column]]]
    return frame


def _meets(value: Any, sign: str, wanted: Sequence[str], text: str) -> bool:
    if sign in ("=", "!="):
        alike = any(_same(value, one) for one in wanted)
        return alike == (sign == "=")
    try:
        number = float(wanted[0])
    except ValueError:
        raise ConfigError(f"{text}: {sign} compares with a number") from None
    return isinstance(value, int | float) and not _missing(value) and _OPERATORS[sign](value, number)


def _same(value: Any, wanted: str) -> bool:
    if _missing(value):
        return wanted in ("", "null", "none", "None") and value is None
    if isinstance(value, bool):
        return str(value).lower() == wanted.lower()
    if isinstance(value, int | float):
        try:
            return float(value) == float(wanted)
        except ValueError:
            return False
    return str(value) == wanted


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def column_of(frame: pd.DataFrame, key: str) -> str:
    """The column that `key` means: its name, or what follows ``results.``, or the end of it (``extrapolation`` is
    ``results.last/token_accuracy/extrapolation``). Raises ConfigError where there is none."""
    columns = [str(column) for column in frame.columns]
    names = [key, f"results.{key}", *(f"results.last/{measure}/{key}" for measure in _SHORT)]
    for name in names:
        if name in columns:
            return name
    ends = [column for column in columns if column.endswith((f"/{key}", f".{key}"))]
    if len(ends) == 1:
        return ends[0]
    from difflib import get_close_matches

    near = ends or get_close_matches(key, columns, n=3, cutoff=0.5)
    raise ConfigError(
        f"{key}: no run has such a value" + (f"; did you mean {' or '.join(near[:4])}?" if near else "")
    )


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
    frame = _sorted(select(frame, conditions), given["sort"])
    if given["limit"]:
        if not str(given["limit"]).isdigit():
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
        table.add_row(*(_cell(column, row[column]) for column in columns))
    console.print(table)
    console.print(f"{len(frame)} of {everything} runs under {given['outputs']}")
    for _, row in frame.iterrows():
        why = [row[name] for name in ("problem", "reason") if not _missing(row[name])]
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
    numbers = all(isinstance(value, int | float) for value in values if not _missing(value))
    return values.astype(float) if numbers else values.map(lambda v: "" if _missing(v) else str(v))


def _telling(frame: pd.DataFrame) -> list[str]:
    """What distinguishes these runs: hash and state, the factors that differ, and how well they do."""
    factors = [
        column
        for column in frame.columns
        if column not in (*_ABOUT, "init_seed", "data_seed")
        and "." not in column
        and len({str(value) for value in frame[column] if not _missing(value)}) > 1
    ]
    always = [column for column in ("task", "pe") if column in frame.columns]
    results = [
        f"results.last/{measure}/{part}"
        for measure in _SHORT
        for part in ("in_distribution", "extrapolation")
        if f"results.last/{measure}/{part}" in frame.columns
    ]
    return list(dict.fromkeys([*_ALWAYS, *always, *factors, *results]))


def _title(column: str) -> str:
    return column.removeprefix("results.").removeprefix("last/").replace("/", " ").replace("_", " ")


def _cell(column: str, value: Any) -> str:
    if _missing(value):
        return ""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4g}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plain(row: pd.Series) -> dict[str, Any]:
    """What the row holds, without what it lacks."""
    return {
        str(key): value.item() if hasattr(value, "item") else value
        for key, value in row.items()
        if not _missing(value)
    }


# -- one, two


def _row_of(given: dict[str, Any], name: str) -> dict[str, Any]:
    folder = find_run(given["outputs"], name)
    frame = load_runs(folder.path.parents[1])
    return _plain(frame[frame["run"] == folder.name].iloc[0])


def _show(given: dict[str, Any], names: Sequence[str], as_json: bool) -> int:
    if not names:
        raise ConfigError("runs show: name a run: its folder, or the first characters of its hash")
    rows = [_row_of(given, name) for name in names]
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    for row in rows:
        width = max(map(len, row))
        print("\n".join(f"{key:<{width}}  {_cell(key, value)}" for key, value in row.items()) + "\n")
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
            table.add_row(key, _cell(key, a), _cell(key, b), gap)
        console.print(table if rows else f"no {part} differ")
    return 0


# -- deleting


def _delete(given: dict[str, Any], words: Sequence[str], sure: bool) -> int:
    if not words:
        raise ConfigError("runs delete: name runs, or give conditions such as state=failed")
    folders = _meant(given, words)
    if not folders:
        print("no run meets that")
        return 0
    print(f"{len(folders)} runs:")
    for folder in folders:
        print(f"  {folder.path}")
    if not sure:
        if not sys.stdin.isatty():
            raise ConfigError("runs delete: nobody can be asked here; --yes deletes without asking")
        if input("Delete them, with their checkpoints and tables? [y/N] ").strip().lower() not in (
            "y",
            "yes",
        ):
            print("nothing is deleted")
            return 1
    for folder in folders:
        with folder.claim():  # never one that is at work
            folder.clear()
        shutil.rmtree(folder.path, ignore_errors=True)
    print(f"{len(folders)} runs deleted; their files for W&B stay in {given['outputs']}/wandb")
    return 0


def _meant(given: dict[str, Any], words: Sequence[str]) -> list[RunFolder]:
    conditions = [word for word in words if _CONDITION.match(word)]
    named = [find_run(given["outputs"], word) for word in words if word not in conditions]
    if not conditions:
        return named
    if named:
        raise ConfigError("runs delete: name runs or give conditions, not both")
    frame = select(load_runs(given["outputs"]), conditions)
    running = frame[frame["state"] == "running"]
    if len(running):
        raise RunError(
            f"run {running.iloc[0]['run']} is at work; add state!=running to leave such runs alone"
        )
    return [find_run(given["outputs"], name) for name in frame["run"]]
