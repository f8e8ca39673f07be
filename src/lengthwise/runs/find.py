"""Runs, found again: one by name, or all as a data frame."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lengthwise.errors import RunError
from lengthwise.runs.atomic import explain
from lengthwise.runs.folder import RunFolder, not_a_run
from lengthwise.runs.identity import scientific
from lengthwise.runs.naming import factors, leaves
from lengthwise.runs.tables import read_table

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 10
_ABOUT = ("run", "hash", "variant", "state", "reason", "problem")
_FACTOR_KEYS = {
    "readout", "init_seed", "data_seed", "model.width", "model.layers", "model.heads", "model.dropout", "optimizer.lr",
    "data.batch_size", "data.lengths", "trainer.accumulate", "run.label",
}  # fmt: skip


def find_run(outputs: str | os.PathLike[str], text: str | os.PathLike[str]) -> RunFolder:
    """The run that `text` means: a path, a folder's name, or the beginning of exactly one hash.

    Raises RunError listing the candidates if there are several, or what there is if there is none.
    """
    text = str(text).strip()
    if not text or "\0" in text:
        raise RunError("run= is empty: give a path, a folder's name or the beginning of a hash.")
    if "/" in text or os.sep in text or text in (".", ".."):
        return RunFolder.open(Path(text))
    folders = [RunFolder(path) for path in _listing(outputs)]
    for folder in folders:
        if folder.name == text:
            return RunFolder.open(folder.path)
    matches = [folder for folder in folders if folder.hash.startswith(text.lower()) and folder.exists]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise RunError(
            f"run={text} may be any of {len(matches)} runs:{_list(matches)}\nGive more digits of the hash."
        )
    if os.path.isdir(text):
        return RunFolder.open(text)
    there = [folder for folder in folders if folder.exists]
    if not there:
        raise RunError(f"run={text}: there is no run in {Path(outputs) / 'runs'} yet. Is outputs= right?")
    raise RunError(f"run={text}: no such run in {Path(outputs) / 'runs'}. There are:{_list(there)}")


def iterate_runs(outputs: str | os.PathLike[str]) -> Iterator[tuple[RunFolder, str | None]]:
    """Every run folder by name, with what is wrong with it or None. A damaged folder never raises."""
    for path in _listing(outputs):
        folder = RunFolder(path)
        yield folder, _problem(folder)


def load_runs(outputs: str | os.PathLike[str] = "outputs") -> pd.DataFrame:
    """One row per run: `run`, `hash`, `variant`, `state`, `reason`, `problem`, steps and times; its factors (`task`,
    `pe`, `norm`, `heads`, `seed`, …); other options under their dotted names (``pe.base``); ``results.<name>``.

    A damaged folder has a row too, with state "damaged" and the problem.
    """
    import pandas as pd

    rows = [_row(folder, problem) for folder, problem in iterate_runs(outputs)]
    return pd.DataFrame(rows or {name: [] for name in _ABOUT})


def load_lengths(outputs: str | os.PathLike[str] = "outputs") -> pd.DataFrame:
    """All rows of every ``length.csv``, with the run's name, hashes, state and factors.

    Its `split`, `length`, … are the table's; the training lengths are `train_lengths`. Damaged runs are left out with
    a warning.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for folder, problem in iterate_runs(outputs):
        if problem is None:
            try:
                measured = read_table(folder.length_csv)
            except RunError as error:
                problem = str(error)
        if problem is not None:
            warnings.warn(f"left out: {problem}", stacklevel=2)
            continue
        status = folder.status()
        flat = factors(folder.read_config())
        if "lengths" in flat:
            flat["train_lengths"] = flat.pop("lengths")
        about = {
            "run": folder.name,
            "hash": status.hash or folder.hash,
            "variant": status.variant,
            "state": status.state,
        }
        rows += [{**about, **flat, **row} for row in measured]
    return pd.DataFrame(rows)


def _problem(folder: RunFolder) -> str | None:
    try:
        if not folder.exists:
            return not_a_run(folder.path)
        folder.status()
        scientific(folder.read_config())
    except Exception as error:  # whatever is wrong with it, the others must be shown
        return str(error) or type(error).__name__
    return None


def _row(folder: RunFolder, problem: str | None) -> dict[str, Any]:
    damaged = dict(zip(_ABOUT, (folder.name, folder.hash, "", "damaged", None, problem), strict=True))
    if problem is not None:
        return damaged
    try:
        status, config = folder.status(), folder.read_config()
    except RunError as error:  # it was deleted or damaged since
        return {**damaged, "problem": str(error)}
    row = {**damaged, "hash": status.hash or folder.hash}
    progress = ("variant", "state", "reason", "steps", "max_steps", "horizon", "started", "updated")
    row |= {name: getattr(status, name) for name in progress}
    row |= factors(config)
    hidden = ("_target_", "_partial_")  # the factors say it shorter
    for key, value in leaves(scientific(config)).items():
        if key not in _FACTOR_KEYS and key.rpartition(".")[2] not in hidden:
            row[key] = value
    return row | {f"results.{name}": value for name, value in status.results.items()}


def _listing(outputs: str | os.PathLike[str]) -> list[Path]:
    """The folders in ``<outputs>/runs``, by name; hidden ones are not ours."""
    runs = Path(outputs) / "runs"
    try:
        return sorted(path for path in runs.iterdir() if not path.name.startswith(".") and path.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(
            f"cannot read {runs}: {explain(error)}. Choose another folder with outputs=…"
        ) from error


def _list(folders: list[RunFolder]) -> str:
    lines = "".join(f"\n  {folder.name}" for folder in folders[:_SHOWN])
    return lines + (f"\n  … and {len(folders) - _SHOWN} more" if len(folders) > _SHOWN else "")
