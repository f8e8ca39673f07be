"""Processes that must not outlive the one that started them.

A forked job's parent is the warm server and a rank's parent is rank 0, so the kernel's parent-death signal does not see
the launcher die. A locked file does: whoever holds a `Lifeline` holds the lock on its file, the kernel lets go of it
however the holder ends, and every process that watches it then ends too.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LIFELINES = "LENGTHWISE_LIFELINES"
"""Environment variable: the files to watch, separated as in PATH."""

ORPHANED = 137
"""Exit code of a process whose lifeline was cut: that of SIGKILL, which is what it amounts to."""


class Lifeline:
    """Holds the lives of the processes that are started with `environment`; a context manager, or call `release`.

    Releasing it ends those that are still there, exactly as the death of this process would.
    """

    def __init__(self) -> None:
        # Not inheritable, as Python opens files: a child that kept the lock would keep its siblings alive.
        self._handle, name = tempfile.mkstemp(prefix="lengthwise-lifeline-")
        self.path = Path(name)
        if fcntl is not None:
            fcntl.flock(self._handle, fcntl.LOCK_EX)

    @property
    def environment(self) -> dict[str, str]:
        """What a child needs in its environment: this lifeline besides those that we hang on ourselves."""
        # One whose file is gone cannot be hung on any more. We hang on it ourselves, and take the child along.
        inherited = [name for name in _inherited() if os.path.exists(name)]
        return {LIFELINES: os.pathsep.join([str(self.path), *inherited])}

    @property
    def is_intact(self) -> bool:
        """Whether processes can still be hung on it: what cleans temporary folders may have deleted its file."""
        return self.path.exists()

    def release(self) -> None:
        """Let go. Harmless when repeated."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                self.path.unlink()
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Lifeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def watch() -> None:
    """End this process at once when a holder of its lifelines is gone. Call it first, and again after a fork.

    A file that does not exist any more belonged to a holder that has let go.
    """
    if fcntl is None:
        return
    for name in _inherited():
        try:
            handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os._exit(ORPHANED)
        threading.Thread(target=_wait, args=(handle,), daemon=True, name="lengthwise-lifeline").start()


def _wait(handle: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_SH)  # shared, so that all who wait get it at once
        os._exit(ORPHANED)


def _inherited() -> list[str]:
    return [name for name in os.environ.get(LIFELINES, "").split(os.pathsep) if name]
