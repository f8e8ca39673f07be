"""What a person sees of a sweep: a table of what will run, its progress, what failed.

On a terminal the progress is drawn in place; elsewhere each job that starts or ends is a line.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lengthwise.runs import RunFolder
from lengthwise.sweeps.estimate import Pace, disk_bytes
from lengthwise.sweeps.record import DONE, FAILED, INTERRUPTED, RUNNING, WAITING, Entry

_LONGEST_TABLE = 40
_PLAN = {
    "new": "new",
    "resumes": "goes on from its checkpoint",
    "again": "failed, once more",
    "measures": "only what is to be measured",
    "nothing": "done already",
}


def say(text: str = "") -> None:
    """A line on standard output, at once."""
    print(text, flush=True)


def show_plan(
    entries: Sequence[Entry], pace: Pace, at_once: float, illegal: Sequence[dict[str, Any]] = ()
) -> None:
    """A table of the cells: what there is to do, steps, parameters; then how long and how much disk that will take."""
    shown = [entry for entry in entries if entry.plan != "nothing"]
    rows = [
        (
            str(number),
            _PLAN[entry.plan],
            f"{entry.cell.config['trainer']['max_steps']}",
            "" if entry.parameters is None else f"{entry.parameters:,}",
            _duration(pace.seconds(entry)),
            entry.cell.text,
        )
        for number, entry in enumerate(shown[:_LONGEST_TABLE], start=1)
    ]
    if rows:
        for line in aligned([("", "", "steps", "parameters", "about", "cell"), *rows], right=(0, 2, 3, 4)):
            say(line)
    if len(shown) > _LONGEST_TABLE:
        say(f"… and {len(shown) - _LONGEST_TABLE} more")
    for cell in illegal:
        say(f"left out: {' '.join(cell['overrides'])}: {cell['reason']}")
    done = len(entries) - len(shown)
    parts = [f"{len(shown)} to run", f"{done} done already" if done else ""]
    if shown:
        left = pace.remaining(shown, at_once)
        parts.append(
            "no run like these yet to tell the time from" if left is None else f"about {_duration(left)}"
        )
        parts.append(f"{disk_bytes([e for e in shown if e.plan == 'new']) / 1e6:,.0f} MB of disk")
    say(" · ".join(filter(None, parts)))


def show_failures(entries: Sequence[Entry], log: Callable[[Entry], str]) -> None:
    """Each that failed or was interrupted: why, and where to look."""
    for entry in entries:
        if entry.state in (FAILED, INTERRUPTED):
            say(f"  {entry.state}: {entry.cell.text}")
            say(f"    {(entry.reason or 'no reason is known').strip()}")
            say(f"    {entry.cell.folder.path} · log: {log(entry)}")


class Display:
    """Progress of many jobs. `describe` sums a finished run up in a few words."""

    def __init__(
        self,
        entries: Sequence[Entry],
        pace: Pace,
        at_once: float,
        describe: Callable[[RunFolder], str] = lambda folder: "",
        console: Console | None = None,
    ) -> None:
        self.entries, self.pace, self.at_once, self.describe = list(entries), pace, at_once, describe
        self.console = console or Console(highlight=False)
        self._began = time.monotonic()
        self._started: dict[int, float] = {}
        self._drawn = 0.0
        self._live: Live | None = None

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            self._live = Live(self._view(), console=self.console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def started(self, entry: Entry) -> None:
        """A job has begun."""
        self._started[id(entry)] = time.monotonic()
        if self._live is None:
            self._line(entry, "started")

    def ended(self, entry: Entry) -> None:
        """A job has ended, and its state is known."""
        self.pace.note(entry)
        words = entry.state
        if entry.seconds is not None:
            words += f" in {_duration(entry.seconds)}"
        about = entry.reason if entry.state != DONE else self.describe(entry.cell.folder)
        self._line(entry, words, _first_line(about or ""))

    def note(self, entry: Entry, words: str) -> None:
        """Something that is worth a line."""
        self._line(entry, words)

    def refresh(self) -> None:
        """Draw, where it is time."""
        now = time.monotonic()
        if self._live is not None and now - self._drawn > 0.25:
            self._drawn = now
            self._live.update(self._view(), refresh=True)

    def _line(self, entry: Entry, words: str, about: str = "") -> None:
        number = 1 + [known.cell.name for known in self.entries].index(entry.cell.name)
        text = f"[{number}/{len(self.entries)}] {words}: {entry.cell.text}" + (f" · {about}" if about else "")
        if self._live is not None:
            self._live.console.print(Text(text))
        else:
            say(text)

    def _view(self) -> Group:
        count = {
            state: sum(e.state == state for e in self.entries) for state in (DONE, FAILED, RUNNING, WAITING)
        }
        left = self.pace.remaining([e for e in self.entries if e.state in (RUNNING, WAITING)], self.at_once)
        parts = [f"{count[DONE]} of {len(self.entries)} done", f"{count[RUNNING]} running"]
        parts += [f"{count[FAILED]} failed"] if count[FAILED] else []
        parts += [f"{_duration(time.monotonic() - self._began)} so far"]
        parts += [] if left is None else [f"about {_duration(left)} left"]
        head = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=len(self.entries), completed=count[DONE] + count[FAILED], width=40)
        head.add_row(bar, Text(" · ".join(parts)))
        table = Table.grid(padding=(0, 2))
        for entry in [e for e in self.entries if e.state == RUNNING][:20]:
            elapsed = time.monotonic() - self._started.get(id(entry), time.monotonic())
            steps = entry.cell.config["trainer"]["max_steps"]
            table.add_row(
                _duration(elapsed), f"step {last_step(entry.cell.folder)}/{steps}", Text(entry.cell.text)
            )
        return Group(head, table)


def last_step(folder: RunFolder) -> int:
    """The step of the last whole row of ``train.csv``, 0 where there is none yet."""
    with contextlib.suppress(OSError, ValueError):
        with folder.train_csv.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            lines = file.read().split(b"\n")[:-1]
        return int(lines[-1].split(b",")[0])
    return 0


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """A line for each row, columns under each other; those in `right` to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else ""
