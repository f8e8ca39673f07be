"""W&B's own process is never waited for without end."""

from __future__ import annotations

import threading
import time

import pytest

from lengthwise.tracking.service import within


def test_what_takes_too_long_is_left_to_itself() -> None:
    release = threading.Event()
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"after 0\.2 s"):
        within(0.2, release.wait)
    assert time.monotonic() - began < 5
    release.set()


def test_what_it_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)


def test_what_ends_in_time_is_done() -> None:
    done: list[int] = []
    within(5, lambda: done.append(1))
    assert done == [1]
