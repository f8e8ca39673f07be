"""Sweeps in this process, which is quick: no warm server, no process for a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lengthwise import commands, inspection, work
from lengthwise.sweeps import preflight
from lengthwise.sweeps.job import Job
from lengthwise.sweeps.launcher import Ended, Launcher
from lengthwise.sweeps.record import Entry
from lengthwise.sweeps.warm import WarmStart

NO_WARM_START: Any = None
"""For a launcher whose jobs are not inspected."""


class InThisProcess:
    """A launcher that runs one job at a time, at once, and enters it in `started`."""

    warm_start, warm = NO_WARM_START, False

    def __init__(self, started: list[Job]) -> None:
        self.started = started
        self._ended: list[Ended] = []

    def refuse(self, jobs: Sequence[Job]) -> None:
        pass

    def start(self, jobs: Sequence[Job]) -> list[Job]:
        job = jobs[0]
        job.write()
        self.started.append(job)
        self._ended.append(Ended(job, work.run_file(job.file)))
        return [job]

    def poll(self) -> list[Ended]:
        ended, self._ended = self._ended, []
        return ended

    def wait(self) -> None:
        pass

    def stop(self, grace: float) -> None:
        pass

    def close(self) -> None:
        pass


def jobs_in_this_process(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Run sweeps in this process from here on; returns the list that their jobs are entered in."""
    started: list[Job] = []
    launcher = InThisProcess(started)

    def inspect(entries: Sequence[Entry], _: Launcher) -> list[tuple[Entry, str]]:
        found = [(entry, inspection.inspect(entry.cell.config)) for entry in entries]
        for entry, answer in found:
            entry.parameters = answer.get("parameters")
        return [(entry, answer["error"]) for entry, answer in found if "error" in answer]

    monkeypatch.setattr(WarmStart, "server", lambda _: None)
    monkeypatch.setattr(commands, "launcher_of", lambda *_: launcher)
    monkeypatch.setattr(preflight, "inspect", inspect)
    return started
