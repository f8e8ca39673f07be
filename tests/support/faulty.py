"""A callback, named by a test's command line, through which single runs of a sweep go wrong or take their time."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import pytorch_lightning as pl

VARIABLE = "LENGTHWISE_TEST_FAULTS"
"""In the environment, so that the same command runs with and without: ``{"3": "raise", "*": "slow"}`` by seed, as
``3:raise *:slow``. raise, kill (SIGKILL), exit (with code 0), loop (for ever), hold (until there is a file of the name
in `GATE`), slow (a tenth of a second a step)."""

GATE = "LENGTHWISE_TEST_GATE"

FAULTY = "+callbacks.faulty._target_=support.faulty.Faulty"


class Faulty(pl.Callback):
    """Does what is asked for the run's seed, after its second step."""

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        faults = dict(word.split(":") for word in os.environ.get(VARIABLE, "").split())
        fault = faults.get(str(pl_module.init_seed), faults.get("*"))
        if fault == "slow":
            time.sleep(0.1)
        elif trainer.global_step == 2 and fault is not None:
            _FAULTS[fault]()


def _raise() -> None:
    raise ArithmeticError("this one raises")


def _loop() -> None:
    while True:
        time.sleep(0.05)


def _hold() -> None:
    while not os.path.exists(os.environ[GATE]):
        time.sleep(0.05)


_FAULTS = {
    "raise": _raise,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: sys.exit(0),
    "loop": _loop,
    "hold": _hold,
}
