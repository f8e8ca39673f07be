"""One run in Weights & Biases."""

from __future__ import annotations

import errno
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lengthwise.console import say
from lengthwise.errors import RunError
from lengthwise.tracking.account import OFFLINE, in_words
from lengthwise.tracking.service import let_go, within
from lengthwise.tracking.uploads import mark, reminder, unmark

Row = Mapping[str, Any]

INIT_TIMEOUT = 15.0
"""Seconds that the server has to accept a run."""

FINISH_TIMEOUT = 30.0
"""Seconds that what is left has to reach the server at the end of a run; what does not is on disk."""

_SLACK = 10.0
"""Seconds more, for W&B's own process to say that."""

_ROOM = 1 << 16
"""Bytes free on the disk, below which what W&B wrote last is not sure to be there."""

_LENGTH_FIGURES = {"token_accuracy": "accuracy", "exact_match": "exact_match", "loss": "loss"}


class TrackedRun:
    """One W&B run, opened by `open`, closed by `finish` or by leaving a ``with`` block.

    outputs:  runs go to `outputs`/wandb, shared by all; caches beside them (artifact files are staged there, and
              syncing silently drops what is gone).
    run_id:   stable identity of the run. Earlier local files of the same id are moved to `outputs`/wandb/retired:
              offline segments do not merge, so a resumed run replays its rows into a fresh file.
    keep_earlier: False deletes them instead, once the new file is begun: where all of it is made anew.
    name:     what a reader sees. factors: flat, on top of W&B's config; config: the whole tree, under ``cfg``.
    mode:     "offline", "online" or "disabled" (then wandb is not even imported).

    Once it is open, nothing that goes wrong with W&B is raised: the run folder has the record, this is a view of it.
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
        keep_earlier: bool = True,
    ) -> None:
        if mode not in ("offline", "online", "disabled"):
            raise ValueError(f"wandb.mode={mode!r} must be one of offline, online, disabled")
        self.outputs, self.run_id, self.name, self.mode = Path(outputs), run_id, name, mode
        self.factors, self.config = dict(factors or {}), dict(config or {})
        self.project, self.entity, self.group, self.job_type = project, entity, group, job_type
        self.tags, self.keep_earlier = tuple(dict.fromkeys(tags)), keep_earlier
        self.run: Any = None
        self._folder = Path()
        self._axes: set[str] = set()
        self._complained = False

    # -- life --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the run. Does nothing where it is open or W&B is disabled.

        Raises RunError where W&B's server does not accept it; earlier files are then as they were. Offline, whatever
        goes wrong is said, and the run goes on without W&B; earlier files, of another state of it, stay retired.
        """
        if self.run is not None or self.mode == "disabled":
            return
        try:
            with self._retired():
                self.run = self._init()
        except Exception as error:
            let_go()
            if self.mode == "online":
                raise RunError(f"wandb=online: {in_words(error)}; {OFFLINE}") from error
            self._complain(error)
            return
        self._folder = self.outputs / "wandb" / Path(self.run.settings.sync_dir).name
        self._axes = set()
        if self.mode == "online":
            mark(self._folder)
            say(f"W&B: {self.run.url}")

    def _init(self) -> Any:
        _prepare_environment(self.outputs / "wandb", self.mode)
        import wandb

        return wandb.init(
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
                init_timeout=INIT_TIMEOUT,
                finish_timeout=FINISH_TIMEOUT,
                finish_timeout_raises=True,
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

    @contextmanager
    def _retired(self) -> Iterator[None]:
        """Earlier files of the run out of the way; back again if it cannot be opened."""
        folder = self.outputs / "wandb"
        folder.mkdir(parents=True, exist_ok=True)
        moved: list[tuple[Path, Path]] = []
        for old in folder.glob(f"*run-*-{self.run_id}"):
            retired = folder / "retired"
            retired.mkdir(exist_ok=True)
            target, copy = retired / old.name, 1
            while target.exists():
                target, copy = retired / f"{old.name}.{copy}", copy + 1
            moved.append((old, old.rename(target)))
        try:
            yield
        except BaseException:
            for begun in folder.glob(f"*run-*-{self.run_id}"):
                shutil.rmtree(begun, ignore_errors=True)  # nothing has been logged
            for old, target in moved if self.mode == "online" else ():
                target.rename(old)
            raise
        if not self.keep_earlier:
            for _, target in moved:
                shutil.rmtree(target, ignore_errors=True)

    def finish(self, exit_code: int = 0) -> None:
        """Close the run: 0 is success. Its file is whole on disk after that. Safe to call twice.

        Waits `FINISH_TIMEOUT` at most, or until Ctrl-C; a run that has not reached the server by then is said to be on
        disk.
        """
        if self.run is None:
            return
        run, self.run = self.run, None
        import wandb

        def close() -> None:
            run.finish(exit_code=exit_code)
            wandb.teardown()  # `finish` returns before the file is written; its process ends when it is

        try:
            within(FINISH_TIMEOUT + _SLACK, close)
        except (Exception, KeyboardInterrupt) as error:
            let_go()
            if self.mode == "online":
                say(reminder([self._folder]))
            elif isinstance(error, KeyboardInterrupt):
                raise
            else:
                self._complain(error)
            return
        with self._shielded():
            # its process does not say what it could not write
            if shutil.disk_usage(self._folder).free < _ROOM:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            unmark(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(exit_code_of(error))

    @contextmanager
    def _shielded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            what = " ".join(f"{type(error).__name__}: {error}".removesuffix(": ").split())
            say(f"warning: W&B lacks part of {self.name} ({what}); the run goes on, its folder lacks nothing")

    # -- figures -----------------------------------------------------------------------------------------------

    def log_row(self, row: Row) -> None:
        """One row of the training record, at its step; empty cells are left out.

        ``val_loss`` is shown as ``val/loss``, so that W&B groups figures into sections.
        """
        if self.run is None:
            return
        figures = {_sectioned(name): v for name, v in row.items() if v is not None and name != "step"}
        step = int(row["step"])
        with self._shielded():
            for name in figures:
                self._define(name, "step")
            self.run.log({"step": step, **figures}, step=step, commit=True)

    def log_lengths(self, rows: Iterable[Row], prefix: str = "length") -> None:
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
        with self._shielded():
            for length in sorted(by_length):
                for name in by_length[length]:
                    self._define(name, axis)
                self.run.log({axis: length, **by_length[length]})

    def log_table(self, name: str, rows: Sequence[Row]) -> None:
        """Rows that share their columns, as a W&B table; without rows, nothing."""
        if self.run is None or not rows:
            return
        with self._shielded():
            import wandb

            columns: list[Any] = list(rows[0])
            data = [[row.get(column) for column in columns] for row in rows]
            table = wandb.Table(columns=columns, data=data, allow_mixed_types=True)
            # One that is bound is a file of the run. `log` would make it an artifact too, whose files are staged
            # elsewhere, and ask the server about that: without one it waits 20 s for each, and drops the table.
            table.bind_to_run(self.run, name, self.run.step)
            self.run.log({name: table})

    def log_images(self, paths: Iterable[Path]) -> None:
        """Picture files, each as ``pictures/<its name>``."""
        if self.run is None:
            return
        with self._shielded():
            import wandb

            if images := {f"pictures/{path.stem}": wandb.Image(str(path)) for path in paths}:
                self.run.log(images)

    def log_page(self, name: str, path: Path) -> None:
        """A self-contained HTML page."""
        if self.run is None:
            return
        with self._shielded():
            import wandb

            self.run.log({name: wandb.Html(str(path), inject=False)})

    def summarise(self, figures: Mapping[str, Any]) -> None:
        """Plain values to sort runs by; None and nan are left out."""
        if self.run is None:
            return
        with self._shielded():
            for name, value in figures.items():
                if value is not None and not (isinstance(value, float) and math.isnan(value)):
                    self.run.summary[name] = value

    def _define(self, name: str, axis: str) -> None:
        # By explicit names: a glob would leave the curves without an x axis of their own.
        if name not in self._axes:
            self._axes.add(name)
            self.run.define_metric(name, step_metric=axis)


def exit_code_of(error: BaseException | None) -> int:
    """0, 1, or 130 for an interrupt: how a run that ended with `error` is closed."""
    if error is None:
        return 0
    return 130 if isinstance(error, KeyboardInterrupt | SystemExit) else 1


def _sectioned(column: str) -> str:
    for section in ("val", "symmetry"):
        if column.startswith(f"{section}_"):
            return f"{section}/{column.removeprefix(section + '_')}"
    return f"train/{column}"


def _prepare_environment(folder: Path, mode: str) -> None:
    """Read by wandb when it is first imported: no error reports (a DNS look-up even offline), caches of our own."""
    if mode == "offline":
        os.environ["WANDB_ERROR_REPORTING"] = "false"
    os.environ["WANDB_SILENT"] = "true"
    for variable in ("WANDB_SWEEP_ID", "WANDB_RUN_GROUP"):  # a run's name and group are ours to give
        os.environ.pop(variable, None)
    for variable in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR"):
        os.environ[variable] = str((folder / "cache").resolve())
