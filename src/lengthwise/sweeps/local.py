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
from typing import Any

from lengthwise.errors import RunError
from lengthwise.process import has_ended
from lengthwise.runs.atomic import explain
from lengthwise.sweeps.job import Job, clean_environment
from lengthwise.sweeps.launcher import Ended
from lengthwise.sweeps.slots import Share, Slots, choose_gpus
from lengthwise.sweeps.warm import WarmServer, WarmStart

GRACE = 10.0
"""Seconds that a job has to come to its end when it is asked to."""

_PAUSE = 0.05
"""Seconds between two looks at the jobs, at most."""

_DEATHS = 3
"""Of the warm server, until jobs do without it."""


@dataclass
class _Running:
    job: Job
    share: Share
    began: float = 0.0
    process: subprocess.Popen[bytes] | None = None  # None: forked by the warm server
    pid: int | None = None
    reason: str | None = None
    kill_at: float | None = None
    signalled: bool = False
    again: bool = False  # once more, since the warm server took it along


class LocalLauncher:
    """Jobs with one device start warm, forked from a process that has imported everything; others afresh.

    A job is killed with its group of processes, when it ends, when its time is up, and when this process is gone.

    options: ``workers``, ``gpus``, ``gpus_per_job``, ``time_limit``, ``start`` (auto: warm where that is safe).
    Raises ConfigError for GPUs that are not there.
    """

    def __init__(self, options: Mapping[str, Any], folder: Path, warm_start: WarmStart) -> None:
        self.options, self.warm_start = options, warm_start
        self.slots = Slots(options["workers"], choose_gpus(options["gpus"]), options["gpus_per_job"])
        self._running: dict[str, _Running] = {}
        self._ended: list[Ended] = []  # that never began
        self._deaths = 0
        self._stopping = False
        # Forking a process with a GPU driver's or Apple's frameworks loaded is asking for trouble.
        self.warm = options["start"] == "warm" or (options["start"] == "auto" and sys.platform == "linux")

    @property
    def at_once(self) -> float:
        """Jobs that fit at a time, if each takes one slot."""
        return self.slots.capacity

    def refuse(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.slots.refuse(job)

    def start(self, jobs: Sequence[Job]) -> list[Job]:
        started: list[Job] = []
        for job in jobs:
            share = self.slots.take(job)
            if share is None:
                break  # in order: a large job is not starved by small ones
            self._start(_Running(job, share))
            started.append(job)
        return started

    def poll(self) -> list[Ended]:
        ended: list[Ended] = []
        if (server := self.warm_start.running) is not None:
            alive = server.is_alive  # first, so that nothing it has said is missed
            for answer in server.answers():
                if "started" in answer:
                    if running := self._running.get(answer["started"]):
                        running.pid, running.began = answer["pid"], time.monotonic()
                elif answer["ended"] in self._running:
                    ended.append(self._end(answer["ended"], answer["code"]))
            if not alive:
                self._server_died(server)
        for name, running in list(self._running.items()):
            if running.process is not None and has_ended(running.process):
                _kill_group(running.process.pid)  # ranks that outlived the first
                ended.append(self._end(name, running.process.wait()))
        self._enforce_time_limit()
        never, self._ended = self._ended, []
        return [*ended, *never]

    def wait(self) -> None:
        server = self.warm_start.running
        if server is None or any(running.process is not None for running in self._running.values()):
            time.sleep(_PAUSE)
        else:
            server.wait(_PAUSE)  # a job that ended leaves its share to the next at once

    def stop(self, grace: float = GRACE) -> None:
        self._stopping = True
        deadline = time.monotonic() + grace
        with contextlib.suppress(KeyboardInterrupt):  # once more means at once
            while self._running and time.monotonic() < deadline:
                for running in self._running.values():
                    if not running.signalled and running.pid is not None:  # else it is still to be forked
                        _signal(running.pid, signal.SIGINT)
                        running.signalled = True
                self.wait()
                self.poll()
        for running in self._running.values():
            _kill_group(running.pid)
        while self._running and time.monotonic() < deadline + grace:
            self.poll()
            self.wait()

    def close(self) -> None:
        for running in self._running.values():
            _kill_group(running.pid)
        self.warm_start.end_server()

    # -- one job -----------------------------------------------------------------------------------------------

    def _start(self, running: _Running) -> None:
        """Start a job that has its share; one that cannot be ends alone, with the reason, at the next look."""
        job = running.job
        try:
            self._launch(running)
        except (OSError, RunError) as error:
            self.slots.give_back(running.share)
            self._ended.append(Ended(job, None, f"could not be started: {_in_words(error)}"))
        else:
            self._running[job.name] = running

    def _launch(self, running: _Running) -> None:
        job = running.job
        job.write()
        environment = {
            **clean_environment(),
            **self.warm_start.lifeline.environment,
            **running.share.environment,
        }
        running.began = time.monotonic()
        with job.log.open("ab") as log:
            if self.warm and job.devices == 1:
                with contextlib.suppress(RunError):  # it is gone: the next look deals with that
                    self.warm_start.server().ask(job.name, "job", job.file, job.log, environment)
                return
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
            if running.pid is None:
                continue  # its time begins when the warm server has forked it
            if running.kill_at is not None and now > running.kill_at:
                _kill_group(running.pid)
            elif limit is not None and running.kill_at is None and now - running.began > limit:
                running.reason = f"stopped after its time limit, sweep.time_limit={limit:g} s"
                running.kill_at = now + GRACE
                # Only the first process: it tells its ranks. A signal to all of them can leave one in a collective.
                _signal(running.pid, signal.SIGTERM)

    def _server_died(self, server: WarmServer) -> None:
        """Its jobs can no longer be waited for: they are killed and start again, each once; then they fail."""
        reason = str(server.failure())
        self.warm_start.end_server()
        self._deaths += 1
        self.warm = self.warm and self._deaths <= _DEATHS
        for running in [running for running in self._running.values() if running.process is None]:
            _kill_group(running.pid)
            del self._running[running.job.name]
            if self._stopping or running.kill_at is not None or (running.again and running.pid is not None):
                self.slots.give_back(running.share)
                self._ended.append(Ended(running.job, None, running.reason or reason))
            else:  # one that had not even been forked has not had its turn
                self._start(
                    _Running(running.job, running.share, again=running.again or running.pid is not None)
                )


def _in_words(error: OSError | RunError) -> str:
    if isinstance(error, RunError):
        return str(error)
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return "the working folder is gone"
    return f"{error.filename}: {explain(error)}" if error.filename else explain(error)


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
