"""How far training is, and when it will be done."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

import pytorch_lightning as pl
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from lengthwise.training.callbacks.recorder import Recorder, Row, callbacks_of
from lengthwise.training.data import MicroBatch

_SHOWN = {"loss": "loss", "val_loss": "val loss", "val_exact_match": "val exact match"}


class Progress(pl.Callback):
    """A bar over the optimizer steps on a terminal; elsewhere a plain line at each tenth of the way.

    Costs a clock reading a step: the bar is drawn at most four times a second, and the figures shown are those of
    the last recorded row, so that no step waits for the device on its account.
    """

    def __init__(
        self, label: str = "training", *, stream: TextIO | None = None, redraw_s: float = 0.25
    ) -> None:
        self.label, self.redraw_s = label, redraw_s
        self.stream = stream
        self._bar: Bar | None = None
        self._figures: dict[str, float] = {}
        self._first_step, self._began, self._drawn, self._tenth = 0, 0.0, 0.0, 0

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        for callback in callbacks_of(trainer):
            if isinstance(callback, Recorder) and self._notice not in callback.listeners:
                callback.listeners.append(self._notice)

    def _notice(self, row: Row) -> None:
        self._figures.update(
            {shown: row[name] for name, shown in _SHOWN.items() if row.get(name) is not None}
        )

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._first_step, self._began = trainer.global_step, time.monotonic()
        self._drawn, self._tenth = self._began, 10 * trainer.global_step // trainer.max_steps
        if not trainer.is_global_zero:
            return
        console = Console(file=self.stream or sys.stderr)
        if not console.is_terminal:
            return
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            console=console,
            auto_refresh=False,
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(
            self.label, total=trainer.max_steps, completed=trainer.global_step, text=""
        )

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: MicroBatch, batch_idx: int
    ) -> None:
        if not batch.last or not trainer.is_global_zero:
            return
        now = time.monotonic()
        if self._bar is not None:
            if now - self._drawn >= self.redraw_s:
                self._drawn = now
                self._draw(trainer)
        elif 10 * trainer.global_step // trainer.max_steps > self._tenth:
            self._tenth = 10 * trainer.global_step // trainer.max_steps
            print(f"{self.label}: {self.text(trainer)}", file=self.stream or sys.stderr, flush=True)

    def _draw(self, trainer: pl.Trainer) -> None:
        assert self._bar is not None
        self._bar.update(self._task, completed=trainer.global_step, text=self.text(trainer))
        self._bar.refresh()

    def text(self, trainer: pl.Trainer) -> str:
        """``step 30/300 · loss 0.693 · 0:01 elapsed · about 0:09 left``."""
        elapsed = time.monotonic() - self._began
        done = trainer.global_step - self._first_step
        left = elapsed / done * (trainer.max_steps - trainer.global_step) if done else None
        parts = [f"step {trainer.global_step}/{trainer.max_steps}"]
        parts += [f"{name} {value:.3g}" for name, value in self._figures.items()]
        parts += [f"{_clock(elapsed)} elapsed"]
        return " · ".join(parts if left is None else [*parts, f"about {_clock(left)} left"])

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if self._bar is not None:
            self._draw(trainer)
        self._close()

    def on_exception(self, trainer: pl.Trainer, pl_module: Any, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
