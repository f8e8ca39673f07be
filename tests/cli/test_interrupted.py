"""A run that is killed, stopped and terminated is, once finished, the run that nothing happened to."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from lengthwise.runs import read_table
from support.commandline import SMALL, Result, in_own_process, in_process
from support.interrupting import VARIABLE
from support.wandb_file import WandbFile, read_wandb

STEPS = 24
COMMAND = [
    *SMALL, "pe=learned", "positions=randomized", "positions.range=64", "model.dropout=0.1", "trainer.accumulate=2",
    f"trainer.max_steps={STEPS}",
    "trainer.log_every=1", "trainer.validate_every=5", "trainer.checkpoint_every=4", "schedule.warmup_steps=4",
    "data.validation_size=32", "evaluation.count=16", "evaluation.lengths=[4,10,14]", "evaluation.symmetry_draws=2",
    "+callbacks.stop._target_=support.interrupting.Signalling",
]  # fmt: skip
STOPS = ["SIGKILL 7", "SIGINT 13", "SIGTERM 18"]
"""Between checkpoints, which are at multiples of 4 (and at 5, 10, … where the validation loss is the best so far)."""


@dataclass
class Stop:
    """What a stopped process left: its own ending, the status, and how far the last checkpoint is."""

    result: Result
    status: dict[str, Any]
    checkpoint: int


@dataclass
class Story:
    unbroken: Path
    broken: Path
    outputs: Path
    before_the_end: Path
    stops: dict[str, Stop]
    end: Result


def folder(outputs: Path) -> Path:
    (found,) = (outputs / "runs").iterdir()
    return found


def step_of(checkpoint: Path) -> int:
    return torch.load(checkpoint, weights_only=True)["global_step"]


def in_process_terminated(root: Path, *command: str, environment: dict[str, str]) -> Result:
    """As `in_process`: SIGTERM, unlike the others, has to reach this very process and nothing else."""

    def let_through(number: int, frame: object) -> None:
        raise AssertionError("nobody caught the SIGTERM")

    before = signal.signal(signal.SIGTERM, let_through)
    try:
        with mock.patch.dict(os.environ, environment):
            return in_process(root, *command)
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    root = tmp_path_factory.mktemp("interrupted")
    whole = in_process(root, "train", *COMMAND, "outputs=whole")
    assert whole.code == 0, whole.err
    stops = {}
    for stop in STOPS:
        start = in_process_terminated if stop.startswith("SIGTERM") else in_own_process
        result = start(root, "train", *COMMAND, "outputs=parts", environment={VARIABLE: stop})
        left = folder(root / "parts")
        status = json.loads((left / "status.json").read_text())
        stops[stop.split()[0]] = Stop(result, status, step_of(left / "checkpoints" / "last.ckpt"))
    shutil.copytree(root / "parts", root / "before", ignore=shutil.ignore_patterns("wandb"))
    end = in_process(root, "train", *COMMAND, "outputs=parts")
    return Story(folder(root / "whole"), folder(root / "parts"), root / "parts", root / "before", stops, end)


def test_the_same_command_goes_on_each_time(story: Story) -> None:
    assert story.stops["SIGKILL"].checkpoint == 4
    assert "goes on from its last checkpoint" in story.stops["SIGINT"].result.out
    assert "stopped by the user" in story.stops["SIGTERM"].result.out
    assert "SIGTERM" in story.end.out
    assert story.end.code == 0, story.end.err
    assert json.loads((story.broken / "status.json").read_text())["state"] == "done"


@pytest.mark.parametrize("table", ["train.csv", "length.csv", "symmetry.csv"])
def test_every_row_equals_the_unbroken_runs(story: Story, table: str) -> None:
    assert (story.broken / table).read_text() == (story.unbroken / table).read_text()


def test_the_results_and_the_weights_are_the_unbroken_runs(story: Story) -> None:
    ours, theirs = (json.loads((path / "status.json").read_text()) for path in (story.broken, story.unbroken))
    for key in ("results", "steps", "max_steps", "horizon", "evaluations", "hash"):
        assert ours[key] == theirs[key]
    for name in ("last", "best"):
        a, b = (
            torch.load(path / "checkpoints" / f"{name}.ckpt", weights_only=True)
            for path in (story.broken, story.unbroken)
        )
        assert a["global_step"] == b["global_step"]
        assert all(torch.equal(a["state_dict"][key], b["state_dict"][key]) for key in b["state_dict"])


def test_a_step_has_one_row(story: Story) -> None:
    steps = [row["step"] for row in read_table(story.broken / "train.csv")]
    assert steps == list(range(STEPS + 1))


def wandb_file(outputs: Path) -> WandbFile:
    (file,) = (outputs / "wandb").glob("*run-*")
    return read_wandb(file)


def test_one_wandb_run_remains_with_one_row_a_step(story: Story) -> None:
    ours, theirs = wandb_file(story.outputs), wandb_file(story.unbroken.parents[1])
    assert [row["step"] for row in ours.history if "step" in row] == list(range(STEPS + 1))
    assert [figures(row) for row in ours.history] == [figures(row) for row in theirs.history]
    assert ours.exit_code == 0
    assert len(list((story.outputs / "wandb" / "retired").iterdir())) == len(STOPS)


def figures(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_") or name == "_step"}


def test_ctrl_c(story: Story) -> None:
    stop = story.stops["SIGINT"]
    assert stop.result.code == 130
    assert (stop.status["state"], stop.status["reason"]) == ("interrupted", "stopped by the user")
    assert (stop.status["steps"], stop.checkpoint) == (13, 12)
    assert "the same command again goes on" in stop.result.err
    assert "Traceback" not in stop.result.err


def test_sigterm(story: Story) -> None:
    stop = story.stops["SIGTERM"]
    assert stop.result.code == 130
    assert (stop.status["state"], stop.status["reason"]) == ("interrupted", "SIGTERM")
    assert (stop.status["steps"], stop.checkpoint) == (18, 16)
    assert "Traceback" not in stop.result.err


def test_sigkill_leaves_a_record_that_can_be_read(story: Story) -> None:
    stop = story.stops["SIGKILL"]
    assert stop.result.code == -9
    assert stop.status["state"] == "running"  # nobody was left to say otherwise; whoever asks next can tell
    assert "ended without a word" in story.stops["SIGINT"].result.out


def test_control_dropout_that_is_not_keyed_by_the_step_would_be_seen(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lengthwise.training.module.seed63", lambda *key: 7)
    root = story.before_the_end.parent
    assert in_process(root, "train", *COMMAND, "outputs=before", "wandb=disabled").code == 0
    ours, theirs = (read_table(path / "train.csv") for path in (folder(story.before_the_end), story.unbroken))
    changed = [a["step"] for a, b in zip(ours, theirs, strict=True) if a != b]
    assert changed and min(changed) > 12
