"""A callback, named by a test's command line, that holds a run at a step until it is interrupted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl


class Pausing(pl.Callback):
    """After `step`, for a minute; only while `once`, which it makes, is not there yet."""

    def __init__(self, step: int, once: str) -> None:
        self.step, self.once = step, Path(once)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step and not self.once.exists():
            self.once.touch()
            end = time.monotonic() + 60
            while time.monotonic() < end and not trainer.received_sigterm:
                time.sleep(0.05)
