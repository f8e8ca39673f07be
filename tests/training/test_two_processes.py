"""Two processes train on the batches of one, to the weights of one, and record once."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from lengthwise import nn as lw
from lengthwise.tasks import Layout, Reverse
from lengthwise.training import LengthData, LengthModule, fit
from lengthwise.training.callbacks import StopOnRequest, WandbRun
from lengthwise.training.callbacks.checkpoints import load_weights
from lengthwise.training.optim import sgd
from lengthwise.training.place import Place
from lengthwise.training.schedules import Constant, Cosine
from support.ranks import in_ranks
from support.tiny_training import rows, tiny_callbacks, tiny_data, tiny_module, tiny_options
from support.wandb_file import read_all


def run(folder: Path, place: Place | None = None, *extra: pl.Callback, **options: Any) -> None:
    data = tiny_data(validation_size=35)
    module = tiny_module(data, **options.pop("module", {}))
    module.optimizer_factory = options.pop("optimizer", module.optimizer_factory)
    mode = options.pop("wandb", "disabled")
    settings = tiny_options(
        **{"max_steps": 10, "precision": "64-true", "devices": 1 if place is None else place.world, **options}
    )
    callbacks = [WandbRun(folder, run_id="run", name="run", mode=mode), *extra, *tiny_callbacks(folder)]
    fit(module, data, settings, callbacks=callbacks, place=place)


def left(folder: Path) -> tuple[dict[str, torch.Tensor], list[dict[str, Any]]]:
    """The weights and the record of the run in `folder`."""
    checkpoint = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    return checkpoint["state_dict"], rows(folder)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_weights_and_record_are_those_of_one_process(accumulate, tmp_path):
    """By an optimizer that the size of the gradient matters to, as to Adam it does not."""
    run(tmp_path / "one", optimizer=sgd)
    answers = in_ranks(lambda place: run(tmp_path / "two", place, accumulate=accumulate, optimizer=sgd))
    assert answers == [None, None]
    (weights, record), (split_weights, split_record) = left(tmp_path / "one"), left(tmp_path / "two")
    for name, value in weights.items():
        torch.testing.assert_close(split_weights[name], value, rtol=1e-7, atol=1e-9)
    assert len(split_record) == len(record)
    for one, two in zip(record, split_record, strict=True):
        assert two["tokens"] == one["tokens"]
        for name in ("loss", "val_loss", "val_token_accuracy", "val_exact_match"):
            expected = None if one[name] is None else pytest.approx(one[name], rel=1e-7)
            assert two[name] == expected


def test_two_nodes_of_one_device_are_two_processes_too(tmp_path):
    """Each is the first, and only, of its node."""
    run(tmp_path / "one")

    def on_its_own_node(place: Place) -> None:
        there = replace(place, local_rank=0, node_rank=place.rank)
        run(tmp_path / "two", there, devices=1, nodes=2)

    assert in_ranks(on_its_own_node) == [None, None]
    losses = [[row["loss"] for row in left(tmp_path / name)[1]] for name in ("one", "two")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-7)


def test_control_without_its_share_a_rank_would_train_on_other_batches(tmp_path, monkeypatch):
    run(tmp_path / "one")
    monkeypatch.setattr("lengthwise.training.data.check_divides", lambda *sizes: None)
    from lengthwise.training import data

    honest = data.micro_batches
    monkeypatch.setattr(
        "lengthwise.training.data.micro_batches",
        lambda batch, step, *, rank, **shares: honest(batch, step, rank=0, **shares),
    )
    in_ranks(lambda place: run(tmp_path / "two", place))
    losses = [[row["loss"] for row in left(tmp_path / name)[1]] for name in ("one", "two")]
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)


def test_a_diverging_run_ends_on_both(tmp_path):
    wild = {"lr": 1e300, "schedule": Constant(warmup_steps=0)}
    answers = in_ranks(lambda place: run(tmp_path, place, module=wild, clip=None))
    assert all(answer.startswith("RunError: training diverged") for answer in answers)
    assert not (tmp_path / "checkpoints" / "last.ckpt").exists()


class PoisonRank(pl.Callback):
    """One rank's loss is no number; its parameters, which gradients would carry to the others, are not touched."""

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        if trainer.global_step == 3 and trainer.global_rank == 1:
            pl_module._loss_share = torch.tensor(math.nan)


def test_a_loss_that_is_no_number_on_one_rank_alone_ends_both(tmp_path):
    answers = in_ranks(lambda place: run(tmp_path, place, PoisonRank()))
    assert all("diverged: the loss is nan at step 4" in str(answer) for answer in answers), answers


