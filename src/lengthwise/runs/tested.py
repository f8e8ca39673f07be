"""What of a run is there already: nothing is measured, or trained, twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lengthwise.errors import RunError
from lengthwise.runs.folder import RunFolder
from lengthwise.runs.lengths import bin_of
from lengthwise.runs.provenance import only_tests, read_starts
from lengthwise.runs.tables import read_table

TRAINED = "trained"
"""Evaluation id of a test with the options the model was trained with."""


def current_rows(
    rows: Iterable[dict[str, Any]], checkpoint: str, evaluation_id: str = TRAINED
) -> list[dict[str, Any]]:
    """The rows of ``length.csv`` that hold for a checkpoint's present weights, tested with these options.

    A run that was extended keeps rows of its earlier weights, at lengths and options that were not tested again. The
    newest step that the checkpoint was tested at, with whatever options, tells which rows those are.
    """
    own = [row for row in rows if row["checkpoint"] == checkpoint]
    newest = max((row["step"] for row in own), default=None)
    return [
        row for row in own if row["step"] == newest and (row["evaluation_id"] or TRAINED) == evaluation_id
    ]


def tested_lengths(
    folder: RunFolder, checkpoint: str, count: int, *, step: int | None = None, evaluation_id: str = TRAINED
) -> set[int]:
    """The lengths in ``length.csv`` for these weights with at least `count` sequences, or with all that there are, or
    found to be not defined.

    step: of the weights; None = of those that were tested last.
    """
    rows = _tested(folder, checkpoint, count, step, evaluation_id)
    return {row["length"] for row in rows if row["stratum"] == "all"}


def tested_bins(
    folder: RunFolder, checkpoint: str, count: int, *, step: int | None = None, evaluation_id: str = TRAINED
) -> set[tuple[int, int]]:
    """As `tested_lengths`, the bins."""
    rows = _tested(folder, checkpoint, count, step, evaluation_id)
    return {found for row in rows if (found := bin_of(row["stratum"])) is not None}


def _tested(
    folder: RunFolder, checkpoint: str, count: int, step: int | None, evaluation_id: str
) -> list[dict[str, Any]]:
    rows = [row for row in read_table(folder.length_csv) if step is None or row["step"] == step]
    return [
        row
        for row in current_rows(rows, checkpoint, evaluation_id)
        # `asked` came later, for tasks that have fewer items than were asked for
        if max(row["n"], row.get("asked") or 0) >= count or "not_defined" in (row["flags"] or "")
    ]


def _has_mean(results: Mapping[str, Any], evaluation: Mapping[str, Any]) -> bool:
    """Whether the mean over a range of lengths that is asked for was taken."""
    asked = evaluation.get("mean")
    return asked is None or all(
        f"{checkpoint}/exact_match/mean_{asked[0]}-{asked[1]}" in results
        for checkpoint in evaluation["checkpoints"]
    )


def symmetry_length(config: Mapping[str, Any]) -> int:
    """Input symbols of the sequences on which symmetry is measured."""
    return config["evaluation"]["symmetry_length"] or max(config["data"]["lengths"])


def is_certified(
    folder: RunFolder, config: Mapping[str, Any], checkpoint: str, *, step: int | None = None
) -> bool:
    """Whether ``symmetry.csv`` holds the asked-for certificate of these weights (step None: of any)."""
    asked = config["evaluation"]
    return any(
        row["checkpoint"] == checkpoint
        and (step is None or row["step"] == step)
        and row["length"] == symmetry_length(config)
        and row["sequences"] >= asked["symmetry_sequences"]
        and (row["draws"] >= asked["symmetry_draws"] or row["flags"])
        for row in read_table(folder.symmetry_csv)
    )


def has_picture(folder: RunFolder, kind: str) -> bool:
    """Whether pictures of that kind (``evaluation.pictures``) were drawn of the run."""
    return any(folder.pictures.glob(f"{kind}*.png"))


def other_precision(folder: RunFolder, config: Mapping[str, Any]) -> str | None:
    """The precision the run was made in, where the command asks for another one; "auto" asks for none.

    Precision is no part of the identity, since a run that was begun on a GPU may end on a CPU.
    """
    asked = config["trainer"]["precision"]
    if asked == "auto" or not folder.provenance_file.is_file():
        return None
    made = (start.get("precision") for start in read_starts(folder.provenance_file) if not only_tests(start))
    return next((precision for precision in made if precision not in (None, asked)), None)


def is_trained(folder: RunFolder, config: Mapping[str, Any]) -> bool:
    """Whether the command that `config` belongs to would find no step left to train. A damaged folder has some."""
    if config["overwrite"] or not folder.exists:
        return False
    try:
        status = folder.status()
    except RunError:
        return False
    return status.state == "done" and (status.max_steps or 0) >= config["trainer"]["max_steps"]


def is_complete(folder: RunFolder, config: Mapping[str, Any]) -> bool:
    """Whether the command that `config` belongs to would find nothing left to do. A damaged folder is not complete."""
    if not is_trained(folder, config):
        return False
    try:
        evaluation = config["evaluation"]
        return (
            other_precision(folder, config) is None
            and _has_mean(folder.status().results, evaluation)
            and all(has_picture(folder, kind) for kind in evaluation.get("pictures") or ())
            and all(
                set(evaluation["lengths"]) <= tested_lengths(folder, checkpoint, evaluation["count"])
                and {tuple(one) for one in evaluation.get("bins") or ()}
                <= tested_bins(folder, checkpoint, evaluation["count"])
                and (not evaluation["symmetry"] or is_certified(folder, config, checkpoint))
                for checkpoint in evaluation["checkpoints"]
            )
        )
    except RunError:
        return False
