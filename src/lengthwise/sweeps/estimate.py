"""How long a sweep will take, and how much disk, from what earlier runs in the same outputs folder took."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from lengthwise.sweeps.record import Entry, records

_BYTES_PER_PARAMETER = 4 * 3 * 2
"""Weights and AdamW's two moments in float32, in the last checkpoint and the best."""
_BYTES_PER_RUN = 250_000
"""Tables, records, W&B's file."""
_SIZE, _STEPS = 1.5, 3.0
"""Models within this factor in size cost about the same a step; runs within that one in steps are alike."""


class Pace:
    """How long earlier jobs took, by size of the model and number of steps."""

    def __init__(self, outputs: str | Path) -> None:
        self.known = [
            (int(cell["parameters"]), int(cell["steps"]), float(cell["seconds"]))
            for content in records(outputs)
            for cell in content["cells"]
            if cell.get("parameters") and cell.get("seconds") and cell.get("steps")
        ]

    def note(self, entry: Entry) -> None:
        """A job that has just been done."""
        if entry.parameters and entry.seconds and entry.steps:
            self.known.append((entry.parameters, entry.steps, entry.seconds))

    def seconds(self, entry: Entry) -> float | None:
        """That a job will take, or None where nothing like it was run here yet."""
        size, steps = entry.parameters or 0, entry.cell.config["trainer"]["max_steps"]
        alike = [
            seconds / trained
            for parameters, trained, seconds in self.known
            if _within(parameters, size, _SIZE) and _within(trained, steps, _STEPS)
        ]
        return statistics.median(alike) * steps if alike else None

    def remaining(self, entries: Sequence[Entry], at_once: float) -> float | None:
        """Seconds until these jobs are done, `at_once` of them at a time; None where that cannot be told."""
        each = [self.seconds(entry) for entry in entries]
        known = [seconds for seconds in each if seconds is not None]
        if not entries or len(known) < len(each):
            return None if entries else 0.0
        return max(sum(known) / max(1.0, min(at_once, len(known))), max(known))


def disk_bytes(entries: Sequence[Entry]) -> int:
    """That these runs will take."""
    return sum(_BYTES_PER_RUN + _BYTES_PER_PARAMETER * (entry.parameters or 0) for entry in entries)


def _within(one: float, other: float, factor: float) -> bool:
    return one > 0 and other > 0 and 1 / factor <= one / other <= factor
