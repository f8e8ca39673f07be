"""One process at a time in a run's folder.

The lock is a small file that says who holds it, empty when nobody does. A holder that was killed is recognised: on
this machine by its process, elsewhere by its silence (the holder touches the file once a minute).
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from lengthwise.errors import RunBusy, RunError
from lengthwise.runs.atomic import PREFIX, explain
from lengthwise.runs.owner import LEASE, Owner

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BEAT = 60.0
"""Seconds between two signs of life."""


class Claim:
    """The right to write in a run's folder; a context manager, or call `release`.

    Raises RunError if another process holds it ("already running as process N on host H").
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.owner = Owner.current()
        try:
            self._take()
        except OSError as error:
            raise RunError(
                f"cannot lock {path.parent}: {explain(error)}. Choose another folder with outputs=…"
            ) from error
        self._released = threading.Event()
        threading.Thread(target=self._beat, daemon=True, name="lengthwise-lock").start()

    def release(self) -> None:
        """Let go. Harmless when repeated, or when the folder is gone."""
        if self._released.is_set():
            return
        self._released.set()
        with contextlib.suppress(OSError), _guarded(self.path) as (handle, _):
            if _read(handle) == self.owner:
                os.ftruncate(handle, 0)

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _take(self) -> None:
        with _guarded(self.path, create=True) as (handle, exclusive):
            holder = _read(handle)
            if holder is not None and holder.is_alive(lambda: silence_of(self.path)):
                raise RunBusy(self._refusal(holder))
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(self.owner.to_dict()).encode(), 0)
            os.fsync(handle)
            if not exclusive:  # the file system knows no locks: see who wrote last
                time.sleep(0.2)
                holder = _read(handle)
                if holder is not None and holder != self.owner:
                    raise RunBusy(self._refusal(holder))

    def _refusal(self, holder: Owner) -> str:
        text = f"{self.path.parent} is already running as {holder}."
        if not holder.is_here:
            text += (
                f" Its last sign of life came {max(0, round(silence_of(self.path)))} s ago. If you know that it is"
                f" dead, delete {self.path}, or wait until it has been silent for {LEASE:.0f} s."
            )
        return text

    def _beat(self) -> None:
        while not self._released.wait(BEAT):
            with contextlib.suppress(OSError):
                os.utime(self.path)


def silence_of(path: Path) -> float:
    """Seconds since `path` was touched, by the clock that stamps files there (it may be a server's); inf if absent."""
    try:
        touched = path.stat().st_mtime
    except OSError:
        return float("inf")
    now = time.time()
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(prefix=PREFIX, dir=path.parent) as probe:
        now = os.stat(probe.name).st_mtime
    return now - touched


@contextlib.contextmanager
def _guarded(path: Path, create: bool = False) -> Iterator[tuple[int, bool]]:
    """The open file, and whether nobody else can be in here at the same time."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o666)
    try:
        exclusive = False
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
                exclusive = True
        yield handle, exclusive
    finally:
        os.close(handle)


def _read(handle: int) -> Owner | None:
    """Who the file names; what cannot be read was half-written by a process that was killed."""
    try:
        return Owner.from_dict(json.loads(os.pread(handle, 10_000, 0)))
    except ValueError:
        return None
