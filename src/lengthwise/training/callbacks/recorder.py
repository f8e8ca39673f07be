"""train.csv: one row for each logged step, the record that every other view of a run is made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from lengthwise.runs.tables import TRAIN_COLUMNS, Table
from lengthwise.training.callbacks.symmetry import SymmetryProbe
from lengthwise.training.data import MicroBatch

Row = dict[str, Any]


class Recorder(pl.Callback):
    """Appends a row every `every` steps, at every validation, and at step 0 where there is something to say.

    Columns: step (optimizer steps done), loss and learning_rate of the step just done, tokens (answer tokens so
    far), val_… and symmetry_… where that step validated. Starting cuts the file back to the step training starts
    from, so that no step ever has two rows. Only rank 0 writes.

    start: the step of the checkpoint that training goes on from; `fit` sets it.
    listeners: called with each new row. on_replay: called once at the start, with the rows that are kept.
    """

    def __init__(self, path: str | Path, *, every: int = 10) -> None:
        self.path, self.every = Path(path), every
        self.listeners: list[Callable[[Row], None]] = []
        self.on_replay: list[Callable[[list[Row]], None]] = []
        self.start: int | None = None
        self._table: Table | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if not trainer.is_global_zero:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._table = Table(self.path, TRAIN_COLUMNS)
        # Without a checkpoint nothing is kept, not even the row of step 0.
        self._table.cut_back("step", -1 if self.start is None else self.start)
        rows = self._table.read()
        for replay in self.on_replay:
            replay(rows)

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        figures = _symmetry(trainer)
        if trainer.global_step == 0 and figures:
            self._write(trainer, {"step": 0, **figures})

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: MicroBatch, batch_idx: int
    ) -> None:
        step = trainer.global_step
        due = step % self.every == 0 or step >= trainer.max_steps
        if batch.last and due and not pl_module.validates_now():
            self._write(trainer, {"step": step, **pl_module.train_figures()})

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        validation = {f"val_{name}": value for name, value in pl_module.validation.items()}
        row = {"step": trainer.global_step, **pl_module.train_figures(), **validation, **_symmetry(trainer)}
        self._write(trainer, row)

    def _write(self, trainer: pl.Trainer, row: Row) -> None:
        if not trainer.is_global_zero:
            return
        assert self._table is not None
        if any(name not in self._table.columns for name in row):
            self._table = Table(self.path, tuple(row))
        self._table.append(row)
        for listener in self.listeners:
            listener(row)


def callbacks_of(trainer: pl.Trainer) -> list[pl.Callback]:
    """All callbacks of a Trainer (an attribute its class does not declare)."""
    return trainer.callbacks  # type: ignore[attr-defined]


def _symmetry(trainer: pl.Trainer) -> Row:
    figures: Row = {}
    for callback in callbacks_of(trainer):
        if isinstance(callback, SymmetryProbe):
            figures.update({f"symmetry_{name}": value for name, value in callback.latest.items()})
    return figures