class AskedToStop(pl.Callback):
    """Somebody writes the file that asks the run to stop."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == 3 and trainer.is_global_zero:
            self.path.write_text("no hope")


def test_a_request_to_stop_stops_both(tmp_path):
    stop = tmp_path / "stop"
    answers = in_ranks(lambda place: run(tmp_path, place, AskedToStop(stop), StopOnRequest(stop)))
    assert all(str(answer).startswith("KeyboardInterrupt") for answer in answers), answers
    assert rows(tmp_path)[-1]["step"] <= 5


def test_there_is_one_wandb_run(tmp_path):
    assert in_ranks(lambda place: run(tmp_path, place, wandb="offline")) == [None, None]
    assert len(read_all(tmp_path)) == 1


def test_fit_refuses_a_place_in_a_run_of_another_size(tmp_path):
    with pytest.raises(ValueError, match="2 processes are asked for, and this is one of 1"):
        run(tmp_path, None, devices=2)


# -- slices of a model ---------------------------------------------------------------------------------------------


def transformer(position: Any) -> tuple[LengthModule, LengthData]:
    task = Reverse()
    layout = Layout(task, "decoder", "end")
    data = LengthData(task, layout, lengths=[1, 2, 3, 4, 5], batch_size=8, validation_size=15)
    model = lw.Decoder(
        len(layout.vocabulary), width=16, layers=2, heads=2, position=position, trained_length=12
    )
    # The rate does not depend on how many steps are asked for: a run that goes on follows the first one's.
    return LengthModule(model, eos=layout.vocabulary.eos, schedule=Cosine(warmup_steps=2, steps=20)), data


def sharded(
    folder: Path,
    place: Place | None = None,
    *,
    strategy: str = "fsdp",
    position: Any = lw.Rotary,
    steps: int = 8,
    resume: bool = False,
    **options: Any,
) -> LengthModule:
    module, data = transformer(position)
    module.optimizer_factory = options.pop("optimizer", module.optimizer_factory)
    alone = place is None
    settings = tiny_options(
        max_steps=steps,
        devices=1 if alone else place.world,
        strategy="auto" if alone else strategy,
        **{"clip": 0.1, "accumulate": 2, "validate_every": 4, **options},
    )
    last = folder / "checkpoints" / "last.ckpt"
    fit(
        module,
        data,
        settings,
        callbacks=tiny_callbacks(folder),
        resume_from=last if resume else None,
        place=place,
    )
    return module


def assert_same_run(one: Path, other: Path) -> None:
    (weights, record), (other_weights, other_record) = left(one), left(other)
    for name, value in weights.items():
        torch.testing.assert_close(other_weights[name], value, rtol=1e-4, atol=1e-5)
    assert [row["step"] for row in other_record] == [row["step"] for row in record]
    for name in ("loss", "val_loss"):
        for a, b in zip(record, other_record, strict=True):
            assert b[name] == (None if a[name] is None else pytest.approx(a[name], abs=1e-5))


@pytest.mark.parametrize("position", [lw.Rotary, lw.Learned, lw.T5Bias])
def test_slices_of_a_model_train_as_the_whole(position, tmp_path):
    """Clipped at every step, by the norm of the whole gradient: that of a slice is another."""
    sharded(tmp_path / "one", position=position, optimizer=sgd)
    answers = in_ranks(
        lambda place: sharded(tmp_path / "two", place, position=position, optimizer=sgd) and None
    )
    assert answers == [None, None]
    assert_same_run(tmp_path / "one", tmp_path / "two")
    module, _ = transformer(position)
    assert load_weights(module.model, tmp_path / "two" / "checkpoints" / "last.ckpt") == 8


def parameter_sizes(folder: Path, place: Place) -> tuple[int, int]:
    module = sharded(folder, place, steps=1)
    parameters = list(module.model.parameters())
    return sum(p.to_local().numel() for p in parameters), sum(p.numel() for p in parameters)


def test_each_rank_holds_about_half(tmp_path):
    for mine, whole in in_ranks(lambda place: parameter_sizes(tmp_path, place)):
        assert 0.4 * whole < mine < 0.6 * whole


@pytest.mark.parametrize(
    ("first", "then"), [("fsdp", None), ("fsdp", "fsdp"), (None, "fsdp"), ("ddp", "fsdp")]
)
def test_a_run_goes_on_with_another_strategy(first, then, tmp_path):
    """The moments of the optimizer are in the checkpoint under numbers: a mix-up would show in the next losses."""
    sharded(tmp_path / "whole", steps=8)
    for strategy, steps in ((first, 4), (then, 8)):
        start = {"steps": steps, "resume": steps == 8}
        if strategy is None:
            sharded(tmp_path / "parts", **start)
        else:
            answers = in_ranks(
                lambda place, s=strategy, o=start: (
                    sharded(tmp_path / "parts", place, strategy=s, **o) and None
                )
            )
            assert answers == [None, None]
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
