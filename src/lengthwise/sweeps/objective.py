"""What a search looks for: a figure that every validation leaves in ``train.csv``.

Validation items are drawn at the trained lengths, apart from the test. Figures of the test are refused: whoever chooses
by them has made the test a part of training, and has nothing left to report.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lengthwise.errors import ConfigError
from lengthwise.runs import RunFolder, read_table
from lengthwise.runs.tables import TRAIN_COLUMNS

VALIDATION = tuple(name for name in TRAIN_COLUMNS if name.startswith("val_"))
SYMMETRY = ("symmetry_uniform", "symmetry_uniform_difference")
"""Measured with each validation where evaluation.symmetry is true."""

_DIRECTIONS = ("minimize", "maximize")


@dataclass(frozen=True)
class Objective:
    """A column of ``train.csv`` and the direction that is better."""

    name: str
    direction: str

    def points(self, folder: RunFolder, max_steps: int) -> list[tuple[int, float]]:
        """(step, value) of every validation up to `max_steps`; values that are not finite are left out.

        A run that was extended for another purpose has rows further on, which are not this trial's.

        Raises RunError for a damaged table.
        """
        rows = read_table(folder.train_csv)
        return [
            (int(row["step"]), float(row[self.name]))
            for row in rows
            if 0 < row["step"] <= max_steps
            and isinstance(row.get(self.name), int | float)
            and math.isfinite(row[self.name])
        ]


def choose_objective(name: str, direction: str | None, config: Mapping[str, Any]) -> Objective:
    """The objective of that name, for trials like `config`; direction None = the better one.

    Raises ConfigError for a figure that does not exist or that would select by the test, and for a direction that
    looks for the worst.
    """
    known = (*VALIDATION, *(SYMMETRY if config["evaluation"]["symmetry"] else ()))
    option = f"hydra.sweeper.objective={name}"
    if name not in known:
        _refuse_test(option, str(name))
        if name in SYMMETRY:
            raise ConfigError(f"{option}: it is measured with evaluation.symmetry=true only")
        near = difflib.get_close_matches(str(name).replace("/", "_"), known, n=1)
        mean = f" Did you mean {near[0]}?" if near else ""
        raise ConfigError(f"{option}: there is no such figure; there are {', '.join(known)}.{mean}")
    better = "maximize" if "accuracy" in name or "match" in name else "minimize"
    if direction is not None and direction not in _DIRECTIONS:
        raise ConfigError(f"hydra.sweeper.direction={direction}: must be minimize or maximize")
    if direction not in (None, better) and name in VALIDATION:
        raise ConfigError(
            f"hydra.sweeper.direction={direction}: that looks for the worst {name}; use {better}, or null"
        )
    return Objective(name, direction or better)


def _refuse_test(option: str, name: str) -> None:
    checkpoint, _, figure = name.partition("/")
    if checkpoint not in ("last", "best") or not figure:
        return
    beyond = "" if "in_distribution" in figure else ", at lengths beyond training"
    instead = {"exact_match": "val_exact_match", "loss": "val_loss"}.get(
        figure.split("/")[0], "val_token_accuracy"
    )
    raise ConfigError(
        f"{option}: this is measured on the test{beyond}. Choosing by it would make the test a part of training. "
        f"Use {instead}, the same figure on validation items at the trained lengths"
    )
