"""What a person sees: drawn in place on a terminal, plain lines elsewhere; estimates only from what was measured."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from lengthwise import compose
from lengthwise.sweeps.cells import Cell
from lengthwise.sweeps.display import Display, last_step, show_plan
from lengthwise.sweeps.estimate import Pace, disk_bytes
from lengthwise.sweeps.record import DONE, FAILED, RUNNING, Entry


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    made = [
        Entry(Cell([f"seed={seed}"], compose([f"seed={seed}", f"outputs={tmp_path}"]), [f"seed={seed}"]))
        for seed in (0, 1)
    ]
    for entry in made:
        entry.parameters = 100_000
    return made


def one_done_one_failed(entries: list[Entry], console: Console, tmp_path: Path) -> None:
    with Display(entries, Pace(tmp_path), 2, lambda folder: "99 %", console) as display:
        for entry, state, reason in zip(entries, (DONE, FAILED), (None, "out of luck"), strict=True):
            entry.state = RUNNING
            display.started(entry)
            display._drawn = 0.0
            display.refresh()
            entry.state, entry.reason, entry.seconds, entry.steps = state, reason, 3.0, 300
            display.ended(entry)


def test_lines_where_there_is_no_terminal(
    entries: list[Entry], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one_done_one_failed(entries, Console(file=io.StringIO()), tmp_path)
    assert capsys.readouterr().out.splitlines() == [
        "[1/2] started: seed=0",
        "[1/2] done in 3.0 s: seed=0 · 99 %",
        "[2/2] started: seed=1",
        "[2/2] failed in 3.0 s: seed=1 · out of luck",
    ]


def test_drawn_in_place_on_a_terminal(entries: list[Entry], tmp_path: Path) -> None:
    stream = io.StringIO()
    one_done_one_failed(entries, Console(file=stream, force_terminal=True, width=120), tmp_path)
    text = stream.getvalue()
    assert "0 of 2 done · 1 running" in text
    assert "step 0/300" in text
    assert "[2/2] failed in 3.0 s: seed=1 · out of luck" in text
    assert "started" not in text, "what runs is in the picture"


def test_no_time_is_told_before_anything_like_it_was_run(
    entries: list[Entry], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_plan(entries, Pace(tmp_path), 2)
    assert "no run like these yet" in capsys.readouterr().out
    about = {"overrides": [], "axes": None, "state": "done", "reason": None, "max_steps": 300, "ended": None}
    known = [("x", 110_000, 9.0, 300), ("y", 9_000_000, 900.0, 300), ("z", 100_000, 6.0, 4)]
    names = ("run", "parameters", "seconds", "steps")
    cells = [{**about, **dict(zip(names, values, strict=True))} for values in known]
    record = {"format": 1, "id": "old", "study": None, "command": [], "updated": "", "cells": cells}
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "old.json").write_text(json.dumps(record))
    pace = Pace(tmp_path)
    assert pace.seconds(entries[0]) == pytest.approx(9.0)
    assert pace.remaining(entries, at_once=2) == pytest.approx(9.0)
    assert pace.remaining(entries, at_once=1) == pytest.approx(18.0)
    show_plan(entries, pace, 1)
    assert "2 to run · about 18 s · " in capsys.readouterr().out


def test_disk_is_told_from_the_parameters(entries: list[Entry]) -> None:
    one = disk_bytes(entries[:1])
    assert disk_bytes(entries) == 2 * one
    entries[0].parameters = 200_000
    assert disk_bytes(entries[:1]) - one == 100_000 * 4 * 3 * 2


def test_the_last_step_is_that_of_the_last_whole_row(entries: list[Entry]) -> None:
    folder = entries[0].cell.folder
    assert last_step(folder) == 0
    folder.path.mkdir(parents=True)
    folder.train_csv.write_text("step,loss\n10,1.0\n20,0.5\n30,0.")
    assert last_step(folder) == 20
