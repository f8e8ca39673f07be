"""A run that was killed and resumed is, to the bit, the run that was not."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from torch import multiprocessing, nn

from lengthwise.training import fit
from lengthwise.training.callbacks import SymmetryProbe, WandbRun
from lengthwise.training.schedules import Cosine
from support.tiny_training import rows, tiny_callbacks, tiny_data, tiny_module, tiny_options
from support.wandb_file import read_all

STEPS, LOG, CHECKPOINT = 20, 2, 4


class Killed(Exception):
    pass


class KillAt(pl.Callback):
    """Ends the run after the optimizer step `step`, before anything else is written."""

    def __init__(self, step: int, how: str = "exception", micro: bool = False) -> None:
        self.step, self.how, self.micro = step, how, micro

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        here = trainer.global_step == self.step and (batch.last or self.micro)
        if here and self.how == "sigkill":
            os.kill(os.getpid(), signal.SIGKILL)
        if here:
            raise Killed


class Losses(pl.Callback):
    """The loss of every step, not only of logged ones."""

    def __init__(self) -> None:
        self.of: dict[int, float] = {}

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if batch.last:
            self.of[trainer.global_step] = pl_module.train_loss()


def norm_of(model: nn.Module) -> dict[str, float]:
    return {"norm": float(sum(parameter.double().pow(2).sum() for parameter in model.parameters()))}


def run(folder: Path, *extra: pl.Callback, resume: bool = False, dropout: float = 0.1, **options: Any):
    data = tiny_data(batch_size=16)
    module = tiny_module(data, dropout=dropout, schedule=Cosine(warmup_steps=5))
    losses = Losses()
    last = folder / "checkpoints" / "last.ckpt"
    fit(
        module,
        data,
        tiny_options(**{"max_steps": STEPS, "accumulate": 2, **options}),
        callbacks=[
            *extra,
            losses,
            SymmetryProbe(norm_of),
            *tiny_callbacks(folder, log_every=LOG, checkpoint_every=CHECKPOINT),
        ],
        resume_from=last if resume and last.exists() else None,
    )
    return module, losses.of


def weights(module: Any) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(module.model.parameters())


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    module, losses = run(folder)
    return weights(module), losses, rows(folder)


# Validation is at 5, 10, 15, 20; checkpoints at 4, 8, 12, 16, 20: step 20 is both.
@pytest.mark.parametrize("step", [1, 5, 6, 10, 11, 16, 17, 19])
def test_resumed_is_bit_equal_to_unbroken(step, tmp_path, unbroken):
    final, losses, record = unbroken
    with pytest.raises(Killed):
        run(tmp_path, KillAt(step))
    module, later = run(tmp_path, resume=True)
    start = step // CHECKPOINT * CHECKPOINT - (CHECKPOINT if step % CHECKPOINT == 0 else 0)
    assert later == {at: loss for at, loss in losses.items() if at > max(0, start)}
    assert rows(tmp_path) == record
    assert torch.equal(weights(module), final)


def test_killed_twice_and_between_micro_batches(tmp_path, unbroken):
    for step in (9, 13):
        with pytest.raises(Killed):
            run(tmp_path, KillAt(step, micro=True), resume=True)
    module, _ = run(tmp_path, resume=True)
    assert rows(tmp_path) == unbroken[2]
    assert torch.equal(weights(module), unbroken[0])


def test_one_row_a_logged_step(unbroken):
    steps = [row["step"] for row in unbroken[2]]
    assert steps == sorted({0, *range(2, 21, 2), *range(5, 21, 5)})


@pytest.mark.parametrize("checkpoint_every", [5, 10])
def test_a_checkpoint_at_a_validating_step_neither_repeats_nor_skips_the_validation(
    checkpoint_every, tmp_path, monkeypatch, unbroken
):
    monkeypatch.setattr("test_resume.CHECKPOINT", checkpoint_every)
    with pytest.raises(Killed):
        run(tmp_path, KillAt(13))
    module, later = run(tmp_path, resume=True)
    assert min(later) == 11
    assert rows(tmp_path) == unbroken[2]
    assert torch.equal(weights(module), unbroken[0])


def test_control_dropout_that_is_not_keyed_breaks_the_equality(tmp_path, monkeypatch, unbroken):
    monkeypatch.setattr("lengthwise.training.module.seed_draws", lambda seed, device: None)
    torch.manual_seed(1)
    with pytest.raises(Killed):
        run(tmp_path, KillAt(10))
    torch.manual_seed(2)
    module, _ = run(tmp_path, resume=True)
    assert not torch.equal(weights(module), unbroken[0])


def test_control_a_stream_that_starts_again_breaks_the_equality(tmp_path, monkeypatch, unbroken):
    with pytest.raises(Killed):
        run(tmp_path, KillAt(10))
    from lengthwise.training import data

    original = data.global_batch
    shifted = lambda *args, step, **named: original(*args, step=step - 8, **named)  # noqa: E731
    monkeypatch.setattr(data, "global_batch", shifted)
    module, _ = run(tmp_path, resume=True)
    assert not torch.equal(weights(module), unbroken[0])


def test_extending_keeps_the_horizon_of_the_first_start(tmp_path, unbroken):
    run(tmp_path)
    module, _ = run(tmp_path, resume=True, max_steps=30)
    assert module.schedule.steps == STEPS
    record = rows(tmp_path)
    assert record[: len(unbroken[2])] == unbroken[2]
    assert [row["step"] for row in record][len(unbroken[2]) :] == [22, 24, 25, 26, 28, 30]
    assert {row["learning_rate"] for row in record if row["step"] > STEPS} == {3e-3 * 0.05}


def test_a_finished_run_resumed_trains_no_further(tmp_path, unbroken):
    run(tmp_path)
    module, later = run(tmp_path, resume=True)
    assert later == {}
    assert rows(tmp_path) == unbroken[2]
    assert torch.equal(weights(module), unbroken[0])


def test_early_stopping_counts_on_across_a_break(tmp_path):
    def stop() -> EarlyStopping:
        return EarlyStopping(
            "val/loss", patience=2, mode="min", min_delta=10.0
        )  # never improves after the first

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    module, losses = run(whole, stop(), max_steps=60)
    assert max(losses) == 15, "first value at 5, then two without improvement"
    with pytest.raises(Killed):
        run(broken, stop(), KillAt(11), max_steps=60)
    again, later = run(broken, stop(), max_steps=60, resume=True)
    assert max(later) == 15
    assert rows(broken) == rows(whole)
    assert torch.equal(weights(again), weights(module))


def test_a_run_that_stopped_early_and_is_resumed_trains_no_further(tmp_path):
    """Killed while it was being measured, it was not yet called done."""

    def start(max_steps: int):
        stop = EarlyStopping("val/loss", patience=2, mode="min", min_delta=10.0)
        return run(tmp_path, stop, max_steps=max_steps, resume=True)

    module, losses = start(60)
    record, last = rows(tmp_path), tmp_path / "checkpoints" / "last.ckpt"
    assert max(losses) == 15 < 60
    contents = last.read_bytes()
    for max_steps in (60, 40, 15):
        again, later = start(max_steps)
        assert later == {}
        assert rows(tmp_path) == record
        assert last.read_bytes() == contents
        assert torch.equal(weights(again), weights(module))
    _, later = start(61)  # more was asked for: it goes on, and early stopping looks again
    assert (min(later), max(later)) == (16, 20)


def test_control_a_run_that_was_cut_short_by_its_number_of_steps_goes_on(tmp_path):
    run(tmp_path, max_steps=10)
    _, later = run(tmp_path, max_steps=20, resume=True)
    assert (min(later), max(later)) == (11, 20)


def _start_and_be_killed(folder: Path) -> None:
    run(folder, KillAt(11, "sigkill"), wandb_run(folder))


def wandb_run(folder: Path) -> WandbRun:
    return WandbRun(folder, run_id="abc123", name="tiny", factors={"seed": 0})


def test_after_sigkill_the_csv_and_the_wandb_file_that_remains_have_one_row_a_step(tmp_path, unbroken):
    child = multiprocessing.get_context("fork").Process(target=_start_and_be_killed, args=(tmp_path,))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    with wandb_run(tmp_path) as wandb:
        module, _ = run(tmp_path, wandb, resume=True)
    assert rows(tmp_path) == unbroken[2]
    assert torch.equal(weights(module), unbroken[0])
    (remaining,) = read_all(tmp_path)
    assert [row["step"] for row in remaining.history] == [row["step"] for row in unbroken[2]]
    assert [row.get("train/loss") for row in remaining.history] == [row["loss"] for row in unbroken[2]]
    assert remaining.exit_code == 0
    assert len(list((tmp_path / "wandb" / "retired").glob("offline-run-*-abc123"))) == 1
