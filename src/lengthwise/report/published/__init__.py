"""Published figures as data: each with its paper, the place in it, and the protocol behind it.

One file a paper. Only what was read in the paper or its published code and results (mark P), or recomputed from results
that its authors published (mark Rw). A table that says what it `matches` stands beside our runs of that very task and
protocol (`matching`); the others are listed in docs/published.md alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml

from lengthwise.report.reading import LOADER
from lengthwise.report.statistics import Estimate
from lengthwise.runs import parse_lengths

MARKS = {"P": "read in the source", "Rw": "recomputed from results that the authors published"}
OVER = ("mean", "best", "as reported")
"""What a figure is over the runs behind it."""
ACCURACIES = ("exact_match", "token_accuracy")
SETUP = (
    "layers", "heads", "width", "norm", "activation", "dropout", "optimizer", "lr", "schedule", "weight_decay",
    "batch_size", "steps", "positions",
)  # fmt: skip
"""What may be said of how a model was built and trained, in the words of our options."""
NOT_COMPARED = ("attention", "readout", "MLP ratio", "precision")
"""What no publication's table says in such words, so that nothing is said of it beside ours."""


@dataclass(frozen=True)
class Figure:
    """`tested`: "51-100" (the mean over these lengths), "512" (one length), or words. `value` to `high` is a range."""

    tested: str
    value: float
    high: float | None = None
    spread: float | None = None

    @property
    def text(self) -> str:
        if self.high is not None:
            return f"{self.value:g} to {self.high:g}"
        return f"{self.value:g}" + (f" ± {self.spread:g}" if self.spread is not None else "")


@dataclass(frozen=True)
class Row:
    """One model's figures. `pe`: our encoding of the same kind; `setup`: its model and training, where said.

    In the file a row adds to the table's `setup`, or has none of it (null).
    """

    encoding: str
    pe: str | None
    setup: Mapping[str, Any]
    figures: tuple[Figure, ...]
    note: str


@dataclass(frozen=True)
class Match:
    """The task, its options, the model's shape and the trained lengths that runs must have to stand beside a table.

    longer_by: how much longer an input counts here than there. every: lengths that the task has: each `every`-th.
    """

    task: str
    options: Mapping[str, Any]
    model: str
    trained: tuple[int, ...]
    longer_by: int = 0
    every: int = 1


@dataclass(frozen=True)
class Table:
    """Figures of one task under one protocol. `matches` is None where no run here can be compared, as `unmatched` says.

    seeds: runs behind a figure, None where that is not said; over: what a figure is over them.
    """

    paper: str
    year: int
    where: str
    mark: str
    task: str
    measure: str
    unit: str
    seeds: int | None
    over: str
    spread_is: str | None
    trained: str
    protocol: str
    rows: tuple[Row, ...]
    matches: Match | None
    unmatched: str | None

    @property
    def tested(self) -> list[str]:
        """What the figures are of, in the order of the rows."""
        return list(dict.fromkeys(figure.tested for row in self.rows for figure in row.figures))

    @property
    def basis(self) -> str:
        """What a figure is: ``mean over 5 seeds ± population standard deviation over seeds``."""
        runs = "" if self.seeds is None else f" over {self.seeds} runs"
        return f"{self.over}{runs}" + (f", ± {self.spread_is}" if self.spread_is else "")


@dataclass(frozen=True)
class Ours:
    """One of our variants in the columns of a table."""

    label: str
    n: int
    cells: tuple[Estimate | None, ...]


@dataclass(frozen=True)
class Reference:
    """A published row in the same columns, and in what its model and training differ from ours."""

    row: Row
    cells: tuple[Figure | None, ...]
    differs: tuple[str, ...]


@dataclass(frozen=True)
class Beside:
    """A published table and our runs of the same task and protocol."""

    table: Table
    columns: tuple[str, ...]
    ours: tuple[Ours, ...]
    references: tuple[Reference, ...]


