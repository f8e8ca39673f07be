"""wandb and its own process, which does the work: neither is waited for where that can be helped."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from contextlib import suppress

_LETTING_GO = 5.0
"""Seconds until that process is left to itself; it ends with this one."""

_USED = ("wandb", "wandb.sdk.launch.inputs.internal", "pandas", "requests")
"""What a run imports, most of it only when it is opened."""


def preload() -> None:
    """Import what takes a run a second or two, while there is nothing else to do. What cannot be imported is missed
    by the run that needs it."""
    for name in _USED:
        with suppress(Exception):
            importlib.import_module(name)


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
