"""Processes, by their numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def descendants(pid: int) -> set[int]:
    """All processes below `pid`, dead ones that nobody has waited for included."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue  # it has just ended
    found, wave = set(), {pid}
    while wave:
        wave = {child for child, parent in parents.items() if parent in wave} - found
        found |= wave
    return found


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Raises AssertionError where it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not true after {seconds:g} s"
        time.sleep(0.02)