@lru_cache(maxsize=1)
def published() -> tuple[Table, ...]:
    """All tables, paper by paper."""
    files = [
        file
        for file in resources.files("lengthwise.report.published").iterdir()
        if file.name.endswith(".yaml")
    ]
    tables: list[Table] = []
    for file in sorted(files, key=lambda file: file.name):
        tables += read(file.read_text(encoding="utf-8"), file.name)
    return tuple(tables)


def read(text: str, name: str) -> list[Table]:
    """The tables of one paper's file. Raises ValueError naming the file, the table and what is wrong with it."""
    paper = yaml.load(text, Loader=LOADER)
    found = []
    for number, table in enumerate(paper["tables"], start=1):
        try:
            found.append(_table(paper, table))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            said = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{name}, table {number} ({table.get('task')}): {said}") from error
    return found


_KEYS = {
    "where", "mark", "task", "measure", "unit", "seeds", "over", "spread_is", "trained", "protocol", "setup",
    "matches", "unmatched", "rows",
}  # fmt: skip


def _table(paper: Mapping[str, Any], given: Mapping[str, Any]) -> Table:
    _only(given, _KEYS)
    for name in ("where", "task", "measure", "trained", "protocol"):
        if not isinstance(given[name], str) or not given[name].strip():
            raise ValueError(f"{name} is empty")
    if given["mark"] not in MARKS:
        raise ValueError(f"mark {given['mark']!r} is none of {', '.join(MARKS)}")
    if given["over"] not in OVER:
        raise ValueError(f"over {given['over']!r} is none of {', '.join(OVER)}")
    match = given.get("matches")
    if (match is None) == (given.get("unmatched") is None):
        raise ValueError("say what it matches, or why nothing (unmatched), and not both")
    if match is not None and given["measure"] not in ACCURACIES:
        raise ValueError(f"measure {given['measure']!r} is none of ours ({', '.join(ACCURACIES)})")
    percent = given["unit"] == "%"
    rows = tuple(_row(row, given.get("setup") or {}, percent) for row in given["rows"])
    if not rows:
        raise ValueError("there are no rows")
    return Table(
        str(paper["paper"]), int(paper["year"]), given["where"], given["mark"], given["task"], given["measure"],
        given["unit"], given["seeds"], given["over"], given.get("spread_is"), given["trained"],
        given["protocol"].strip(), rows, None if match is None else _match(match), given.get("unmatched"),
    )  # fmt: skip


def _row(given: Mapping[str, Any], shared: Mapping[str, Any], percent: bool) -> Row:
    _only(given, {"encoding", "pe", "setup", "figures", "note"})
    own = given.get("setup", {})
    setup = {**shared, **own} if own is not None else {}
    _only(setup, set(SETUP))
    figures = tuple(_figure(str(tested), value, percent) for tested, value in given["figures"].items())
    if not figures:
        raise ValueError(f"{given['encoding']} has no figures")
    return Row(given["encoding"], given.get("pe"), setup, figures, given.get("note") or "")


def _figure(tested: str, given: Any, percent: bool) -> Figure:
    if isinstance(given, Mapping):
        figure = Figure(tested, float(given["from"]), high=float(given["to"]))
    elif isinstance(given, list):
        value, spread = given
        figure = Figure(tested, float(value), spread=float(spread))
    else:
        figure = Figure(tested, float(given))
    if percent and not 0 <= figure.value <= 100:
        raise ValueError(f"{figure.value} at {tested} is no percentage")
    return figure


def _match(given: Mapping[str, Any]) -> Match:
    _only(given, {"task", "options", "model", "trained", "longer_by", "every"})
    trained = tuple(parse_lengths(given["trained"], "trained"))
    more = {name: int(given[name]) for name in ("longer_by", "every") if name in given}
    return Match(given["task"], dict(given["options"]), given["model"], trained, **more)


def _only(given: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(set(given) - known):
        raise ValueError(f"unknown key {unknown[0]}")
