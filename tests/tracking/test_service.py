"""W&B's own process is never waited for without end."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from lengthwise.tracking import preload, service
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


def test_what_cannot_be_imported_is_left_to_the_run_that_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_on_import.py").write_text("raise ValueError('numpy.dtype size changed')")
    (tmp_path / "imported_after_it.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(service, "_USED", ("broken_on_import", "imported_after_it"))
    preload()
    assert "imported_after_it" in sys.modules and "broken_on_import" not in sys.modules
