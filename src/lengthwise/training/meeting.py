"""Where the processes of one run leave word for each other: a small store that the leader keeps (torch's TCPStore)."""

from __future__ import annotations

import copy
import itertools
import os
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from lengthwise.errors import RunError
from lengthwise.training.place import Place

MEETING = 300.0
"""Seconds that ranks wait for each other at the start."""

SILENCE = 120.0
"""Seconds after which a rank that gives no sign of life counts as dead."""

_NUMBERS = itertools.count()
_KEPT: dict[tuple[str, int], Any] = {}
"""Stores at addresses that were given from outside: kept to the end of the process, for a run that may follow."""


class Meeting:
    """Words under the keys of one run. Until `open`, nobody is there: what is set is heard by none."""

    def __init__(self, place: Place) -> None:
        self.place, self.port = place, place.port
        self._store: Any = None
        # A script that trains several runs may meet in one store for all of them.
        number = next(_NUMBERS) if place.outside else 0
        self._prefix = f"lengthwise/{place.token}/{number}/"

    def open(self) -> None:
        """Keep the store, or find the leader's.  Raises RunError where that cannot be within `MEETING`."""
        address = (self.place.address, self.port)
        if (kept := _KEPT.get(address)) is not None:
            self._store = kept
            return
        keeps = self.place.leads and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True)
        try:
            self._store = dist.TCPStore(
                *address, is_master=keeps, wait_for_workers=False, timeout=timedelta(seconds=MEETING)
            )
        except Exception as error:
            where = f"{self.place.address}:{self.port}"
            problem = (
                f"cannot open a port for its followers at {where}"
                if keeps
                else f"does not reach rank 0 at {where} within {MEETING:.0f} s"
            )
            raise RunError(
                f"rank {self.place.rank} {problem} ({str(error).splitlines()[0]}). MASTER_ADDR and MASTER_PORT "
                "name another place"
            ) from error
        self.port = self._store.port
        if keeps and self.place.outside:
            _KEPT[self.place.address, self.port] = self._store

    def for_another_thread(self) -> Meeting:
        """The same with a connection of its own: one that waits keeps its connection to itself."""
        other = copy.copy(self)
        other._store = dist.TCPStore(
            self.place.address, self.port, is_master=False, timeout=timedelta(seconds=SILENCE)
        )
        return other

    def close(self) -> None:
        self._store = None

    def set(self, key: str, value: str = "") -> None:
        if self._store is not None:
            self._store.set(self._prefix + key, value)

    def has(self, key: str) -> bool:
        return self._store.check([self._prefix + key])

    def get(self, key: str) -> str:
        """Waits for it."""
        return self._store.get(self._prefix + key).decode()

    def count(self, key: str) -> None:
        """One more."""
        self._store.add(self._prefix + key, 1)

    def part(self, key: str) -> Any:
        """A store for whoever wants its own."""
        return dist.PrefixStore(self._prefix + key, self._store)
