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


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM)."""


@contextlib.contextmanager
def ending(path: Path, status: Status) -> Iterator[Status]:
    """Write `status` to `path` as running; on leaving, as done, interrupted or failed with the reason.

    Whoever is inside keeps `status.steps`, `results` and `evaluations` up to date, and may set `state` (with a
    `reason`) to something else than running; leaving without an exception then keeps it. SIGTERM is raised inside as
    `Terminated` (main thread only). Exceptions pass through.
    Raises RunError if the status cannot be written.
    """
    status.state, status.reason, status.owner = "running", None, Owner.current().to_dict()
    status.started = status.started or now()
    write_status(path, status)
    with _sigterm() as signals:
        try:
            yield status
        except BaseException as error:
            signals.closing = True
            status.state, status.reason = _verdict(error, signals.received)
            try:
                write_status(path, status)
            except RunError as second:  # the first error is the one to show
                error.add_note(str(second))
            raise
        signals.closing = True
        if status.state == "running":
            status.state, status.reason = ("interrupted", "SIGTERM") if signals.received else ("done", None)
        write_status(path, status)


def _verdict(error: BaseException, received: bool) -> tuple[str, str]:
    if isinstance(error, LengthwiseError):
        return "failed", str(error)[:_LONGEST]
    if isinstance(error, KeyboardInterrupt | SystemExit):
        # a trainer may catch the interrupt and exit: it is then in the context of SystemExit
        if (
            received
            or type(error).__name__ == "SIGTERMException"
            or any(isinstance(e, Terminated) for e in _chain(error))
        ):
            return "interrupted", "SIGTERM"
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
    received: bool = False
    closing: bool = False
    late: bool = False


@contextlib.contextmanager
def _sigterm() -> Iterator[_Signals]:
    """Turn the first SIGTERM into `Terminated`; the last words are not disturbed, one that comes then is passed on."""
    signals = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return

    def handle(number: int, frame: Any) -> None:
        if signals.closing:
            signals.late = True
        elif not signals.received:
            signals.received = True
            raise Terminated("SIGTERM")

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
        if signals.late and not signals.received:
            signal.raise_signal(signal.SIGTERM)
