"""What a sweep needs of the place where its jobs run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lengthwise.sweeps.job import BUSY, Job
from lengthwise.sweeps.warm import WarmStart


@dataclass(frozen=True)
class Ended:
    """A job that ended; whether it did its work is for ``status.json`` to say.

    code: exit code, negative for a signal, None if unknown. reason: why it was ended, where the launcher knows better.
    """

    job: Job
    code: int | None
    reason: str | None = None

    @property
    def busy(self) -> bool:
        """Whether another process is at work on its run, as its last words say: a component may exit with any code."""
        return self.code == BUSY and self.job.reason() is not None


class Launcher(Protocol):
    """Starts jobs and tells of their end. Constructed as ``Class(options, folder, warm_start, **its own options)``: the
    configuration's group ``sweep``, the sweep's own folder, and the warm start of this process.
    """

    warm_start: WarmStart
    """Whoever started it ends it."""

    warm: bool
    """Whether jobs are forked from its server."""

    def refuse(self, jobs: Sequence[Job]) -> None:
        """Raises ConfigError where a job can never run here."""

    def start(self, jobs: Sequence[Job]) -> list[Job]:
        """Start as many of these, in order, as there is room for; returns those."""

    def poll(self) -> list[Ended]:
        """Those that ended since the last look."""

    def wait(self) -> None:
        """Until it is time for the next look."""

    def stop(self, grace: float) -> None:
        """Interrupt all that run, so that they can say so in their status; after `grace` seconds kill them.

        None is left when it returns.
        """

    def close(self) -> None:
        """Let go of everything. Called once, at the end."""
