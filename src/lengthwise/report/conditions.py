"""Conditions on runs, as a command line writes them: ``pe=rotary,alibi``, ``lengths!=1,3,5``, ``extrapolation>0.9``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lengthwise.errors import ConfigError
from lengthwise.runs.status import STATES

if TYPE_CHECKING:
    import pandas as pd

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, "=": operator.eq, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
CONDITION = re.compile(r"^([\w./-]+?)(>=|<=|!=|=|>|<)(.*)$", re.DOTALL)
SHORT = ("token_accuracy", "exact_match")
"""Measures whose figures of the last checkpoint have short names."""
_SHOWN = 8
_STATES = (*STATES, "damaged")
"""That a run may be in; to ask for one that none is in just now is no slip."""


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
        numeric = isinstance(value, int | float) and not missing(value)
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
    match = CONDITION.match(text)
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
    there = dict.fromkeys(cell(column, value) for value in values if not missing(value))
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
    if missing(value):
        return wanted in ("", "null", "none", "None") and value is None
    if isinstance(value, bool):
        return str(value).lower() == wanted.lower()
    if isinstance(value, int | float):
        try:
            return float(value) == float(wanted) or cell(column, value) == wanted
        except ValueError:
            return False
    if isinstance(value, str):
        return value == wanted
    return str(value).replace(" ", "") == wanted.replace(" ", "")


def missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def column_of(frame: pd.DataFrame, key: str) -> str:
    """The column that `key` means: its name, or what follows ``results.``, or the end of it (``extrapolation`` is
    ``results.last/token_accuracy/extrapolation``). Raises ConfigError where there is none."""
    columns = [str(column) for column in frame.columns]
    names = [key, f"results.{key}", *(f"results.last/{measure}/{key}" for measure in SHORT)]
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


def cell(column: str, value: Any) -> str:
    if missing(value):
        return ""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4g}"
    return f"{value:g}" if isinstance(value, float) else str(value)
