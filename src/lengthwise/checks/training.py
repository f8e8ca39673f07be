"""A short training of each shape, and that one in two halves is the same to the bit."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lengthwise.checks.verdicts import NotApplicable, Report
from lengthwise.composing import compose
from lengthwise.errors import ConfigError
from lengthwise.evaluation.properties import PropertyError
from lengthwise.pipeline import train
from lengthwise.runs import RunFolder, read_table
from lengthwise.training.callbacks.checkpoints import read_checkpoint

STEPS = 20
_SHAPES = ("encoder", "decoder", "encoder_decoder")
_SMALL = [
    "model.width=24", "model.layers=1", "model.heads=4", "data.batch_size=8", "data.validation_size=32",
    f"trainer.log_every={STEPS // 4}", f"trainer.validate_every={STEPS // 2}", f"trainer.checkpoint_every={STEPS // 2}",
    "trainer.accelerator=cpu", "trainer.threads=1", "evaluation.count=16", "evaluation.checkpoints=[last]",
    "evaluation.symmetry=false", "wandb=disabled", "schedule.warmup_steps=1",
]  # fmt: skip
_CONSTANT = "schedule=constant"


def check_training(report: Report, slot: str, overrides: Sequence[str], *, broken: str | None = None) -> None:
    """Add the rows: each shape trains `STEPS` steps; for the first that does, two halves make the whole.

    broken: the row that has failed without which nothing can be trained.
    """
    shapes = _SHAPES if slot in ("task", "optimizer", "schedule", "positions") else _SHAPES[:2]
    if broken is not None:
        report.skip([*(f"trains ({shape})" for shape in shapes), "resumes"], broken)
        return
    words = [*([] if slot == "schedule" else [_CONSTANT]), *_SMALL, *overrides]
    with tempfile.TemporaryDirectory(prefix="lengthwise-check-") as folder:
        done: list[tuple[str, RunFolder]] = []
        failed = [
            name
            for shape in shapes
            if not report.add(
                name := f"trains ({shape})", partial(_trains, done, shape, words, f"{folder}/whole")
            )
        ]
        if failed and not done:
            report.skip(["resumes"], failed[0])
            return
        report.add("resumes", partial(_resumes, done, words, f"{folder}/halves", horizon=slot == "schedule"))


def _config(shape: str, words: Sequence[str], outputs: str, steps: int) -> dict[str, Any]:
    config = compose([*words, f"model={shape}", f"trainer.max_steps={steps}", f"outputs={outputs}"])
    config["evaluation"]["lengths"] = [max(config["data"]["lengths"])]
    return config


def _quietly(config: dict[str, Any]) -> RunFolder:
    """Train without a word."""
    threads = torch.get_num_threads()
    logging.disable(logging.WARNING)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            return train(config)
    finally:
        logging.disable(logging.NOTSET)
        torch.set_num_threads(threads)


def _trains(done: list[tuple[str, RunFolder]], shape: str, words: Sequence[str], outputs: str) -> str:
    try:
        folder = _quietly(_config(shape, words, outputs, STEPS))
    except ConfigError as refused:
        raise NotApplicable(f"refused: {refused}") from refused
    done.append((shape, folder))
    losses = [float(row["loss"]) for row in read_table(folder.train_csv) if row["loss"] is not None]
    return f"{STEPS} steps, loss {losses[0]:.2f} to {losses[-1]:.2f}"


def _resumes(done: list[tuple[str, RunFolder]], words: Sequence[str], outputs: str, *, horizon: bool) -> str:
    """`STEPS` steps in two halves give the weights of as many at once, to the bit."""
    if not done:
        raise PropertyError(
            "no shape of model can be trained with it: give what it needs, such as task=OPTION"
        )
    shape, whole = done[0]
    words = [*words, f"schedule.steps={STEPS}"] if horizon else words
    if horizon:
        whole = _quietly(_config(shape, words, f"{outputs}/whole", STEPS))
    for steps in (STEPS // 2, STEPS):
        folder = _quietly(_config(shape, words, outputs, steps))
    one, other = (_weights(run.last) for run in (whole, folder))
    for name, value in one.items():
        if not torch.equal(value, other[name]):
            raise PropertyError(
                f"{name} is not the same after {STEPS} steps at once and after twice {STEPS // 2}: something is kept "
                "that is in no checkpoint"
            )
    return f"twice {STEPS // 2} steps are {STEPS}, to the bit"


def _weights(path: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = read_checkpoint(path)["state_dict"]
    return found
