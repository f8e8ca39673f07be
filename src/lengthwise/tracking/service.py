"""wandb's own process, which does the work: never waited for without end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

_LETTING_GO = 5.0
"""Seconds until it is left to itself; it ends with this process."""


def within(seconds: float, what: Callable[[], object]) -> None:
    """Do `what`, which may wait for that process.

    Raises what it raises; TimeoutError where it takes longer, and KeyboardInterrupt for Ctrl-C: it then goes on in a
    thread that nobody waits for.
    """
    failed: list[BaseException] = []

    def do() -> None:
        try:
            what()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"its own process has not ended after {seconds:g} s")
    if failed:
        raise failed[0]


def let_go() -> None:
    """End it, whatever state it is in."""
    import wandb

    with suppress(Exception):
        within(_LETTING_GO, wandb.teardown)
