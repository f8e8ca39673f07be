"""Who is running a run, and whether they are still alive."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

LEASE = 600.0
"""Seconds without a sign of life after which a process that we cannot look at (another machine) counts as dead."""


@dataclass(frozen=True)
class Owner:
    """One process. `place` tells apart machines, reboots and containers of one name; `born` re-used process numbers."""

    host: str
    pid: int
    place: str
    born: str

    @classmethod
    def current(cls) -> Owner:
        """This process."""
        return cls(socket.gethostname(), os.getpid(), _place(), _born(os.getpid()) or "")

    @classmethod
    def from_dict(cls, value: Any) -> Owner | None:
        """The owner in a JSON object, or None if there is none in it."""
        if not isinstance(value, Mapping) or type(value.get("pid")) is not int or value["pid"] <= 0:
            return None
        return cls(
            str(value.get("host", "")), value["pid"], str(value.get("place", "")), str(value.get("born", ""))
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host}"

    @property
    def is_here(self) -> bool:
        """Whether this process can see it."""
        return (self.host, self.place) == (socket.gethostname(), _place())

    def is_alive(self, silence: Callable[[], float]) -> bool:
        """Whether it runs still; `silence` tells the seconds since its last sign of life, where that is needed."""
        if not self.is_here:
            return silence() < LEASE
        born = _born(self.pid)
        return born is not None and (not self.born or not born or born == self.born)


def _place() -> str:
    parts = []
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:  # not Linux: the host's name alone must do
        pass
    return " ".join(parts)


def _born(pid: int) -> str | None:
    """When process `pid` started, "" if that cannot be told, None if there is no such process."""
    if pid <= 0:
        return None
    if sys.platform == "linux":
        try:
            # the command's name, in parentheses, may itself hold spaces and parentheses
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    if sys.platform == "win32":
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    try:
        answer = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
