"""A training in Weights & Biases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytorch_lightning as pl

from lengthwise.tracking import TrackedRun
from lengthwise.tracking.run import exit_code_of
from lengthwise.training.callbacks.recorder import Recorder, Row, callbacks_of


class WandbRun(TrackedRun, pl.Callback):
    """Shows the rows of the `Recorder` beside it as they come, those of a resumed run from its beginning.

    Opened when fitting starts, unless it is open by then. Ranks other than 0 do nothing.
    """

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        for callback in callbacks_of(trainer):
            if (
                isinstance(callback, Recorder)
                and trainer.is_global_zero
                and self.start not in callback.on_replay
            ):
                callback.on_replay.append(self.start)
                callback.listeners.append(self.log_row)

    def start(self, rows: Iterable[Row] = ()) -> None:
        """Open the run, where it is not, and replay `rows`."""
        self.open()
        for row in rows:
            self.log_row(row)

    def on_exception(self, trainer: pl.Trainer, pl_module: Any, exception: BaseException) -> None:
        self.finish(exit_code_of(exception))
