"""Assemble Lightning's Trainer from plain options, and train: from the start, or from where a run stopped."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, Checkpoint
from pytorch_lightning.profilers import SimpleProfiler
from pytorch_lightning.utilities.exceptions import SIGTERMException
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from lengthwise.errors import ConfigError
from lengthwise.training.callbacks.checkpoints import AtomicCheckpointIO, read_checkpoint
from lengthwise.training.callbacks.divergence import StopOnDivergence
from lengthwise.training.callbacks.recorder import Recorder, callbacks_of
from lengthwise.training.data import LengthData
from lengthwise.training.hardware import resolve_precision
from lengthwise.training.module import LengthModule
from lengthwise.training.place import Place, Surroundings

_NOISE = (
    ".*does not have many workers.*",
    ".*GPU available but not used.*",
    ".*srun. command is available.*",
    ".*sync_dist=True.*",
    ".*isinstance\\(treespec, LeafSpec\\).*",
    ".*FSDP2-wrapped module .* returned a view.*",  # nothing of ours writes into it
    ".*barrier.*using the device under current context.*",
)
_SHARDED_PRECISIONS = ("32-true", "bf16-mixed")
_MONITORS = ("val/loss", "val/token_accuracy", "val/exact_match")


@dataclass(frozen=True)
class TrainerOptions:
    """How to train; nothing here says what.

    max_steps: optimizer steps. accumulate: micro-batches of one. clip: largest norm of the gradient, None or 0 for
    none. precision: "auto" (float32 on CPU, bf16-mixed on GPU) or one of Lightning's. devices: on each of `nodes`
    machines, one process each. strategy: "ddp" (a copy of the model on each), "fsdp" (a slice), "auto" (ddp where there
    are several). log_every, validate_every, checkpoint_every: optimizer steps. threads: of the CPU, None leaves them.
    profile: write profile.txt.
    """

    max_steps: int
    accumulate: int = 1
    clip: float | None = 1.0
    precision: str = "auto"
    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    strategy: str = "auto"
    threads: int | None = None
    log_every: int = 10
    validate_every: int = 100
    checkpoint_every: int = 100
    profile: bool = False

    def __post_init__(self) -> None:
        for name in (
            "max_steps",
            "accumulate",
            "devices",
            "nodes",
            "log_every",
            "validate_every",
            "checkpoint_every",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"trainer.{name}={getattr(self, name)} must be at least 1")

    @property
    def world(self) -> int:
        """The number of processes."""
        return self.devices * self.nodes


def fit(
    module: LengthModule,
    data: LengthData,
    options: TrainerOptions | Mapping[str, Any],
    *,
    callbacks: Sequence[Callback] = (),
    resume_from: str | Path | None = None,
    place: Place | None = None,
) -> pl.Trainer:
    """Train `module` on `data` until `options.max_steps`; returns the Trainer as it ended.

    `resume_from`: a checkpoint to continue from (``checkpoints/last.ckpt``); the run is then exactly what it would
    have been without the break. Pass None to start. `place`: which rank of a run of several processes this is; each of
    them calls `fit`, inside a `Team`.

    Raises RunError for a checkpoint that is missing or damaged, a loss that is not finite, a disk that is full;
    ConfigError for a callback that monitors a figure which does not exist; KeyboardInterrupt where the user or a
    SIGTERM stopped it (after a SIGTERM, the last checkpoint holds the last whole step).
    """
    if not isinstance(options, TrainerOptions):
        options = TrainerOptions(**options)
    start = None if resume_from is None else int(read_checkpoint(resume_from)["global_step"])
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    with _quiet():
        trainer = make_trainer(options, callbacks, place)
        _check_monitors(trainer)
        for callback in callbacks_of(trainer):
            if isinstance(callback, Recorder):
                callback.start = start
        _fit(trainer, module, data, resume_from)
    if options.profile and trainer.is_global_zero:
        _write_profile(trainer)
    return trainer


def refuse(options: TrainerOptions, callbacks: Sequence[Callback] = ()) -> None:
    """Raise what `fit` would, without training: a device that is not there, a monitored figure that does not exist.

    Looks at one process: whether the others can be had is seen where they are started.
    """
    refuse_strategy(
        options.strategy, options.world, resolve_precision(options.precision, options.accelerator)
    )
    with _quiet():
        _check_monitors(make_trainer(replace(options, devices=1, nodes=1, strategy="auto"), callbacks))


def make_trainer(
    options: TrainerOptions, callbacks: Sequence[Callback] = (), place: Place | None = None
) -> pl.Trainer:
    """The Trainer for `options`, without Lightning's own logger, bars, default checkpoints and looks around.

    Raises ValueError where `place` is in a run of another size.
    """
    place = Place() if place is None else place
    if place.world != options.world:
        raise ValueError(f"{options.world} processes are asked for, and this is one of {place.world}")
    callbacks = list(callbacks)
    if not any(isinstance(callback, StopOnDivergence) for callback in callbacks):
        callbacks.insert(0, StopOnDivergence(options.log_every))
    rank_zero_only.rank = place.rank  # type: ignore[attr-defined]  # Lightning reads it from whatever the environment holds
    trainer = pl.Trainer(
        accelerator=options.accelerator,
        devices=1,  # a strategy for several brings its own
        num_nodes=options.nodes,
        strategy=_strategy(options, place),
        precision=resolve_precision(options.precision, options.accelerator),  # type: ignore[arg-type]
        max_steps=options.max_steps,
        max_epochs=-1,
        accumulate_grad_batches=options.accumulate,
        gradient_clip_val=options.clip or None,
        val_check_interval=options.validate_every * options.accumulate,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        # A tensor that a component caches under inference mode would break the next training step.
        inference_mode=False,
        callbacks=callbacks,
        plugins=[AtomicCheckpointIO()] if place.world > 1 else [AtomicCheckpointIO(), Surroundings(place)],
        profiler=SimpleProfiler() if options.profile else None,
        logger=False,
        enable_checkpointing=any(isinstance(callback, Checkpoint) for callback in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    if place.world > 1:
        _leave_signals_to_us(trainer)
    return trainer


def _strategy(options: TrainerOptions, place: Place) -> Any:
    if place.world == 1:
        return "auto"
    from lengthwise.training.strategies import make_strategy  # not needed, and not waited for, by one process

    return make_strategy(options.strategy, place, options.accelerator, options.devices)


def refuse_strategy(strategy: str, world: int, precision: str) -> None:
    """Raises ConfigError for a strategy that cannot be had with so many ranks or in this precision (resolved)."""
    if strategy != "fsdp":
        return
    if world == 1:
        raise ConfigError(
            "trainer.strategy=fsdp shares a model out over several devices, and this run has one: raise "
            "trainer.devices, or use trainer.strategy=auto"
        )
    if precision not in _SHARDED_PRECISIONS:
        raise ConfigError(
            f"trainer.strategy=fsdp trainer.precision={precision}: sharded models train in "
            f"{' or '.join(_SHARDED_PRECISIONS)}; with whole copies (trainer.strategy=ddp) any precision goes"
        )


def _leave_signals_to_us(trainer: pl.Trainer) -> None:
    """Lightning's answer to SIGTERM is a collective, entered by the rank that was sent it: the others never come.

    It also asks all ranks before every batch, which makes a GPU wait. Ours: rank 0 ends, and the others with it.
    """
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]
    trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore[method-assign]


def _check_monitors(trainer: pl.Trainer) -> None:
    for callback in callbacks_of(trainer):
        monitor = getattr(callback, "monitor", None)
        if isinstance(monitor, str) and monitor not in _MONITORS and not monitor.startswith("symmetry/"):
            raise ConfigError(
                f"{type(callback).__name__} monitors {monitor!r}, which is not measured: use one of "
                f"{', '.join(_MONITORS)} or symmetry/<name>"
            )


def _fit(trainer: pl.Trainer, module: LengthModule, data: LengthData, resume_from: str | Path | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    try:
        trainer.fit(module, datamodule=data, ckpt_path=resume_from, weights_only=True)
    except SIGTERMException as error:
        raise KeyboardInterrupt("stopped by SIGTERM") from error
    except SystemExit as error:
        # Lightning's answer to ctrl-C: it exits, and leaves the signal ignored. Others may exit for their own reasons.
        if isinstance(error.__context__, KeyboardInterrupt):
            signal.signal(signal.SIGINT, handler)
            raise KeyboardInterrupt("stopped by the user") from error
        raise


def _write_profile(trainer: pl.Trainer) -> None:
    """profile.txt beside the record, or in the current folder where nothing is recorded."""
    recorders = [callback for callback in callbacks_of(trainer) if isinstance(callback, Recorder)]
    folder = recorders[0].path.parent if recorders else Path()
    (folder / "profile.txt").write_text(trainer.profiler.summary())  # type: ignore[attr-defined]


@contextmanager
def _quiet() -> Iterator[None]:
    """Lightning without tips, device listings and advice that does not apply here."""
    loggers = [
        logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch")
    ]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.WARNING)
        with warnings.catch_warnings():
            for message in _NOISE:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
