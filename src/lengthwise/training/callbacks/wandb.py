"""A run in Weights & Biases, offline unless asked otherwise.

W&B is a view: all that it shows is in the run folder too. Offline, nothing touches the network.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pytorch_lightning as pl

from lengthwise.training.callbacks.recorder import Recorder, Row, callbacks_of

_LENGTH_FIGURES = {"token_accuracy": "accuracy", "exact_match": "exact_match", "loss": "loss"}


class WandbRun(pl.Callback):
    """One W&B run; opened when fitting starts, closed by `finish` or by leaving a ``with`` block.

    outputs:  runs go to `outputs`/wandb, shared by all; caches beside them (artifact files are staged there, and
              syncing silently drops what is gone).
    run_id:   stable identity of the run. Earlier local files of the same id are moved to `outputs`/wandb/retired:
              offline segments do not merge, so a resumed run replays its rows into a fresh file.
    name:     what a reader sees. factors: flat, on top of W&B's config; config: the whole tree, under ``cfg``.
    mode:     "offline", "online" or "disabled" (then wandb is not even imported).

    Ranks other than 0 do nothing.
    """

    def __init__(
        self,
        outputs: str | Path,
        *,
        run_id: str,
        name: str,
        factors: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        mode: str = "offline",
        project: str = "lengthwise",
        entity: str | None = None,
        group: str | None = None,
        job_type: str = "train",
        tags: Sequence[str] = (),
    ) -> None:
        if mode not in ("offline", "online", "disabled"):
            raise ValueError(f"wandb.mode={mode!r} must be one of offline, online, disabled")
        self.outputs, self.run_id, self.name, self.mode = Path(outputs), run_id, name, mode
        self.factors, self.config = dict(factors or {}), dict(config or {})
        self.project, self.entity, self.group, self.job_type = project, entity, group, job_type
        self.tags = tuple(tags)
        self.run: Any = None
        self._defined: set[str] = set()

    # -- life --------------------------------------------------------------------------------------------------

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
        """Open the run and replay `rows`. Does nothing where it is open or W&B is disabled."""
        if self.run is not None or self.mode == "disabled":
            return
        folder = self.outputs / "wandb"
        folder.mkdir(parents=True, exist_ok=True)
        self._retire(folder)
        _prepare_environment(folder, self.mode)
        import wandb

        self.run = wandb.init(
            dir=str(self.outputs),
            project=self.project,
            entity=self.entity,
            id=self.run_id,
            name=self.name,
            group=self.group,
            job_type=self.job_type,
            tags=list(self.tags),
            config={**self.factors, "cfg": self.config},
            settings=wandb.Settings(
                mode=self.mode,  # type: ignore[arg-type]
                reinit="finish_previous",
                x_transaction_log_flush_interval=1.0,
                x_save_requirements=False,
                x_disable_stats=True,
                x_disable_meta=True,
                disable_git=True,
                disable_code=True,
                save_code=False,
                console="off",
                silent=True,
                symlink=False,
            ),
        )
        self._defined = set()
        for row in rows:
            self.log_row(row)

    def finish(self, exit_code: int = 0) -> None:
        """Close the run: 0 is success. Its file is whole on disk after that. Safe to call twice."""
        if self.run is None:
            return
        run, self.run = self.run, None
        run.finish(exit_code=exit_code)
        if self.mode == "offline":
            import wandb

            # `finish` returns before the file is written: only the end of wandb's service says that it is.
            wandb.teardown()

    def __enter__(self) -> WandbRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(_exit_code(error))

    def on_exception(self, trainer: pl.Trainer, pl_module: Any, exception: BaseException) -> None:
        self.finish(_exit_code(exception))

    def _retire(self, folder: Path) -> None:
        for old in folder.glob(f"*run-*-{self.run_id}"):
            retired = folder / "retired"
            retired.mkdir(exist_ok=True)
            target, copy = retired / old.name, 1
            while target.exists():
                target, copy = retired / f"{old.name}.{copy}", copy + 1
            old.rename(target)

    # -- figures -----------------------------------------------------------------------------------------------

    def log_row(self, row: Row) -> None:
        """One row of the training record, at its step; empty cells are left out.

        ``val_loss`` is shown as ``val/loss``, so that W&B groups figures into sections.
        """
        if self.run is None:
            return
        figures = {_sectioned(name): v for name, v in row.items() if v is not None and name != "step"}
        step = int(row["step"])
        for name in figures:
            self._define(name, "step")
        self.run.log({"step": step, **figures}, step=step)

    def log_lengths(self, rows: Iterable[Mapping[str, Any]], prefix: str = "length") -> None:
        """Rows of a length evaluation: ``length/accuracy`` and others against ``length/n``.

        A stratum other than "all" goes to ``length/<stratum>/accuracy``. Figures that are empty are left out.
        """
        if self.run is None:
            return
        axis = f"{prefix}/n"
        by_length: dict[int, dict[str, float]] = {}
        for row in rows:
            stratum = row.get("stratum", "all")
            start = prefix if stratum == "all" else f"{prefix}/{stratum}"
            for name, shown in _LENGTH_FIGURES.items():
                if row.get(name) is not None:
                    by_length.setdefault(int(row["length"]), {})[f"{start}/{shown}"] = row[name]
        for length in sorted(by_length):
            for name in by_length[length]:
                self._define(name, axis)
            self.run.log({axis: length, **by_length[length]})

    def summarise(self, figures: Mapping[str, Any]) -> None:
        """Plain values to sort runs by; None and nan are left out."""
        if self.run is None:
            return
        for name, value in figures.items():
            if value is not None and not (isinstance(value, float) and math.isnan(value)):
                self.run.summary[name] = value

    def _define(self, name: str, axis: str) -> None:
        # By explicit names: a glob would leave the curves without an x axis of their own.
        if name not in self._defined:
            self._defined.add(name)
            self.run.define_metric(name, step_metric=axis)


def _sectioned(column: str) -> str:
    for section in ("val", "symmetry"):
        if column.startswith(f"{section}_"):
            return f"{section}/{column.removeprefix(section + '_')}"
    return f"train/{column}"


def _prepare_environment(folder: Path, mode: str) -> None:
    """Read by wandb when it is first imported: no error reports (a DNS look-up even offline), caches of our own."""
    if mode == "offline":
        os.environ["WANDB_ERROR_REPORTING"] = "false"
    for variable in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR"):
        os.environ[variable] = str((folder / "cache").resolve())


def _exit_code(error: BaseException | None) -> int:
    if error is None:
        return 0
    return 130 if isinstance(error, KeyboardInterrupt | SystemExit) else 1
