"""How far the model is from a symmetry, followed through training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytorch_lightning as pl
from torch import nn

from lengthwise.evaluation.modes import evaluation_mode


class SymmetryProbe(pl.Callback):
    """Calls `measure(model) -> {name: error}` before the first step and at every validation.

    The figures can be monitored as ``symmetry/<name>``; `latest` holds them for whoever writes rows. The model is in
    eval mode, without gradients, during a call, and as before after it.
    """

    def __init__(self, measure: Callable[[Any], Mapping[str, float]]) -> None:
        self.measure = measure
        self.latest: dict[str, float] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.global_step == 0:
            self.latest = self._measure(pl_module.model)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.state.fn == "fit":
            self.latest = self._measure(pl_module.model)
            pl_module.log_dict({f"symmetry/{name}": value for name, value in self.latest.items()})

    def _measure(self, model: nn.Module) -> dict[str, float]:
        with evaluation_mode(model):
            figures = self.measure(model)
        return {name: float(value) for name, value in figures.items()}
