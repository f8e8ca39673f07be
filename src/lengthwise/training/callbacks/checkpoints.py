"""Checkpoints: the best, the last, and files that are either whole or not there.

Contents are plain, so ``torch.load(path, weights_only=True)`` reads them.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.io.checkpoint_io import CheckpointIO
from pytorch_lightning.callbacks import Checkpoint
from torch import nn

from lengthwise.errors import RunError
from lengthwise.runs.atomic import explain, replacing
from lengthwise.training.callbacks.divergence import refuse_divergence
from lengthwise.training.data import MicroBatch

_DAMAGE = (
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    KeyError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
)
"""What torch.load raises, depending on where a file was cut."""


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The contents of a checkpoint, on the CPU.

    Raises RunError, naming the file and what to do, where it is missing, truncated or not a checkpoint.
    """
    contents = _read(Path(path))
    if not isinstance(contents, dict) or "state_dict" not in contents:
        raise RunError(f"{path} is not a checkpoint of a training run: it has no state_dict")
    return contents


def _read(path: Path) -> Any:
    if not path.is_file():
        raise RunError(
            f"there is no checkpoint {path}: train the run first (overwrite=true trains it afresh), or name one "
            "that exists"
        )
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except _DAMAGE as error:
        raise RunError(
            f"the checkpoint {path} ({path.stat().st_size} bytes) is damaged and cannot be read. Put back a whole "
            "copy of it, or delete it and run the same command again to train from the start"
        ) from error


def load_weights(model: nn.Module, path: str | Path) -> int:
    """Put a checkpoint's weights into `model`; returns the step they are from.

    Raises RunError where the file is missing or damaged, or its weights are another model's.
    """
    contents = read_checkpoint(path)
    prefix = "model."
    weights = {k.removeprefix(prefix): v for k, v in contents["state_dict"].items() if k.startswith(prefix)}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise RunError(f"the weights in {path} do not fit this model: {error}") from error
    return int(contents["global_step"])


class AtomicCheckpointIO(CheckpointIO):
    """Files that a reader never sees half of, see `replacing`.

    Raises RunError where the disk is full or not writable; what was there before is then untouched.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write {path}: {explain(error)}.") from error
        # in memory first: torch's writer answers an interrupt, or an error, of a Python file by another error or abort
        contents = io.BytesIO()
        torch.save(checkpoint, contents)
        with replacing(path) as file:
            file.write(contents.getbuffer())

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return _read(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


class Checkpoints(Checkpoint):
    """`folder`/last.ckpt every `every` steps and at the end, `folder`/best.ckpt at each best `monitor` (lowest).

    At a step that validates, the last checkpoint is written after validation, so that resuming from it neither
    repeats nor skips one. A figure that is not a number is never the best. The best score is part of every
    checkpoint: a resumed run goes on comparing with it.

    best_score, best_step: of the best checkpoint, None before the first.
    """

    def __init__(self, folder: str | Path, *, every: int = 100, monitor: str = "val/loss") -> None:
        self.folder, self.every, self.monitor = Path(folder), every, monitor
        self.best_score: float | None = None
        self.best_step: int | None = None

    @property
    def last_path(self) -> Path:
        return self.folder / "last.ckpt"

    @property
    def best_path(self) -> Path:
        return self.folder / "best.ckpt"

    def state_dict(self) -> dict[str, Any]:
        return {"best_score": self.best_score, "best_step": self.best_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best_score, self.best_step = state_dict["best_score"], state_dict["best_step"]

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: MicroBatch, batch_idx: int
    ) -> None:
        if not batch.last or pl_module.validates_now():
            return
        ends = trainer.global_step >= trainer.max_steps or trainer.received_sigterm
        if ends or trainer.global_step % self.every == 0:
            self._save(trainer, pl_module, self.last_path)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        score = self._score(trainer, pl_module)
        if (
            score is not None
            and math.isfinite(score)
            and (self.best_score is None or score < self.best_score)
        ):
            self.best_score, self.best_step = score, trainer.global_step
            self._save(trainer, pl_module, self.best_path)
        ends = trainer.should_stop or trainer.global_step >= trainer.max_steps or trainer.received_sigterm
        if ends or trainer.global_step % self.every == 0:
            self._save(trainer, pl_module, self.last_path)

    def _score(self, trainer: pl.Trainer, module: Any) -> float | None:
        section, _, name = self.monitor.partition("/")
        if section == "val" and name in module.validation:
            return module.validation[name]
        logged = trainer.callback_metrics.get(self.monitor)
        return None if logged is None else float(logged)

    def _save(self, trainer: pl.Trainer, module: Any, path: Path) -> None:
        refuse_divergence(trainer, module)
        trainer.save_checkpoint(path, weights_only=False)
