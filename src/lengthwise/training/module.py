"""One optimizer step, and the figures it leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.exceptions import SIGTERMException
from torch import Tensor, nn
from torch.optim import Optimizer

from lengthwise.batch import Batch
from lengthwise.keyed import seed63
from lengthwise.training.data import MicroBatch, Share
from lengthwise.training.metrics import AnswerMetrics, summed_loss
from lengthwise.training.optim import adamw
from lengthwise.training.schedules import Cosine

STATE = "lengthwise"
"""Key of our own entry in a checkpoint."""


class LengthModule(pl.LightningModule):
    """A model in training.

    The loss of an optimizer step is the sum of cross-entropies over *all* its answer tokens, divided by their
    number, wherever they are computed: neither accumulation nor the number of ranks changes the gradient. Every
    draw inside a micro-batch (dropout) comes from a seed keyed by (init seed, step, micro-batch, rank), so a
    resumed run repeats those of an unbroken one.

    model:      batch -> logits (B, N, V).
    eos:        symbol that ends an answer, left out of token accuracy; None where answers have none.
    optimizer:  model -> torch optimizer.
    schedule:   step -> factor of the learning rate; an attribute `steps` that is None becomes the number of steps
                training first starts with, and stays that when training is extended.
    config:     plain containers, kept as hyper-parameters in every checkpoint.

    Raises TypeError for a `config` with anything that JSON does not hold (such checkpoints could not be read back
    safely).
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        eos: int | None = None,
        optimizer: Callable[[nn.Module], Optimizer] = adamw,
        schedule: Callable[[int], float] | None = None,
        init_seed: int = 0,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if config is not None:
            self.save_hyperparameters({"config": _plain(config)}, logger=False)
        self.model = model
        self.optimizer_factory = optimizer
        self.schedule: Any = Cosine() if schedule is None else schedule
        self._follows_the_first_start = getattr(self.schedule, "steps", 0) is None
        self.init_seed = init_seed
        self.metrics = AnswerMetrics(eos)
        self.answer_tokens = 0
        self.validation: dict[str, float] = {}
        self._loss_share: Tensor | None = None
        self._loss_of_step: tuple[int, float] | None = None
        self._stopped_short_of: int | None = None

    def forward(self, batch: Batch) -> Tensor:
        if batch.features is not None:
            batch = replace(batch, features=batch.features.to(self.dtype))
        return self.model(batch)

    # -- the step ----------------------------------------------------------------------------------------------

    def training_step(self, micro: MicroBatch, batch_idx: int) -> Tensor:
        if micro.step != self.trainer.global_step:
            raise AssertionError(f"the batch of step {micro.step} arrived at step {self.trainer.global_step}")
        seed_draws(seed63("dropout", self.init_seed, micro.step, micro.index, self.global_rank), self.device)
        loss = summed_loss(self(micro.batch), micro.batch.targets) / max(1, micro.answer_tokens)
        if micro.index == 0:
            self._loss_share = None
            self.answer_tokens += micro.answer_tokens
        self._loss_share = loss.detach() if self._loss_share is None else self._loss_share + loss.detach()
        # Lightning divides by the number of micro-batches, and DDP averages over ranks: undo both.
        return loss * (micro.count * self.trainer.world_size)

    def configure_model(self) -> None:
        shard = getattr(self.trainer.strategy, "shard", None)
        if shard is not None:
            shard(self.model)

    def configure_optimizers(self) -> Optimizer:
        optimizer = self.optimizer_factory(self.model)
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
        return optimizer

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None
    ) -> None:
        factor = self.schedule(self.trainer.global_step)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
        optimizer.step(closure=optimizer_closure)

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: Any = None,
    ) -> None:
        if gradient_clip_val is None:
            return
        # Lightning refuses to clip for a fused optimizer in mixed precision: with a scaler (float16) such an
        # optimizer unscales by itself, unless it is done before.
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None and getattr(optimizer, "_step_supports_amp_scaling", False):
            scaler.unscale_(getattr(optimizer, "optimizer", optimizer))
        # By the norm of the whole gradient: the slices of a sharded model know that they are parts of it.
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), gradient_clip_val)

    def on_train_batch_end(self, outputs: Any, batch: MicroBatch, batch_idx: int) -> None:
        # After the callbacks' own hooks. Lightning looks at SIGTERM between epochs only, and ours has no end.
        if batch.last and self.trainer.received_sigterm and self.trainer.world_size == 1:
            raise SIGTERMException
        # Validates once more where training ends.
        if batch.last and self.trainer.global_step >= self.trainer.max_steps:
            self.trainer.should_stop = True

    # -- figures -----------------------------------------------------------------------------------------------

    def train_loss(self) -> float:
        """Loss of the step just done, over all ranks (each of which must ask); waits for the device."""
        step = self.trainer.global_step
        if self._loss_of_step is None or self._loss_of_step[0] != step:
            assert self._loss_share is not None
            total = self.trainer.strategy.reduce(self._loss_share.double(), reduce_op="sum")
            self._loss_of_step = (step, float(total))
        return self._loss_of_step[1]

    def train_figures(self) -> dict[str, float]:
        """Of the step just done: loss, learning_rate, and tokens (answer tokens so far)."""
        lr = self.trainer.optimizers[0].param_groups[0]["lr"]
        return {"loss": self.train_loss(), "learning_rate": lr, "tokens": self.answer_tokens}

    def validates_now(self) -> bool:
        """Whether a validation pass follows the optimizer step just done."""
        trainer, step = self.trainer, self.trainer.global_step
        if not trainer.enable_validation:
            return False
        every = trainer.val_check_batch
        due = every not in (None, float("inf")) and step * trainer.accumulate_grad_batches % every == 0
        return due or step >= trainer.max_steps or trainer.should_stop

    def validation_step(self, share: Share, batch_idx: int) -> None:
        self.metrics.update(self(share.batch), share.batch.targets)

    def on_validation_epoch_start(self) -> None:
        self.metrics.reset()

    def on_validation_epoch_end(self) -> None:
        self.validation = {name: float(value) for name, value in self.metrics.compute().items()}
        # Equal on all ranks already; logged for whoever monitors a figure.
        self.log_dict({f"val/{name}": value for name, value in self.validation.items()})

    # -- checkpoints -------------------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        # Before a checkpoint is read or after it, as the strategy has it.
        if getattr(self.schedule, "steps", 0) is None:
            self.schedule.steps = self.trainer.max_steps
        self._heed_an_early_stop()

    def _heed_an_early_stop(self) -> None:
        """Once stopped early, training goes on only where more steps are asked for than it was stopped short of."""
        stopped = self._stopped_short_of
        self.trainer.should_stop = stopped is not None and self.trainer.max_steps <= stopped

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        trainer = self.trainer
        stopped = trainer.should_stop and trainer.global_step < trainer.max_steps
        checkpoint[STATE] = {
            "answer_tokens": self.answer_tokens,
            "schedule_steps": getattr(self.schedule, "steps", None),
            "stopped_short_of": trainer.max_steps if stopped else None,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state = checkpoint[STATE]
        self.answer_tokens = state["answer_tokens"]
        self._stopped_short_of = state.get("stopped_short_of")
        if self._follows_the_first_start:
            self.schedule.steps = state["schedule_steps"]
        self._heed_an_early_stop()


def seed_draws(seed: int, device: torch.device) -> None:
    """What follows on `device` draws from `seed`.

    On the CPU its generator alone: `torch.manual_seed` also asks every kind of device that is not there, and keeps a
    stack trace for each, which takes a millisecond a step.
    """
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(config))
    except (TypeError, ValueError) as error:
        raise TypeError(f"hyper-parameters must be plain containers, numbers and text: {error}") from error
