"""What of a run is there already: nothing is measured, or trained, twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lengthwise.errors import RunError
from lengthwise.runs.folder import RunFolder
from lengthwise.runs.tables import read_table

TRAINED = "trained"
"""Evaluation id of a test with the options the model was trained with."""


def tested_lengths(
    folder: RunFolder, checkpoint: str, count: int, *, step: int | None = None, evaluation_id: str = TRAINED
) -> set[int]:
    """The lengths in ``length.csv`` for these weights with at least `count` sequences, or found to be not defined.

    step: of the weights; None = whichever were tested last.
    """
    return {
        row["length"]
        for row in read_table(folder.length_csv)
        if (row["checkpoint"], row["evaluation_id"], row["stratum"]) == (checkpoint, evaluation_id, "all")
        and (step is None or row["step"] == step)
        and (row["n"] >= count or "not_defined" in (row["flags"] or ""))
    }


def is_complete(folder: RunFolder, config: Mapping[str, Any]) -> bool:
    """Whether the command that `config` belongs to would find nothing left to do. A damaged folder is not complete."""
    if config["overwrite"] or not folder.exists:
        return False
    try:
        status = folder.status()
        evaluation = config["evaluation"]
        return (
            status.state == "done"
            and (status.max_steps or 0) >= config["trainer"]["max_steps"]
            and all(
                set(evaluation["lengths"]) <= tested_lengths(folder, checkpoint, evaluation["count"])
                for checkpoint in evaluation["checkpoints"]
            )
        )
    except RunError:
        return False
