"""A callback, named by a test's command line, that sends its own process a signal at an exact place."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytorch_lightning as pl

VARIABLE = "LENGTHWISE_TEST_SIGNAL"
"""In the environment, so that the same command runs with and without it: ``SIGINT 7`` after step 7."""


class Signalling(pl.Callback):
    """Sends the signal between two micro-batches of the step after the named one.

    SIGINT goes to the whole process group, as a terminal's Ctrl-C does; the others to this process alone.
    """

    def __init__(self) -> None:
        name, step = os.environ.get(VARIABLE, "SIGKILL -1").split()
        self.signal, self.step = signal.Signals[name], int(step)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self.step and not batch.last:
            if self.signal == signal.SIGINT:
                os.killpg(os.getpgid(0), self.signal)
            else:
                os.kill(os.getpid(), self.signal)


class RaisingOnRank1(pl.Callback):
    """Fails after a few steps, on one rank alone."""

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_rank == 1 and trainer.global_step == 5:
            raise ZeroDivisionError("on purpose")
