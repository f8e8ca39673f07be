"""What surrounds a run is not its own doing: variables, a disk, earlier files. W&B's trouble with it is said, once."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import pytest

from lengthwise.tracking import TrackedRun
from lengthwise.tracking.account import in_words
from support.wandb_file import read_all

Usage = namedtuple("Usage", "total used free")


def run_of(outputs: Path, **options: str) -> TrackedRun:
    return TrackedRun(outputs, run_id="run0", name="a-run", **options)  # type: ignore[arg-type]


def live(outputs: Path) -> list[str]:
    return [path.name for path in (outputs / "wandb").glob("*run-*-run0")]


def one_row(outputs: Path, step: int) -> None:
    with run_of(outputs) as run:
        run.open()
        run.log_row({"step": step, "loss": 0.5})


def test_names_that_the_environment_would_give_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_SWEEP_ID", "theirs")
    monkeypatch.setenv("WANDB_RUN_GROUP", "theirs")
    for step in (1, 2):
        one_row(tmp_path, step)
    assert len(live(tmp_path)) == 1
    (found,) = read_all(tmp_path)
    assert (found.id, found.group) == ("run0", "")


def test_a_file_of_an_earlier_state_does_not_stay_where_the_run_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one_row(tmp_path, 1)
    assert len(live(tmp_path)) == 1

    def refuses(self: TrackedRun) -> None:
        raise ValueError("one line\n  and another")

    monkeypatch.setattr(TrackedRun, "_init", refuses)
    one_row(tmp_path, 2)
    assert live(tmp_path) == [] and len(list((tmp_path / "wandb" / "retired").iterdir())) == 1
    said = capsys.readouterr().out
    assert "W&B lacks part of a-run (ValueError: one line and another)" in said.replace("\n", " ")


@pytest.mark.parametrize(("free", "complains"), [(0, True), (1 << 40, False)])
def test_a_full_disk_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    free: int,
    complains: bool,
) -> None:
    monkeypatch.setattr("lengthwise.tracking.run.shutil.disk_usage", lambda path: Usage(1, 1, free))
    one_row(tmp_path, 1)
    assert ("No space left on device" in capsys.readouterr().out) == complains


def test_a_folder_that_is_gone_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(path: Path) -> None:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr("lengthwise.tracking.run.shutil.disk_usage", gone)
    one_row(tmp_path, 1)
    assert "W&B lacks part of a-run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Failed to authenticate with http://x: invalid key", "http://x refuses the key (invalid key)"),
        ("Failed to authenticate with http://x: <html> …", "http://x does not answer as a W&B server does"),
        ("Timed out initializing run: POST", "its server does not answer in time"),
        ("something else", "W&B refuses it (something else)"),
    ],
    ids=["key", "page", "late", "else"],
)
def test_what_a_server_says_in_words(said: str, words: str) -> None:
    assert in_words(ValueError(said)).startswith(words)
