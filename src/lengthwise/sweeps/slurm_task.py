"""What runs in each task of a Slurm job: it starts the job's process, minds it, and outlives it.

Training is a child, so that whatever becomes of it, an out-of-memory kill included, submitit gets a result. Signals
from Slurm end here: only rank 0's child is asked to stop, since Lightning answers SIGTERM with a collective, in which
ranks that are all asked at once may hang.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from lengthwise.lifeline import LIFELINES, Lifeline
from lengthwise.sweeps.job import clean_environment, describe_exit
from lengthwise.sweeps.slurm_client import was_preempted

GRACE = 10.0
"""Seconds that a child has to come to its end when it is asked to, except before a requeue."""

_STEP = 0.2
_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR2}


@dataclass(frozen=True)
class TaskEnd:
    """How a task's child ended: exit code (negative for a signal) and, where we ended it ourselves, why.

    attempt: 0, and 1 more each time that the job was queued again.
    """

    code: int
    reason: str | None = None
    attempt: int = 0


@dataclass
class SlurmTask:
    """One job, callable by submitit once in every task.

    command, cwd: of the child. log: takes what rank 0 prints; other ranks print to submitit's own logs.
    ranks:        tasks of the job. time_limit: seconds, None = none.
    minutes:      Slurm's own limit. warning: seconds before it at which Slurm tells us.
    restarts:     how many times a job that ran into Slurm's limit is queued again.
    """

    command: list[str]
    cwd: str
    log: str
    ranks: int
    time_limit: float | None
    minutes: int | None
    warning: int
    restarts: int
    began: float = field(default=0.0, repr=False)

    def __call__(self) -> TaskEnd:
        """Run the child to its end. Does not return where the job is queued again."""
        self.began = time.monotonic()
        os.environ.pop(LIFELINES, None)  # of the machine that submitted
        rank = int(os.environ.get("SLURM_PROCID", 0))
        with _noted_signals() as noted, Lifeline() as lifeline, Path(self.log).open("ab") as log:
            child = self._start(rank, lifeline, log.fileno() if rank == 0 else None)
            try:
                end, requeue = self._mind(child, rank, noted)
            finally:
                _kill_group(child)
                child.wait()
        if requeue:
            # Handled by submitit: it calls `checkpoint`, has the job queued again, and exits.
            signal.raise_signal(signal.SIGUSR2)
        return end

    def checkpoint(self) -> object:
        """What submitit shall run when the job starts again."""
        import submitit

        restarts = self.restarts - self._out_of_time()
        return submitit.helpers.DelayedSubmission(replace(self, restarts=restarts))

    def _out_of_time(self) -> bool:
        """Whether this is the warning of Slurm's time limit, which may come a minute too early."""
        if self.minutes is None:
            return False
        return time.monotonic() - self.began >= 60 * (self.minutes - 1.5) - self.warning

    def _start(self, rank: int, lifeline: Lifeline, log: int | None) -> subprocess.Popen[bytes]:
        # With several tasks, Slurm's variables tell the ranks apart; else they would make Lightning see a cluster.
        environment = dict(os.environ) if self.ranks > 1 else clean_environment()
        # Some of Slurm's plugins signal every process of a task. A mask is inherited by the child, for good; what we
        # get meanwhile waits until ours is lifted.
        masked = {signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2} | ({signal.SIGTERM} if rank else set())
        before = signal.pthread_sigmask(signal.SIG_BLOCK, masked)
        try:
            return subprocess.Popen(
                self.command,
                cwd=self.cwd,
                env={**environment, **lifeline.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _mind(self, child: subprocess.Popen[bytes], rank: int, noted: set[int]) -> tuple[TaskEnd, bool]:
        """Wait for the child; how it ended, and whether the job is to be queued again."""
        reason: str | None = None
        requeue, kill_at = False, float("inf")
        while not _has_ended(child):
            now = time.monotonic()
            if kill_at == float("inf"):
                if rank == 0 and noted:
                    reason, requeue = self._why_stop(noted)
                    kill_at = now + (max(GRACE, self.warning - GRACE) if requeue else GRACE)
                elif reason := self._overdue() or self._lost_rank(rank):
                    kill_at = now + GRACE
                if kill_at < float("inf") and rank == 0:
                    child.send_signal(signal.SIGTERM)
            elif now > kill_at:
                _kill_group(child)
            time.sleep(_STEP)
        _kill_group(child)  # what it started, before its number can be another's
        code = child.wait()
        if code == 0:
            return TaskEnd(0, attempt=_attempt()), False
        if rank == 0 and kill_at == float("inf"):
            time.sleep(_STEP)  # the child may have had Slurm's signal before we had it
            if noted:
                reason, requeue = self._why_stop(noted)
        return TaskEnd(code, reason or (describe_exit(code) if code < 0 else None), _attempt()), requeue

    def _why_stop(self, noted: set[int]) -> tuple[str | None, bool]:
        """What Slurm's signal means: a reason, and whether to queue the job again."""
        if signal.SIGUSR2 in noted and self._out_of_time() and self.restarts <= 0:
            return f"stopped at Slurm's time limit of {self.minutes} minutes", False
        return None, signal.SIGUSR2 in noted or was_preempted(_environment().job_id)

    def _overdue(self) -> str | None:
        if self.time_limit is None or time.monotonic() - self.began <= self.time_limit:
            return None
        return f"stopped after its time limit, sweep.time_limit={self.time_limit:g} s"

    def _lost_rank(self, rank: int) -> str | None:
        """In words, a rank that ended before its time: without it ours would wait for ever."""
        for other in range(self.ranks):
            end = read_end(_result(other)) if other != rank else None
            if isinstance(end, str):
                return f"rank {other} could not be run"
            if end is not None and end.attempt == _attempt() and (end.code or other == 0):
                return end.reason or f"rank {other} {describe_exit(end.code)}"
        return None


def read_end(path: Path) -> TaskEnd | str | None:
    """A task's result as submitit left it, a traceback where the task itself failed, None where there is none."""
    try:
        kind, value = pickle.loads(path.read_bytes())
    except (OSError, EOFError):
        return None
    except Exception as error:
        return f"{path} cannot be read: {error}"
    return value if isinstance(value, TaskEnd) else f"{kind}: {value}"


@contextlib.contextmanager
def _noted_signals() -> Iterator[set[int]]:
    """Slurm's signals, noted rather than acted upon: while a process is waited for, little may be done."""
    noted: set[int] = set()

    def note(number: int, frame: FrameType | None) -> None:
        noted.add(number)

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _attempt() -> int:
    return int(os.environ.get("SLURM_RESTART_COUNT", 0))


def _environment() -> Any:
    import submitit

    return submitit.JobEnvironment()


def _result(rank: int) -> Path:
    from submitit.core.utils import JobPaths

    return JobPaths(os.environ["SUBMITIT_FOLDER"], _environment().job_id, rank).result_pickle
