"""A run that can be asked to stop from outside, wherever it runs: by a file in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from lengthwise.runs.ending import Stopped

_LONGEST = 500


class StopOnRequest(pl.Callback):
    """Ends training at the first validation that finds the file `path`, whose content is the reason.

    The run is then *interrupted*, not done: it is not tested, no report pools it, and the same command goes on with
    it from its last checkpoint. A file that was there before training began is removed: it was meant for an earlier
    start. Rank 0 looks, all ranks stop.

    Raises Stopped, with the reason.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.is_global_zero:
            self.path.unlink(missing_ok=True)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit" or trainer.global_step >= trainer.max_steps:
            return
        reason = self._request() if trainer.is_global_zero else None
        if trainer.world_size > 1:
            reason = trainer.strategy.broadcast(reason)
        if reason is not None:
            raise Stopped(reason)

    def _request(self) -> str | None:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace").strip()[:_LONGEST]
            self.path.unlink()
        except OSError:
            return None
        return text or "stopped on request"
