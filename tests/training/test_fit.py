"""Fitting: it learns, stops where it should, says what is wrong, and leaves things as they were."""

from __future__ import annotations

import io
import os
import signal
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping

from lengthwise.errors import ConfigError, RunError
from lengthwise.training import fit
from lengthwise.training.callbacks import Checkpoints, Progress, SymmetryProbe
from lengthwise.training.callbacks.checkpoints import read_checkpoint
from lengthwise.training.schedules import Constant
from support.lengths import train_lengths
from support.tiny_training import rows, tiny_callbacks, tiny_data, tiny_module, tiny_options


def test_overfits_one_batch(tmp_path):
    data = tiny_data(repeat_batch=True)
    module = tiny_module(data, lr=1e-2, schedule=Constant(warmup_steps=0))
    fit(module, data, tiny_options(max_steps=150), callbacks=tiny_callbacks(tmp_path))
    losses = [row["loss"] for row in rows(tmp_path)]
    assert losses[0] > 0.3
    assert losses[-1] < 0.01


def test_seeds_reach_training(tmp_path):
    def first_losses(name: str, **seeds: int) -> list[float]:
        data = tiny_data(data_seed=seeds.get("data_seed", 0))
        module = tiny_module(data, dropout=0.5, init_seed=seeds.get("init_seed", 0))
        fit(module, data, tiny_options(max_steps=4), callbacks=tiny_callbacks(tmp_path / name))
        return [row["loss"] for row in rows(tmp_path / name)]

    base = first_losses("a")
    assert base == first_losses("b")
    assert base != first_losses("c", data_seed=1)
    assert base != first_losses("d", init_seed=1)


def test_dropout_is_drawn_afresh_for_each_micro_batch_step_and_seed(monkeypatch):
    def seeds(init_seed: int) -> list[int]:
        found: list[int] = []
        monkeypatch.setattr("lengthwise.training.module.seed_draws", lambda seed, device: found.append(seed))
        data = tiny_data()
        fit(tiny_module(data, init_seed=init_seed), data, tiny_options(max_steps=3, accumulate=2))
        return found

    drawn, other = seeds(0), seeds(1)
    assert len(drawn) == len(other) == 6
    assert len({*drawn, *other}) == 12


def test_a_loss_that_is_not_finite_stops_the_run_and_leaves_no_such_checkpoint(tmp_path):
    class Poison(pl.Callback):
        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            if trainer.global_step == 6:
                pl_module.model.output.bias.data.fill_(float("nan"))

    data = tiny_data()
    with pytest.raises(RunError, match=r"diverged.*nan at step 7 with learning rate .*optimizer\.lr"):
        fit(tiny_module(data), data, tiny_options(), callbacks=[Poison(), *tiny_callbacks(tmp_path)])
    for name, step in (("best", 5), ("last", 4)):
        contents = read_checkpoint(tmp_path / "checkpoints" / f"{name}.ckpt")
        assert contents["global_step"] == step
        assert all(torch.isfinite(value).all() for value in contents["state_dict"].values())


def test_a_huge_learning_rate_stops_the_run(tmp_path):
    data = tiny_data()
    module = tiny_module(data, lr=1e30, schedule=Constant(warmup_steps=0))
    with pytest.raises(RunError, match="diverged"):
        fit(module, data, tiny_options(clip=None), callbacks=tiny_callbacks(tmp_path))


def test_checkpoints_look_for_themselves(tmp_path):
    """On a GPU not every step is looked at: a checkpoint in between must not hold diverged weights."""
    from lengthwise.training.callbacks import StopOnDivergence

    class Blind(StopOnDivergence):
        def on_train_batch_end(self, *args: Any) -> None:
            pass

    data = tiny_data()
    module = tiny_module(data, lr=1e30, schedule=Constant(warmup_steps=0))
    callbacks = [Blind(), Checkpoints(tmp_path, every=3)]
    with pytest.raises(RunError, match="diverged"):
        fit(module, data, tiny_options(clip=None), callbacks=callbacks)
    assert list(tmp_path.iterdir()) == []


def test_early_stopping_stops(tmp_path):
    data = tiny_data()
    stop = EarlyStopping("val/loss", patience=1, min_delta=10.0)
    trainer = fit(
        tiny_module(data), data, tiny_options(max_steps=100), callbacks=[stop, *tiny_callbacks(tmp_path)]
    )
    assert trainer.global_step == 10
    assert read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")["global_step"] == 10


def test_a_figure_that_is_not_measured_cannot_be_monitored(tmp_path):
    data = tiny_data()
    with pytest.raises(ConfigError, match=r"val/acccc.*val/loss"):
        fit(tiny_module(data), data, tiny_options(), callbacks=[EarlyStopping("val/acccc")])


