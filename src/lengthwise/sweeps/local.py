"""The launcher for one machine: a process a job, on the cores and GPUs that there are."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lengthwise.errors import RunError
from lengthwise.lifeline import Lifeline
from lengthwise.sweeps.job import Job, clean_environment
from lengthwise.sweeps.launcher import Ended
from lengthwise.sweeps.slots import Share, Slots, choose_gpus
from lengthwise.sweeps.warm import WarmServer

GRACE = 10.0
"""Seconds that a job has to come to its end when it is asked to."""

_RESTARTS = 3


@dataclass
class _Running:
    job: Job
    share: Share
    began: float
    process: subprocess.Popen[bytes] | None = None  # None: forked by the warm server
    pid: int | None = None
    reason: str | None = None
    kill_at: float | None = None
    signalled: bool = False


class LocalLauncher:
    """Jobs with one device start warm, forked from a process that has imported everything; others afresh.

    A job is killed with all that it started, when it ends, when its time is up, and when this process is gone.

    options: ``workers``, ``gpus``, ``gpus_per_job``, ``time_limit``, ``start`` (auto: warm where that is safe).
    Raises ConfigError for GPUs that are not there.
    """

    interval = 0.05

    def __init__(self, options: Mapping[str, Any], folder: Path) -> None:
        self.options = options
        self.slots = Slots(options["workers"], choose_gpus(options["gpus"]), options["gpus_per_job"])
        self.lifeline = Lifeline()
        self._scratch = TemporaryDirectory(prefix="lengthwise-")
        self._running: dict[str, _Running] = {}
        self._server: WarmServer | None = None
        self._restarts = 0
        # Forking a process with a GPU driver's or Apple's frameworks loaded is asking for trouble.
        self.warm = options["start"] == "warm" or (options["start"] == "auto" and sys.platform == "linux")

    @property
    def at_once(self) -> float:
        """Jobs that fit at a time, if each takes one slot."""
        return self.slots.capacity

    def server(self) -> WarmServer:
        """The warm server, started where there is none; the imports take it some seconds, which nobody waits for."""
        if self._server is None:
            self._server = WarmServer(Path(self._scratch.name) / "server.log", self.lifeline.environment)
        return self._server

    def refuse(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.slots.refuse(job)

    def start(self, jobs: Sequence[Job]) -> list[Job]:
        started: list[Job] = []
        for job in jobs:
            share = self.slots.take(job)
            if share is None:
                break  # in order: a large job is not starved by small ones
            self._start(job, share)
            started.append(job)
        return started

    def poll(self) -> list[Ended]:
        ended: list[Ended] = []
        if self._server is not None:
            for answer in self._server.answers():
                if "started" in answer:
                    if running := self._running.get(answer["started"]):
                        running.pid, running.began = answer["pid"], time.monotonic()
                elif answer["ended"] in self._running:
                    ended.append(self._end(answer["ended"], answer["code"]))
            if not self._server.is_alive:
                ended += self._server_died()
        for name, running in list(self._running.items()):
            if running.process is not None and _has_ended(running.process):
                _kill_group(running.process.pid)  # ranks that outlived the first
                ended.append(self._end(name, running.process.wait()))
        self._enforce_time_limit()
        return ended

    def stop(self, grace: float = GRACE) -> None:
        deadline = time.monotonic() + grace
        for running in self._running.values():
            _signal(running.pid, signal.SIGINT)
            running.signalled = True
        with contextlib.suppress(KeyboardInterrupt):  # once more means at once
            while self._running and time.monotonic() < deadline:
                self.poll()
                for running in self._running.values():  # one that had not yet been forked
                    if not running.signalled and running.pid is not None:
                        _signal(running.pid, signal.SIGINT)
                        running.signalled = True
                time.sleep(self.interval)
        for running in self._running.values():
            _kill_group(running.pid)
        while self._running and time.monotonic() < deadline + grace:
            self.poll()
            time.sleep(self.interval)

    def close(self) -> None:
        for running in self._running.values():
            _kill_group(running.pid)
        if self._server is not None:
            self._server.close()
        self.lifeline.release()
        self._scratch.cleanup()

    # -- one job -----------------------------------------------------------------------------------------------

    def _start(self, job: Job, share: Share) -> None:
        job.write()
        environment = {**clean_environment(), **self.lifeline.environment, **share.environment}
        running = _Running(job, share, time.monotonic())
        self._running[job.name] = running
        if self.warm and job.devices == 1:
            with contextlib.suppress(RunError):  # it is gone: the next look deals with that
                self.server().ask(job.name, "job", job.file, job.log, environment)
            return
        with job.log.open("ab") as log:
            running.process = subprocess.Popen(
                job.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        running.pid = running.process.pid

    def _end(self, name: str, code: int | None, reason: str | None = None) -> Ended:
        running = self._running.pop(name)
        self.slots.give_back(running.share)
        return Ended(running.job, code, reason or running.reason)

    def _enforce_time_limit(self) -> None:
        limit, now = self.options["time_limit"], time.monotonic()
        for running in self._running.values():
            if running.kill_at is not None and now > running.kill_at:
                _kill_group(running.pid)
            elif limit is not None and running.kill_at is None and now - running.began > limit:
                running.reason = f"stopped after its time limit, sweep.time_limit={limit:g} s"
                running.kill_at = now + GRACE
                # Only the first process: it tells its ranks. A signal to all of them can leave one in a collective.
                _signal(running.pid, signal.SIGTERM)

    def _server_died(self) -> list[Ended]:
        """Its jobs can no longer be waited for: they are killed, and fail with this reason."""
        assert self._server is not None
        reason = str(self._server.failure())
        self._server, self._restarts = None, self._restarts + 1
        forked = [name for name, running in self._running.items() if running.process is None]
        for name in forked:
            _kill_group(self._running[name].pid)
        if self._restarts > _RESTARTS:
            raise RunError(f"{reason} {self._restarts} times; sweep.start=cold does without it")
        return [self._end(name, None, reason) for name in forked]


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Without taking its exit code, so that its number still is its own."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal(pid: int | None, number: int) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _kill_group(pid: int | None) -> None:
    if pid is None:
        return
    for kill in (os.killpg, os.kill):  # one that has not yet made a group of its own
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
