"""Jobs for a launcher, and what a sweep does with one."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lengthwise.sweeps.job import Job
from lengthwise.sweeps.launcher import Ended
from lengthwise.sweeps.slurm import SlurmLauncher


@dataclass(frozen=True)
class Scripted(Job):
    """A job whose process runs `script` instead of a run; in it, `here` is a folder that all jobs of a test share."""

    script: str = "pass"

    def command(self) -> list[str]:
        start = f"import os, signal, sys, time, pathlib; here = pathlib.Path({str(self.log.parent)!r})"
        return [sys.executable, "-S", "-E", "-c", f"{start}\nname = {self.name!r}\n{self.script}"]


@dataclass
class Driver:
    """Starts jobs and collects their ends, as the loop of a sweep does."""

    launcher: SlurmLauncher
    folder: Path
    ended: dict[str, Ended] = field(default_factory=dict)

    def scripted(self, name: str, script: str, *, devices: int = 1, **trainer: Any) -> Scripted:
        options = {"devices": devices, "nodes": 1, "threads": 1, "accelerator": "cpu", **trainer}
        return Scripted(
            name,
            {"outputs": str(self.folder.parents[1]), "trainer": options, "wandb": {}, "sweep": {}},
            [],
            self.folder / "jobs" / f"{name}.json",
            self.folder / "logs" / f"{name}.log",
            script,
        )

    def start(self, *jobs: Job) -> list[str]:
        """Names of the jobs that were started."""
        self.launcher.refuse(jobs)
        return [job.name for job in self.launcher.start(jobs)]

    def ids(self) -> dict[str, str]:
        """Slurm's id of each job that the launcher waits for."""
        return {one.job.name: one.id for one in self.launcher._running}

    def look(self) -> bool:
        """Poll once; whether all have ended."""
        self.ended |= {one.job.name: one for one in self.launcher.poll()}
        return not self.launcher._running

    def finish(self, seconds: float = 60) -> dict[str, Ended]:
        """Wait for all; their ends by name."""
        deadline = time.monotonic() + seconds
        while not self.look():
            assert time.monotonic() < deadline, f"after {seconds} s still there: {self.ids()}"
            self.launcher.wait()
        return self.ended
