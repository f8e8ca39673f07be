"""Python processes in which the same modules are found as here, whatever their working folder; and their signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterable
from pathlib import Path


def import_path() -> list[str]:
    """`sys.path`, as another process can `adopt` it."""
    return list(dict.fromkeys(os.path.abspath(p) if not p or os.path.exists(p) else p for p in sys.path))


def adopt(path: Iterable[str]) -> None:
    """Look for modules where the process with this `import_path` does, in its order."""
    sys.path[:] = dict.fromkeys([*path, *sys.path])


def python_path() -> str:
    """PYTHONPATH with which a fresh Python (``-P``) finds this package, and what comes before its own folders.

    What comes after them must not get before them, a ``random.py`` in the working folder say: that is to `adopt`.
    """
    paths = sysconfig.get_paths()
    own = {os.path.realpath(folder) for folder in paths.values()}
    places = import_path()
    real = [os.path.realpath(place) for place in places]
    first = real.index(library) if (library := os.path.realpath(paths["stdlib"])) in real else len(real)
    kept = [place for place in places[:first] if os.path.exists(place)]
    kept.append(str(Path(__file__).resolve().parents[1]))
    return os.pathsep.join(dict.fromkeys(p for p in kept if os.path.realpath(p) not in own))


def hear_interrupts() -> None:
    """Let SIGINT interrupt where it was ignored from the start: in a shell's background job and all that it starts."""
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):
        signal.signal(signal.SIGINT, signal.default_int_handler)


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Without taking its exit code, so that its number still is its own.

    `Popen.poll` takes a lock, and a KeyboardInterrupt at the wrong moment leaves it locked: all that ask later wait for
    ever.
    """
    if process.returncode is not None:
        return True
    if not hasattr(os, "waitid"):  # macOS before Python 3.13, Windows
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
