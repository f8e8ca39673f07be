"""However a run ends, its status says so."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lengthwise.errors import LengthwiseError, RunError
from lengthwise.runs.owner import Owner
from lengthwise.runs.status import Status, now, write_status

_LONGEST = 2000


_REASONS = {
    "SIGTERM": "SIGTERM",
    "SIGUSR1": "asked to stop by SIGUSR1 (preempted or out of time)",
    "SIGUSR2": "asked to stop by SIGUSR2 (preempted or out of time)",
}
"""Signals that ask a run to end (a cluster's notices among them), and how that is worded."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end, by SIGTERM or a cluster's notice."""


class Stopped(KeyboardInterrupt):
    """The run was asked to stop, for the reason that this says; it may go on later."""


@contextlib.contextmanager
def ending(path: Path, status: Status) -> Iterator[Status]:
    """Write `status` to `path` as running; on leaving, as done, interrupted or failed with the reason.

    Whoever is inside keeps `status.steps`, `results` and `evaluations` up to date, and may set `state` (with a
    `reason`) to something else than running; leaving without an exception then keeps it. SIGTERM, SIGUSR1 and SIGUSR2
    are raised inside as `Terminated` (main thread only). Exceptions pass through.
    Raises RunError if the status cannot be written.
    """
    status.state, status.reason, status.owner = "running", None, Owner.current().to_dict()
    status.started = status.started or now()
    write_status(path, status)
    with _asked_to_end() as signals:
        try:
            yield status
        except BaseException as error:
            signals.closing = True
            status.state, status.reason = _verdict(error, signals)
            try:
                write_status(path, status)
            except RunError as second:  # the first error is the one to show
                error.add_note(str(second))
            raise
        signals.closing = True
        if status.state == "running":
            status.state, status.reason = (
                ("interrupted", signals.reason) if signals.received else ("done", None)
            )
        write_status(path, status)


def _verdict(error: BaseException, signals: _Signals) -> tuple[str, str]:
    if isinstance(error, LengthwiseError):
        return "failed", str(error)[:_LONGEST]
    if isinstance(error, KeyboardInterrupt | SystemExit):
        # a trainer may catch the interrupt and exit: it is then in the context of SystemExit
        if stopped := next((e for e in _chain(error) if isinstance(e, Stopped)), None):
            return "interrupted", str(stopped)[:_LONGEST]
        if (
            signals.received
            or type(error).__name__ == "SIGTERMException"
            or any(isinstance(e, Terminated) for e in _chain(error))
        ):
            return "interrupted", signals.reason
        if any(isinstance(e, KeyboardInterrupt) for e in _chain(error)):
            return "interrupted", "stopped by the user"
    if isinstance(error, SystemExit):
        return "failed", f"exited with code {error.code} before the end"
    return "failed", f"{type(error).__name__}: {error}".removesuffix(": ")[:_LONGEST]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


@dataclass
class _Signals:
    received: int = 0
    closing: bool = False
    late: int = 0

    @property
    def reason(self) -> str:
        return _REASONS[signal.Signals(self.received or signal.SIGTERM).name]


@contextlib.contextmanager
def _asked_to_end() -> Iterator[_Signals]:
    """Turn the first such signal into `Terminated`; one that comes during the last words is passed on after them."""
    signals = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return

    def handle(number: int, frame: Any) -> None:
        if signals.closing:
            signals.late = number
        elif not signals.received:
            signals.received = number
            raise Terminated(signal.Signals(number).name)

    asking = [
        getattr(signal, name) for name in _REASONS if hasattr(signal, name)
    ]  # Windows knows the first only
    before = {number: signal.signal(number, handle) for number in asking}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        if signals.late and not signals.received:
            signal.raise_signal(signals.late)
