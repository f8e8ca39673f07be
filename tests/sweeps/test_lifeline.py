"""A process that hangs on a lifeline runs while the holder lives, and ends with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lengthwise.lifeline import LIFELINES, ORPHANED, Lifeline

WATCHING = "import time; from lengthwise import lifeline; lifeline.watch(); print('ready', flush=True); time.sleep({})"


@contextmanager
def watching(environment: dict[str, str], seconds: float = 60) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHING.format(seconds)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_it_ends_when_the_holder_lets_go() -> None:
    lifeline = Lifeline()
    with watching(lifeline.environment) as one, watching(lifeline.environment) as other:
        time.sleep(0.2)
        assert one.poll() is None and other.poll() is None, "while it is held, nothing happens"
        lifeline.release()
        assert (one.wait(2), other.wait(2)) == (ORPHANED, ORPHANED)


def test_it_ends_at_once_where_the_holder_is_gone_already() -> None:
    with Lifeline() as lifeline:
        environment = lifeline.environment
    with watching(environment) as late:
        assert late.wait(5) == ORPHANED


def test_without_a_lifeline_it_runs_to_its_own_end() -> None:
    with watching({LIFELINES: ""}, seconds=0.1) as process:
        assert process.wait(5) == 0


def test_one_whose_file_was_cleaned_away_does_not_end_what_starts_later(monkeypatch) -> None:
    with Lifeline() as outer:
        monkeypatch.setenv(LIFELINES, outer.environment[LIFELINES])
        assert outer.is_intact
        outer.path.unlink()
        assert not outer.is_intact
        with Lifeline() as inner, watching(inner.environment, seconds=0.1) as process:
            assert process.wait(5) == 0


def test_lifelines_add_up(monkeypatch) -> None:
    outer = Lifeline()
    monkeypatch.setenv(LIFELINES, outer.environment[LIFELINES])
    with Lifeline() as inner, watching(inner.environment) as process:
        outer.release()
        assert process.wait(2) == ORPHANED, "whichever holder goes first"
