"""Writing a file so that a reader sees the old contents or the new, never something in between."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lengthwise.errors import ConfigError, RunError

PREFIX = ".tmp-"
"""Begins the name of a file that is being written. One that is left over: its writer was killed."""

_PLAIN = {
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than is allowed here",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
}


def explain(error: OSError) -> str:
    """What went wrong, in words."""
    return _PLAIN.get(error.errno or 0) or error.strerror or str(error)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, which takes the place of `path` where the block ends without an error.

    Raises RunError if that fails; the old contents are then untouched and nothing is left behind.
    """
    temporary = path.with_name(f"{PREFIX}{secrets.token_hex(6)}-{path.name}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        kept = " What was there before is untouched." if os.path.exists(path) else ""
        room = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        cure = " To go on, free some space and run the same command again." if room else ""
        raise RunError(f"cannot write {path}: {explain(error)}.{kept}{cure}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_atomic(path: Path, data: bytes) -> None:
    """Replace the contents of `path` by `data`; see `replacing`."""
    with replacing(path) as file:
        file.write(data)


def check_target(path: Path, called: str) -> None:
    """Raises ConfigError, in terms of what the path is `called`, where no file can be written there.

    To be asked before the work for it is done. A folder that is missing is never made: it is as likely a slip.
    """
    if path.is_dir():
        raise ConfigError(f"{called}: that is a folder; name a file")
    if not path.parent.is_dir():
        raise ConfigError(f"{called}: there is no folder {path.parent}; make it first, or name another file")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=PREFIX, suffix=f"-{path.name}"):
            pass
    except OSError as error:
        raise ConfigError(f"{called} cannot be written: {explain(error)}") from error


def remove_leftovers(*folders: Path) -> None:
    """Delete what killed processes left half-written."""
    for folder in folders:
        for path in folder.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                path.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
