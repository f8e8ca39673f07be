"""Stop as soon as the loss is no longer a number."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl

from lengthwise.errors import RunError
from lengthwise.training.data import MicroBatch
from lengthwise.training.module import LengthModule


def refuse_divergence(trainer: pl.Trainer, module: LengthModule) -> None:
    """Raises RunError, on every rank alike, where the loss of the step just done is not finite."""
    loss = module.train_loss()
    if not math.isfinite(loss):
        lr = trainer.optimizers[0].param_groups[0]["lr"]
        raise RunError(
            f"training diverged: the loss is {loss} at step {trainer.global_step} with learning rate {lr:.3g}. "
            "Try a lower optimizer.lr, a longer schedule.warmup_steps or a smaller trainer.clip"
        )


class StopOnDivergence(pl.Callback):
    """Looks at every step in one process on a CPU, where looking is free, else every `every` steps.

    A loss that is not finite stays so, and `Checkpoints` looks again before it writes: no checkpoint holds
    diverged weights.
    """

    def __init__(self, every: int = 10) -> None:
        self.every = every

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: MicroBatch, batch_idx: int
    ) -> None:
        free = trainer.world_size == 1 and pl_module.device.type == "cpu"
        if batch.last and (free or trainer.global_step % self.every == 0):
            refuse_divergence(trainer, pl_module)
