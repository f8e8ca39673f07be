"""CSV files that survive being killed in the middle of a line.

A row counts once its newline is there. Text columns are known by name, everything else is a number.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from lengthwise.errors import RunError
from lengthwise.runs.atomic import explain, write_atomic

TRAIN_COLUMNS = (
    "step",
    "loss",
    "learning_rate",
    "tokens",
    "val_loss",
    "val_token_accuracy",
    "val_exact_match",
)
"""The start of ``train.csv``; callbacks may add columns."""

LENGTH_COLUMNS = (
    "checkpoint", "step", "split", "protocol", "length", "stratum", "n", "n_tokens", "token_accuracy", "exact_match",
    "loss", "flags", "evaluation_id", "train_overlap", "best_blind", "overlap_is", "asked",
)  # fmt: skip
"""The start of ``length.csv``; a column ``baseline_<name>`` follows for each baseline of the task."""
LENGTH_KEY = ("checkpoint", "split", "protocol", "length", "stratum", "evaluation_id")

SYMMETRY_COLUMNS = (
    "checkpoint", "step", "action", "quantity", "dtype", "length", "sequences", "draws", "error_mean", "error_max",
    "difference_mean", "difference_max", "flips", "flags", "evaluation_id",
)  # fmt: skip
SYMMETRY_KEY = ("checkpoint", "step", "action", "quantity", "dtype", "length", "evaluation_id")

AXES_COLUMNS = (
    "checkpoint", "step", "axis", "value", "length", "reaches", "n", "n_tokens", "token_accuracy", "exact_match",
    "loss", "flags", "evaluation_id",
)  # fmt: skip
"""The columns of ``axes.csv``, see `lengthwise.evaluation.axes`."""
AXES_KEY = ("checkpoint", "axis", "length", "reaches", "evaluation_id")

_TEXT = {
    "axis",
    "checkpoint",
    "split",
    "protocol",
    "stratum",
    "flags",
    "evaluation_id",
    "action",
    "quantity",
    "dtype",
    "layer",
    "overlap_is",
}
"""Never read as numbers: an evaluation id such as 12e5 is a name."""

Row = Mapping[str, Any]


class Table:
    """A CSV file that one process appends to.

    An existing file keeps its columns; `columns` it lacks are added, empty in the rows that are there. A torn last line
    is dropped. Raises RunError if the file is damaged elsewhere, or cannot be written.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path = path
        old = _header(path)
        self.columns: tuple[str, ...] = (*old, *(name for name in columns if name not in old))
        if not old or self.columns != tuple(old):
            self._rewrite(_raw(path) if old else [])
        else:
            _drop_torn_line(path)

    def append(self, *rows: Row) -> None:
        """Add rows at the end; missing columns stay empty. Raises ValueError for a column the table does not have."""
        text = self._text(self._cells(row) for row in rows)
        size = 0
        try:
            with self.path.open("ab") as file:
                size = file.tell()
                try:
                    file.write(text)
                    file.flush()
                except OSError:
                    os.truncate(self.path, size)  # a full disk keeps the rows before, whole
                    raise
        except OSError as error:
            kept = " The rows before are untouched." if self.path.exists() else ""
            raise RunError(f"cannot write {self.path}: {explain(error)}.{kept}") from error

    def cut_back(self, column: str, value: float) -> None:
        """Drop the rows with more than `value` in `column`, all or nothing."""
        index = self.columns.index(column)
        self._rewrite([cells for cells in _raw(self.path) if not _exceeds(cells[index], value)])

    def replace(self, rows: Iterable[Row], key: Sequence[str]) -> None:
        """Add rows, dropping those with the same `key` columns first; all or nothing."""
        indices = [self.columns.index(name) for name in key]

        def key_of(cells: list[str]) -> tuple[Any, ...]:
            return tuple(_reader(self.columns[i])(cells[i]) for i in indices)

        latest = {key_of(cells): cells for cells in map(self._cells, rows)}
        kept = [cells for cells in _raw(self.path) if key_of(cells) not in latest]
        self._rewrite([*kept, *latest.values()])

    def read(self) -> list[dict[str, Any]]:
        """All rows."""
        return read_table(self.path)

    def _cells(self, row: Row) -> list[str]:
        if unknown := [name for name in row if name not in self.columns]:
            raise ValueError(
                f"{self.path.name} has no column {', '.join(unknown)}; it has {', '.join(self.columns)}"
            )
        return [_write(row.get(name)) for name in self.columns]

    def _text(self, lines: Iterable[Sequence[str]]) -> bytes:
        buffer = io.StringIO(newline="")
        csv.writer(buffer, lineterminator="\n").writerows(lines)
        return buffer.getvalue().encode("utf-8", "replace")

    def _rewrite(self, lines: list[list[str]]) -> None:
        padded = [[*cells, *[""] * (len(self.columns) - len(cells))] for cells in lines]
        write_atomic(self.path, self._text([self.columns, *padded]))


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV: numbers as int or float, empty as None, names as text; no file, no rows.

    A torn last line is left out. Raises RunError, naming the line, if another one is damaged.
    """
    lines = _whole_lines(path)
    columns = _header(path, lines)
    readers = [_reader(name) for name in columns]
    return [
        {name: read(cell) for name, read, cell in zip(columns, readers, cells, strict=True)}
        for cells in _raw(path, lines)
    ]


def _whole_lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"cannot read {path}: {explain(error)}.") from error
    return data.decode("utf-8", "replace").split("\n")[:-1]  # what follows the last newline is torn


def _header(path: Path, lines: list[str] | None = None) -> list[str]:
    header = _parsed(path, (_whole_lines(path) if lines is None else lines)[:1])
    if header and header[0][0] not in {*TRAIN_COLUMNS, *LENGTH_COLUMNS, *SYMMETRY_COLUMNS}:
        raise RunError(f"{path} is damaged: its first line does not name the columns of a table.")
    return header[0] if header else []


def _parsed(path: Path, lines: list[str]) -> list[list[str]]:
    try:
        return [cells or [""] for cells in csv.reader(lines)]
    except csv.Error as error:
        raise RunError(f"{path} is damaged: {error}.") from error


def _raw(path: Path, lines: list[str] | None = None) -> list[list[str]]:
    """Every row's cells as written; cells hold no newline, so a line is a row."""
    lines = _whole_lines(path) if lines is None else lines
    if not lines:
        return []
    header, *rows = _parsed(path, lines)
    for number, cells in enumerate(rows, start=2):
        if len(cells) != len(header):
            raise RunError(
                f"{path} is damaged: line {number} has {len(cells)} fields where {len(header)} are expected."
            )
    return rows


def _drop_torn_line(path: Path) -> None:
    try:
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.truncate(path, whole)
    except OSError as error:
        raise RunError(f"cannot write {path}: {explain(error)}.") from error


def _write(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "".join(" " if ord(c) < 32 or c in "\x7f\x85\u2028\u2029" else c for c in value)
    if isinstance(value, list | tuple | set | frozenset):
        return ";".join(
            _write(item) for item in (value if isinstance(value, list | tuple) else sorted(value))
        )
    if hasattr(value, "item"):  # a numpy or torch scalar
        return _write(value.item())
    return repr(value) if isinstance(value, float) else _write(str(value))


def _reader(column: str) -> Callable[[str], Any]:
    return _text_cell if column in _TEXT else _number


def _text_cell(cell: str) -> str | None:
    return cell or None


@lru_cache(maxsize=1 << 14)
def _number(cell: str) -> Any:
    if cell == "":
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def _exceeds(cell: str, value: float) -> bool:
    number = _number(cell)
    return isinstance(number, int | float) and not math.isnan(number) and number > value
