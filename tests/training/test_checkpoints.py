"""Checkpoints are whole or not there, hold plain things, and the best one is really the best."""

from __future__ import annotations

import errno
import math
import os
import resource
import sys
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import multiprocessing

from lengthwise.errors import RunError
from lengthwise.training import fit
from lengthwise.training.callbacks import Checkpoints
from lengthwise.training.callbacks.checkpoints import AtomicCheckpointIO, load_weights, read_checkpoint
from support.tiny_training import TinyModel, tiny_callbacks, tiny_data, tiny_module, tiny_options


class ValidationLosses(pl.Callback):
    """Replaces the validation loss by given values, one after another."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        pl_module.validation["loss"] = self.values.pop(0)


def train(folder: Path, *values: float, max_steps: int | None = None, resume: bool = False) -> Checkpoints:
    data = tiny_data()
    recorder, checkpoints = tiny_callbacks(folder)
    steps = 5 * len(values) if max_steps is None else max_steps
    fit(
        tiny_module(data),
        data,
        tiny_options(max_steps=steps),
        callbacks=[ValidationLosses(*values), recorder, checkpoints],
        resume_from=checkpoints.last_path if resume else None,
    )
    return checkpoints


def test_best_is_the_lowest_and_last_is_the_last(tmp_path):
    checkpoints = train(tmp_path, 0.5, 0.3, 0.4)
    assert (checkpoints.best_score, checkpoints.best_step) == (0.3, 10)
    assert read_checkpoint(checkpoints.best_path)["global_step"] == 10
    assert read_checkpoint(checkpoints.last_path)["global_step"] == 15


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_is_never_the_best(wrong, tmp_path):
    checkpoints = train(tmp_path, wrong, 0.3, wrong)
    assert (checkpoints.best_score, checkpoints.best_step) == (0.3, 10)


def test_the_best_score_survives_a_resume(tmp_path):
    train(tmp_path, 0.5, 0.2)
    checkpoints = train(tmp_path, 0.4, 0.3, max_steps=20, resume=True)
    assert (checkpoints.best_score, checkpoints.best_step) == (0.2, 10)
    assert read_checkpoint(checkpoints.best_path)["global_step"] == 10


def test_contents_are_plain_and_weights_come_back(tmp_path):
    checkpoints = train(tmp_path, 0.5)
    contents = torch.load(checkpoints.last_path, weights_only=True)
    assert contents["hyper_parameters"] == {"config": {"model": {"width": 16}}}
    model = TinyModel(len(tiny_data().layout.vocabulary))
    torch.nn.init.zeros_(model.output.weight)
    assert load_weights(model, checkpoints.last_path) == 5
    assert torch.equal(model.output.weight, contents["state_dict"]["model.output.weight"])


def test_hyper_parameters_that_are_not_plain_are_refused():
    with pytest.raises(TypeError, match="plain"):
        from lengthwise.training import LengthModule

        LengthModule(TinyModel(5), config={"path": Path("x")})


def test_a_missing_checkpoint_is_one_clear_error(tmp_path):
    with pytest.raises(RunError, match=r"no checkpoint .*last\.ckpt"):
        train(tmp_path, 0.5, resume=True)


@pytest.mark.parametrize("keep", [0, 10, 1000, -1])
def test_a_truncated_checkpoint_is_one_clear_error_and_nothing_is_touched(keep, tmp_path):
    checkpoints = train(tmp_path, 0.5)
    data = checkpoints.last_path.read_bytes()[:keep]
    checkpoints.last_path.write_bytes(data)
    record = (tmp_path / "train.csv").read_bytes()
    with pytest.raises(RunError, match=r"last\.ckpt .*damaged.*delete it"):
        train(tmp_path, 0.4, max_steps=10, resume=True)
    assert checkpoints.last_path.read_bytes() == data
    assert (tmp_path / "train.csv").read_bytes() == record


def test_weights_of_another_model_are_one_clear_error(tmp_path):
    checkpoints = train(tmp_path, 0.5)
    with pytest.raises(RunError, match=r"do not fit this model"):
        load_weights(TinyModel(99), checkpoints.last_path)


def _save_with_little_room(path: Path, results: Any) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        AtomicCheckpointIO().save_checkpoint({"state_dict": {"x": torch.zeros(50_000)}}, path)
    except BaseException as error:
        results.put((type(error).__name__, str(error)))
    else:
        results.put(("nothing", ""))


def test_a_file_that_cannot_grow_leaves_the_old_checkpoint_whole(tmp_path):
    """The kernel really refuses the write here, in the middle of the file."""
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"state_dict": {"x": torch.ones(3)}}, path)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_save_with_little_room, args=(path, results))
    child.start()
    name, message = results.get(timeout=60)
    child.join(60)
    assert name == "RunError"
    assert message.startswith(f"cannot write {path}")
    assert "What was there before is untouched" in message
    assert "free some space" in message
    assert torch.equal(read_checkpoint(path)["state_dict"]["x"], torch.ones(3))
    assert os.listdir(tmp_path) == ["last.ckpt"]


def test_a_full_disk_during_training_ends_in_a_run_error(tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".ckpt"):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("lengthwise.runs.atomic.os.fsync", full)
    with pytest.raises(RunError, match=r"cannot write .*last\.ckpt: no space left.*free some space"):
        train(tmp_path, 0.5)
    assert os.listdir(tmp_path / "checkpoints") == []


def test_a_folder_that_cannot_be_made_is_a_run_error(tmp_path):
    (tmp_path / "checkpoints").write_text("a file in the way")
    with pytest.raises(RunError, match=r"cannot write .*checkpoints/last\.ckpt"):
        train(tmp_path, 0.5)


class Interruption:
    """A profiler that interrupts at the n-th event of a call, which is where a signal can be answered."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, *event: Any) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_an_interrupt_at_any_moment_of_a_save_is_an_interrupt(tmp_path):
    """Torch's writer would answer it with an error of its own, or end the process."""
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"state_dict": {"x": torch.ones(3)}}, path)
    before, moments = path.read_bytes(), 0
    for n in range(1, 2000, 7):
        interruption = Interruption(n)
        try:
            sys.setprofile(interruption)
            AtomicCheckpointIO().save_checkpoint({"state_dict": {"x": torch.zeros(20_000)}}, path)
        except KeyboardInterrupt:
            assert path.read_bytes() == before or len(path.read_bytes()) > 20_000
            moments += 1
        finally:
            sys.setprofile(None)
        if interruption.left > 0:
            break
    assert moments > 30
    assert interruption.left > 0 and read_checkpoint(path)["state_dict"]["x"].shape == (20_000,)
