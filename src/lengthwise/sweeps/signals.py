"""What ends a sweep from outside: SIGTERM and a closed terminal do what Ctrl-C does."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from lengthwise.runs.ending import Terminated


@contextlib.contextmanager
def ending_signals() -> Iterator[None]:
    """Raise SIGTERM and SIGHUP inside as `Terminated`, a KeyboardInterrupt (main thread only).

    One that is ignored stays so (``nohup``). Harmless inside another.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: Any) -> None:
        raise Terminated(signal.Signals(number).name)

    names = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]
    heard = [number for number in names if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
