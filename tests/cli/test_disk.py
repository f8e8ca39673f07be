"""A disk that fills up, a folder that cannot be written: one clear message, and nothing that was there is harmed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lengthwise.runs import read_status
from support.commandline import QUICK, SMALL, Result
from support.disks import fill, obey_permissions, remount, small_disk

MEGABYTE = 2**20


def folder(outputs: Path) -> Path:
    (found,) = (outputs / "runs").iterdir()
    return found


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def assert_one_message(result: Result, *parts: str) -> None:
    assert result.code == 2
    assert "Traceback" not in result.err + result.out
    (message,) = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert result.err.rstrip().endswith(message)
    for part in parts:
        assert part in message


def leftovers(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if ".tmp" in path.name]


def test_the_disk_is_too_small_for_one_more_checkpoint(run: Callable[..., Result], tmp_path: Path) -> None:
    """With W&B on the same disk, as by default; best and last fit, but not the copy that is to replace one."""
    command = [word for word in QUICK if not word.startswith("wandb")]
    assert run("train", *command, "outputs=whole").code == 0
    size = (folder(tmp_path / "whole") / "checkpoints" / "last.ckpt").stat().st_size
    with small_disk(tmp_path / "disk", int(2.5 * size)) as disk:
        result = run("train", *command, "outputs=disk/out")
        assert_one_message(result, "checkpoint", "no space left", "free some space", "same command")
        path = folder(disk / "out")
        for name in ("last", "best"):
            assert torch.load(path / "checkpoints" / f"{name}.ckpt", weights_only=True)["global_step"] == 2
        status = read_status(path / "status.json")
        assert status.state == "failed"
        assert "no space left" in (status.reason or "")
        assert not leftovers(disk)

        remount(disk, f"size={20 * size}")
        result = run("train", *command, "outputs=disk/out")
        assert result.code == 0, result.err
        assert "goes on from its last checkpoint" in result.out
        for table in ("train.csv", "length.csv", "symmetry.csv"):
            assert (path / table).read_text() == (folder(tmp_path / "whole") / table).read_text()


@pytest.mark.parametrize("moment", ["start", "end"])
def test_the_disk_is_full_when_the_status_is_written(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    command = [*QUICK, *SMALL]
    with small_disk(tmp_path / "disk", 8 * MEGABYTE) as disk:
        assert run("train", *command, "outputs=disk/out").code == 0
        path = folder(disk / "out")
        when = {"start": 1, "end": 2}[moment]
        ballast = fill_before_status(monkeypatch, disk, when)
        result = run("train", *command, "outputs=disk/out", "trainer.max_steps=6")
        assert ballast.exists()
        assert_one_message(result, "status.json", "no space left")
        status = read_status(path / "status.json")
        assert status.steps == 4
        assert status.state == {"start": "done", "end": "running"}[moment]
        reached = {"start": 4, "end": 6}[moment]
        assert torch.load(path / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] == reached
        assert not leftovers(disk)

        ballast.unlink()
        monkeypatch.undo()
        result = run("train", *command, "outputs=disk/out", "trainer.max_steps=6")
        assert result.code == 0, result.err
        status = read_status(path / "status.json")
        assert (status.state, status.steps) == ("done", 6)


def fill_before_status(monkeypatch: pytest.MonkeyPatch, disk: Path, when: int) -> Path:
    """Let the disk fill up just before the `when`-th time that the status is written."""
    ending = importlib.import_module("lengthwise.runs.ending")  # the room exports a function of that name
    write, calls = ending.write_status, []

    def write_on_a_full_disk(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == when:
            fill(disk)
        write(*arguments)

    monkeypatch.setattr(ending, "write_status", write_on_a_full_disk)
    return disk / "ballast"


@pytest.mark.parametrize("sweep", [[], ["-m", "seed=0,1"]], ids=["run", "sweep"])
def test_a_read_only_file_system(run: Callable[..., Result], tmp_path: Path, sweep: list[str]) -> None:
    with small_disk(tmp_path / "disk", MEGABYTE) as disk:
        remount(disk, "ro")
        result = run("train", *sweep, *QUICK, "outputs=disk/out")
        assert_one_message(result, "disk/out/", "read-only", "outputs=")
        assert not contents(tmp_path)


@pytest.mark.parametrize("sweep", [[], ["-m", "seed=0,1"]], ids=["run", "sweep"])
def test_a_folder_without_permission(
    process: Callable[..., Result], tmp_path: Path, sweep: list[str]
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    result = process("train", *sweep, *QUICK, "outputs=locked/out", prepare=obey_permissions)
    assert_one_message(result, "locked/out/", "permission denied", "outputs=")
    assert list(tmp_path.iterdir()) == [locked]
    assert not list(locked.iterdir())


@pytest.mark.parametrize("sweep", [[], ["-m", "seed=0,1"]], ids=["run", "sweep"])
def test_outputs_is_a_file(run: Callable[..., Result], tmp_path: Path, sweep: list[str]) -> None:
    (tmp_path / "taken").write_text("mine")
    result = run("train", *sweep, *QUICK, "outputs=taken")
    assert_one_message(result, "taken/", "outputs=")
    assert contents(tmp_path) == {"taken": b"mine"}
