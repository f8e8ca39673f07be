"""Two processes train on the batches of one, to the weights of one, and record once."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from lengthwise.errors import RunError
from lengthwise.training import fit
from lengthwise.training.callbacks import WandbRun
from lengthwise.training.schedules import Constant
from support.tiny_training import rows, tiny_callbacks, tiny_data, tiny_module, tiny_options
from support.wandb_file import read_all


@pytest.fixture(autouse=True)
def forked(monkeypatch):
    """Ranks that are forked, so that a test can start them; one process needs none."""
    trainer = pl.Trainer

    def make(**options):
        return trainer(**options, strategy="ddp_fork" if options["devices"] > 1 else "auto")

    monkeypatch.setattr(pl, "Trainer", make)


def run(folder: Path, **options):
    data = tiny_data(validation_size=35)
    module = tiny_module(data, **options.pop("module", {}))
    wandb_run = WandbRun(folder, run_id="run", name="run", mode=options.pop("wandb", "disabled"))
    settings = tiny_options(max_steps=10, precision="64-true", **options)
    fit(module, data, settings, callbacks=[wandb_run, *tiny_callbacks(folder)])
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"], rows(folder)


TWO = {"devices": 2}


@pytest.mark.parametrize("accumulate", [1, 2])
def test_weights_and_record_are_those_of_one_process(accumulate, tmp_path):
    weights, record = run(tmp_path / "one")
    split_weights, split_record = run(tmp_path / "two", accumulate=accumulate, **TWO)
    for name, value in weights.items():
        torch.testing.assert_close(split_weights[name], value, rtol=1e-7, atol=1e-9)
    assert len(split_record) == len(record)
    for one, two in zip(record, split_record, strict=True):
        assert two["tokens"] == one["tokens"]
        for name in ("loss", "val_loss", "val_token_accuracy", "val_exact_match"):
            expected = None if one[name] is None else pytest.approx(one[name], rel=1e-7)
            assert two[name] == expected


def test_a_diverging_run_ends_on_both(tmp_path):
    wild = {"lr": 1e300, "schedule": Constant(warmup_steps=0)}
    with pytest.raises(Exception, match="diverged") as caught:
        run(tmp_path, module=wild, clip=None, **TWO)
    assert caught.type is RunError or "RunError" in str(caught.value)
    assert not (tmp_path / "checkpoints" / "last.ckpt").exists()


def test_there_is_one_wandb_run(tmp_path):
    run(tmp_path, wandb="offline", **TWO)
    assert len(read_all(tmp_path)) == 1
