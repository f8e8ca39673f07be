"""The real model resumes exactly too, with dropout at every site it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from lengthwise import nn as lw
from lengthwise.tasks import Layout, Reverse
from lengthwise.training import LengthData, LengthModule, fit
from support.tiny_training import rows, tiny_callbacks, tiny_options


class Stop(Exception):
    pass


class StopAt(pl.Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self.step:
            raise Stop


def run(folder: Path, position: Any, *extra: pl.Callback, resume: bool = False) -> torch.Tensor:
    task = Reverse()
    layout = Layout(task, "decoder", "end")
    data = LengthData(task, layout, lengths=[1, 2, 3, 4, 5], batch_size=8, validation_size=15)
    model = lw.Decoder(
        len(layout.vocabulary), width=16, layers=2, heads=2, dropout=0.1, position=position, trained_length=12
    )
    fit(
        LengthModule(model, eos=layout.vocabulary.eos),
        data,
        tiny_options(max_steps=8, accumulate=2, validate_every=4),
        callbacks=[*extra, *tiny_callbacks(folder, checkpoint_every=3)],
        resume_from=folder / "checkpoints" / "last.ckpt" if resume else None,
    )
    return torch.nn.utils.parameters_to_vector(model.parameters())


@pytest.mark.parametrize("position", [lw.Rotary, lw.Learned, lw.T5Bias])
def test_resumed_is_bit_equal_to_unbroken(position, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    weights = run(whole, position)
    with pytest.raises(Stop):
        run(broken, position, StopAt(5))
    assert torch.equal(run(broken, position, resume=True), weights)
    assert rows(broken) == rows(whole)