def test_a_batch_that_does_not_divide_is_refused_before_training(tmp_path):
    data = tiny_data(batch_size=10)
    with pytest.raises(ValueError, match=r"data\.batch_size=10 .*trainer\.accumulate=4"):
        fit(tiny_module(data), data, tiny_options(accumulate=4), callbacks=tiny_callbacks(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_validates_at_the_end_even_where_it_is_not_due(tmp_path):
    data = tiny_data()
    fit(tiny_module(data), data, tiny_options(max_steps=7), callbacks=tiny_callbacks(tmp_path))
    assert [row["step"] for row in rows(tmp_path) if row["val_loss"] is not None] == [5, 7]


def test_every_parameter_gets_a_gradient_and_the_rate_is_the_schedules(tmp_path):
    data = tiny_data()
    module = tiny_module(data)
    before = {name: value.clone() for name, value in module.model.named_parameters()}
    fit(module, data, tiny_options(max_steps=10), callbacks=tiny_callbacks(tmp_path))
    assert all(not torch.equal(before[name], value) for name, value in module.model.named_parameters())
    found = [row["learning_rate"] for row in rows(tmp_path)]
    steps = [row["step"] for row in rows(tmp_path)]
    assert found == pytest.approx([3e-3 * module.schedule(step - 1) for step in steps])


def test_the_probe_runs_at_the_start_and_with_every_validation_in_eval_mode(tmp_path):
    modes = []

    def measure(model: Any) -> dict[str, float]:
        modes.append((model.training, torch.is_grad_enabled()))
        return {"swap": float(len(modes))}

    data = tiny_data()
    module = tiny_module(data, dropout=0.1)
    fit(
        module,
        data,
        tiny_options(max_steps=10),
        callbacks=[SymmetryProbe(measure), *tiny_callbacks(tmp_path)],
    )
    record = {row["step"]: row["symmetry_swap"] for row in rows(tmp_path)}
    assert {step: value for step, value in record.items() if value is not None} == {0: 1.0, 5: 2.0, 10: 3.0}
    assert set(modes) == {(False, False)}


def test_a_probe_can_be_monitored(tmp_path):
    data = tiny_data()
    stop = EarlyStopping("symmetry/swap", patience=1, min_delta=10.0)
    probe = SymmetryProbe(lambda model: {"swap": 1.0})
    trainer = fit(tiny_module(data), data, tiny_options(max_steps=50), callbacks=[probe, stop])
    assert trainer.global_step == 10


def test_progress_off_a_terminal_is_ten_plain_lines_with_an_estimate():
    data, stream = tiny_data(), io.StringIO()
    fit(tiny_module(data), data, tiny_options(max_steps=40), callbacks=[Progress("run", stream=stream)])
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[4].startswith("run: step 20/40 · ")
    assert all("left" in line and "\x1b" not in line for line in lines)


def test_progress_on_a_terminal_is_a_bar(tmp_path):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    data, stream = tiny_data(), Terminal()
    callbacks = [Progress("run", stream=stream, redraw_s=0.0), *tiny_callbacks(tmp_path)]
    fit(tiny_module(data), data, tiny_options(max_steps=6), callbacks=callbacks)
    assert "step 6/6" in stream.getvalue()
    assert "loss" in stream.getvalue()


class SignalAt(pl.Callback):
    def __init__(self, step: int, number: int) -> None:
        self.step, self.number = step, number

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), self.number)


def test_ctrl_c_is_a_keyboard_interrupt_and_can_be_pressed_again_later(tmp_path):
    data, before = tiny_data(), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit(tiny_module(data), data, tiny_options(), callbacks=[SignalAt(6, signal.SIGINT)])
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_writes_the_last_checkpoint_and_interrupts(tmp_path):
    data = tiny_data()
    callbacks = [SignalAt(6, signal.SIGTERM), *tiny_callbacks(tmp_path)]
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        fit(tiny_module(data), data, tiny_options(), callbacks=callbacks)
    assert read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")["global_step"] == 6


def test_a_profile_is_written_on_request(tmp_path):
    data = tiny_data()
    callbacks = tiny_callbacks(tmp_path)
    fit(tiny_module(data), data, tiny_options(max_steps=3, profile=True), callbacks=callbacks)
    assert "run_training_batch" in (tmp_path / "profile.txt").read_text()


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_gradient_is_clipped_in_every_precision(precision, tmp_path):
    """With plain SGD at rate 1 a step moves the weights by exactly the clipped gradient's norm."""

    def travelled(clip: float | None) -> float:
        data = tiny_data()
        module = tiny_module(data, schedule=Constant(warmup_steps=0))
        module.optimizer_factory = lambda model: torch.optim.SGD(model.parameters(), lr=1.0)
        before = torch.nn.utils.parameters_to_vector(module.model.parameters()).detach().clone()
        fit(module, data, tiny_options(max_steps=1, clip=clip, precision=precision))
        after = torch.nn.utils.parameters_to_vector(module.model.parameters()).detach()
        return float((after - before).norm())

    assert travelled(1e-3) == pytest.approx(1e-3, rel=1e-2)
    assert travelled(None) > 1e-2


def test_bf16_mixed_trains_and_its_figures_are_finite(tmp_path):
    data = tiny_data()
    callbacks = tiny_callbacks(tmp_path)
    fit(tiny_module(data), data, tiny_options(max_steps=5, precision="bf16-mixed"), callbacks=callbacks)
    assert all(0 < row["loss"] < 5 for row in rows(tmp_path))


def test_float_inputs_train_in_every_precision(tmp_path):
    from lengthwise import nn as lw
    from lengthwise.tasks import Digits, Layout
    from lengthwise.training import LengthData, LengthModule

    task = Digits()
    layout = Layout(task, "encoder", "front")
    length = train_lengths(task)[0]
    data = LengthData(task, layout, lengths=[length], batch_size=8, validation_size=8)
    for precision in ("32-true", "64-true", "bf16-mixed"):
        model = lw.Encoder(
            len(layout.vocabulary),
            width=8,
            layers=1,
            heads=1,
            feature_dim=task.feature_dim,
            trained_length=length,
        )
        module = LengthModule(model, eos=layout.vocabulary.eos)
        fit(module, data, tiny_options(max_steps=2, precision=precision), callbacks=tiny_callbacks(tmp_path))
        assert [row["step"] for row in rows(tmp_path)] == [2]


def test_nothing_is_printed(tmp_path, capfd):
    data = tiny_data()
    fit(tiny_module(data), data, tiny_options(max_steps=5), callbacks=tiny_callbacks(tmp_path))
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
