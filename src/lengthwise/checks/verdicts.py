"""What came out: one row a property, and the table of them."""

from __future__ import annotations

import shutil
import textwrap
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lengthwise.errors import LengthwiseError
from lengthwise.evaluation.properties import PropertyError

OK, FAILED, NOT_APPLICABLE = "ok", "FAILED", "not applicable"


class NotApplicable(Exception):
    """The property says nothing of this component; the message says why."""


@dataclass(frozen=True)
class Row:
    """name: of the property. verdict: `OK`, `FAILED` or `NOT_APPLICABLE`. why: more about it, maybe empty."""

    name: str
    verdict: str
    why: str = ""


@dataclass
class Report:
    """The rows for one component. title: which one that is."""

    title: str
    rows: list[Row] = field(default_factory=list)

    def add(self, name: str, attempt: Callable[[], str | None]) -> bool:
        """Enter what `attempt` comes to: it returns what is worth saying, or raises; whether it is not a failure."""
        try:
            row = Row(name, OK, attempt() or "")
        except NotApplicable as reason:
            row = Row(name, NOT_APPLICABLE, str(reason))
        except (PropertyError, LengthwiseError) as error:
            row = Row(name, FAILED, str(error))
        except (Exception, SystemExit) as error:  # of the component
            row = Row(name, FAILED, f"{type(error).__name__}: {error}{_place(error)}")
        self.rows.append(row)
        return row.verdict != FAILED

    def skip(self, names: Iterable[str], because: str) -> None:
        """Enter rows that mean nothing since the row `because` is a failure."""
        self.rows += [Row(name, NOT_APPLICABLE, because) for name in names]

    @property
    def failed(self) -> bool:
        """Whether any row is a failure."""
        return any(row.verdict == FAILED for row in self.rows)

    def text(self) -> str:
        """The table, as wide as the terminal."""
        width = min(max(shutil.get_terminal_size((110, 24)).columns, 72), 140)
        first, second = max(len(row.name) for row in self.rows) + 2, len(NOT_APPLICABLE) + 2
        lines = [self.title, ""]
        for row in self.rows:
            why = textwrap.wrap(row.why, max(width - first - second, 24), break_on_hyphens=False) or [""]
            lines.append(f"{row.name:<{first}}{row.verdict:<{second}}{why[0]}".rstrip())
            lines += [" " * (first + second) + more for more in why[1:]]
        counts = {verdict: sum(row.verdict == verdict for row in self.rows) for verdict in (OK, FAILED)}
        others = len(self.rows) - sum(counts.values())
        lines += ["", f"{counts[OK]} ok, {counts[FAILED]} FAILED, {others} {NOT_APPLICABLE}"]
        return "\n".join(lines)


def _place(error: BaseException) -> str:
    """Where in somebody's file it was raised; nothing for a place in ours or in a library."""
    ours = str(Path(__file__).resolve().parents[1])
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(ours) and "site-packages" not in frame.filename:
            return f" ({Path(frame.filename).name}, line {frame.lineno})"
    return ""
