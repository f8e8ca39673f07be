"""A file in the run's folder stops it; it is then interrupted, and goes on as if it never had been."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl

from lengthwise.pipeline import train
from lengthwise.runs import RunFolder, read_table
from lengthwise.runs.ending import Stopped
from lengthwise.training import fit
from lengthwise.training.callbacks import StopOnRequest
from support.commandline import QUICK, SMALL
from support.configs import composed
from support.tiny_training import tiny_callbacks, tiny_data, tiny_module, tiny_options

OPTIONS = {"max_steps": 20, "validate_every": 5, "checkpoint_every": 5}
REASON = "pruned: it had fallen behind"


class Asking(pl.Callback):
    """Writes the request after step `step`."""

    def __init__(self, path: Path, step: int) -> None:
        self.path, self.step = path, step

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            self.path.write_text(REASON)


def chain(error: BaseException | None) -> list[BaseException]:
    """An error, what caused it, and so on."""
    return [] if error is None else [error, *chain(error.__cause__ or error.__context__)]


def trained(folder: Path, *callbacks: pl.Callback, resume: Path | None = None) -> pl.Trainer:
    folder.mkdir(exist_ok=True)
    data = tiny_data()
    watching = [*tiny_callbacks(folder, checkpoint_every=5), *callbacks]
    return fit(tiny_module(data), data, tiny_options(**OPTIONS), callbacks=watching, resume_from=resume)


def test_it_stops_at_the_next_validation_and_goes_on_exactly(tmp_path: Path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    trained(whole)
    stop = cut / "stop"
    with pytest.raises(KeyboardInterrupt) as stopped:
        trained(cut, Asking(stop, 7), StopOnRequest(stop))
    assert [str(error) for error in chain(stopped.value) if isinstance(error, Stopped)] == [REASON]
    assert read_table(cut / "train.csv")[-1]["step"] == 10
    assert not stop.exists()
    trained(cut, StopOnRequest(stop), resume=cut / "checkpoints" / "last.ckpt")
    assert (cut / "train.csv").read_bytes() == (whole / "train.csv").read_bytes()


def test_without_a_request_it_goes_on(tmp_path: Path):
    trainer = trained(tmp_path, StopOnRequest(tmp_path / "stop"))
    assert trainer.global_step == 20


def test_a_request_from_before_is_forgotten(tmp_path: Path):
    (tmp_path / "stop").write_text("pruned in an earlier search")
    with contextlib.suppress(KeyboardInterrupt):  # which would end all tests
        trained(tmp_path, StopOnRequest(tmp_path / "stop"))
    assert read_table(tmp_path / "train.csv")[-1]["step"] == 20
    assert not (tmp_path / "stop").exists()


def test_a_request_that_comes_with_the_last_step_is_too_late(tmp_path: Path):
    stop = tmp_path / "stop"
    assert trained(tmp_path, Asking(stop, 20), StopOnRequest(stop)).global_step == 20


def test_the_status_says_interrupted_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    words = [*QUICK, *SMALL, "trainer.max_steps=20", "trainer.validate_every=5", "trainer.checkpoint_every=5"]
    config = {**composed(*words), "outputs": str(tmp_path)}
    folder = RunFolder.locate(tmp_path, config)
    look = StopOnRequest.on_validation_end

    def ask_first(self: StopOnRequest, trainer: Any, module: Any) -> None:
        self.path.write_text("pruned by a search, trial 3: at step 5 it had fallen behind\n")
        look(self, trainer, module)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(StopOnRequest, "on_validation_end", ask_first)
        train(config)
    status = folder.status()
    assert (status.state, status.steps) == ("interrupted", 5)
    assert status.reason == "pruned by a search, trial 3: at step 5 it had fallen behind"
    assert status.results == {} and not folder.length_csv.exists()  # nothing that could be pooled
    train(config)
    assert (folder.status().state, folder.status().steps) == ("done", 20)


def test_an_empty_file_is_a_request_too(tmp_path: Path):
    callback = StopOnRequest(tmp_path / "stop")
    (tmp_path / "stop").touch()
    assert callback._request() == "stopped on request"
    assert callback._request() is None
