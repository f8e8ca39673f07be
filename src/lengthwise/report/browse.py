"""``lengthwise runs``: the runs on disk, listed, filtered, sorted; one shown, two compared, some deleted."""

from __future__ import annotations

import json
import math
import operator
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from lengthwise.errors import ConfigError, RunError
from lengthwise.report.reading import Reader
from lengthwise.runs import RunFolder, find_run, load_runs
from lengthwise.runs.atomic import explain
from lengthwise.runs.status import STATES

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
_SHOWN = 8
_STATES = (*STATES, "damaged")
"""That a run may be in; to ask for one that none is in just now is no slip."""
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


@dataclass(frozen=True)
class Condition:
    """``key=value,value``, ``key!=value``, ``key>number`` and the like, of one column.

    `wanted` are values as they are listed. `unknown` of them are none that any run has.
    """

    text: str
    column: str
    sign: str
    wanted: tuple[str, ...]
    unknown: tuple[str, ...]
    there: tuple[str, ...]

    def meets(self, value: Any) -> bool:
        """Whether a run with this value does. One without a value meets none but ``!=``."""
        if self.sign in ("=", "!="):
            return any(_same(self.column, value, one) for one in self.wanted) == (self.sign == "=")
        numeric = isinstance(value, int | float) and not _missing(value)
        return numeric and _OPERATORS[self.sign](value, float(self.wanted[0]))

    @property
    def complaint(self) -> str:
        """What is wrong with the values, or ""."""
        if not self.unknown:
            return ""
        others = f" and {len(self.there) - _SHOWN} more" if len(self.there) > _SHOWN else ""
        values = f"there are {', '.join(self.there[:_SHOWN])}{others}" if self.there else "none is set"
        return f"{self.text}: no run has {self.column} {' or '.join(self.unknown)}; {values}"


def condition(frame: pd.DataFrame, text: str) -> Condition:
    """What `text` means for these runs. Raises ConfigError where it is no condition."""
    match = _CONDITION.match(text)
    if match is None:
        raise ConfigError(f"{text}: conditions are written key=value, key!=value, key>number or key<number")
    key, sign, wanted = match.groups()
    column = column_of(frame, key)
    if sign not in ("=", "!="):
        try:
            float(wanted)
        except ValueError:
            raise ConfigError(f"{text}: {sign} compares with a number") from None
        return Condition(text, column, sign, (wanted,), (), ())
    values = frame[column].tolist()
    pieces = _pieces(wanted, lambda one: any(_same(column, value, one) for value in values))
    there = dict.fromkeys(_cell(column, value) for value in values if not _missing(value))
    known = {*_STATES, *there} if column == "state" else set()
    unknown = [one for one in pieces if one not in known and not any(_same(column, v, one) for v in values)]
    return Condition(text, column, sign, tuple(pieces), tuple(unknown), tuple(there))


def select(frame: pd.DataFrame, conditions: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """The rows that meet all of `conditions` (``pe=rotary,alibi``, ``lengths!=1,3,5``, ``extrapolation>0.9``), and what
    is wrong with their values: one that no run has is likely a slip. Raises ConfigError for a condition that is none.
    """
    found = [condition(frame, text) for text in conditions]
    for one in found:
        frame = frame[[one.meets(value) for value in frame[one.column]]]
    return frame, [one.complaint for one in found if one.complaint]


def _pieces(text: str, there: Callable[[str], bool]) -> list[str]:
    """`text` at its commas, except where they belong to a value that is there: ``1,3,5`` may be one value or three."""
    parts = text.split(",")
    found, start = [], 0
    while start < len(parts):
        ends = range(len(parts), start, -1)
        end = next((end for end in ends if there(",".join(parts[start:end]))), start + 1)
        found.append(",".join(parts[start:end]))
        start = end
    return found


def _same(column: str, value: Any, wanted: str) -> bool:
    if _missing(value):
        return wanted in ("", "null", "none", "None") and value is None
    if isinstance(value, bool):
        return str(value).lower() == wanted.lower()
    if isinstance(value, int | float):
        try:
            return float(value) == float(wanted) or _cell(column, value) == wanted
        except ValueError:
            return False
    if isinstance(value, str):
        return value == wanted
    return str(value).replace(" ", "") == wanted.replace(" ", "")


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
    print(f"{_count(folders)}:")
    for folder in folders:
        link = " (a link; what it leads to stays)" if folder.path.is_symlink() else ""
        print(f"  {folder.path}{link}")
    if not sure:
        if not sys.stdin.isatty():
            raise ConfigError("runs delete: nobody can be asked here; --yes deletes without asking")
        if input("Delete them, with their checkpoints and tables? [y/N] ").strip().lower() not in (
            "y",
            "yes",
        ):
            print("nothing is deleted")
            return 1
    _remove(folders)
    print(f"{_count(folders)} deleted; their files for W&B stay in {given['outputs']}/wandb")
    return 0


def _count(folders: Sequence[RunFolder]) -> str:
    return f"{len(folders)} run{'' if len(folders) == 1 else 's'}"


def _remove(folders: Sequence[RunFolder]) -> None:
    """All of them, or none where one is at work or may not be deleted. Of a link only the link.

    Raises RunError where that is so, or where deleting fails, saying how many are gone.
    """
    for folder in folders:
        for path in (folder.path.parent, *([] if folder.path.is_symlink() else [folder.path])):
            if not os.access(path, os.W_OK | os.X_OK):
                raise RunError(
                    f"cannot delete {folder.path}: {path} may not be written to. Nothing is deleted"
                )
    with ExitStack() as stack:
        for folder in folders:
            if not folder.path.is_symlink():
                stack.enter_context(folder.claim())
        for number, folder in enumerate(folders):
            try:
                if folder.path.is_symlink():
                    folder.path.unlink()
                else:
                    folder.clear()
                    shutil.rmtree(folder.path)
            except (RunError, OSError) as error:
                why = str(error) if isinstance(error, RunError) else f"{folder.path}: {explain(error)}"
                raise RunError(f"{number} of {_count(folders)} deleted, then one cannot be: {why}") from error


def _meant(given: dict[str, Any], words: Sequence[str]) -> list[RunFolder]:
    conditions = [word for word in words if _CONDITION.match(word)]
    named = [find_run(given["outputs"], word) for word in words if word not in conditions]
    if not conditions:
        return list({folder.path.absolute(): folder for folder in named}.values())
    if named:
        raise ConfigError("runs delete: name runs or give conditions, not both")
    frame, complaints = select(load_runs(given["outputs"]), conditions)
    if complaints:
        raise ConfigError(f"{complaints[0]}. Nothing is deleted")
    running = frame[frame["state"] == "running"]
    if len(running):
        raise RunError(
            f"run {running.iloc[0]['run']} is at work; add state!=running to leave such runs alone"
        )
    return [RunFolder.open(Path(given["outputs"]) / "runs" / name) for name in frame["run"]]
