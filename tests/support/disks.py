"""Small, full and locked file systems."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """A file system of `size` bytes mounted at `place`; skips the test where mounting is not permitted."""
    place.mkdir()
    answer = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, text=True
    )
    if answer.returncode:
        pytest.skip(f"mounting a small file system is not permitted here: {answer.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", place], check=True)


def fill(disk: Path) -> Path:
    """Fill `disk` up to its last block; deleting the file that is returned frees it again."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    return ballast


def obey_permissions() -> None:
    """Root writes anywhere; without this one privilege, what it starts next is bound by the permission bits."""
    if os.geteuid() == 0:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)
