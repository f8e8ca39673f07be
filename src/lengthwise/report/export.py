"""The results of a study as files that travel with it: tables, figures, and the configuration of every run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lengthwise.errors import ConfigError, RunError
from lengthwise.keyed import digest
from lengthwise.report.latex import latex
from lengthwise.report.markdown import markdown
from lengthwise.report.plots import drawn
from lengthwise.report.study import part_of
from lengthwise.report.tables import accuracy_table, contrast_table
from lengthwise.runs import RunFolder
from lengthwise.runs.atomic import explain, write_atomic

_LONGEST = 180
"""Bytes of a file name, so that neither its ending nor that of a file which is still being written is too many."""


def export_results(
    outputs: str | Path,
    folder: str | Path,
    *,
    runs: Sequence[str] | None = None,
    study: Mapping[str, Any] | None = None,
) -> Path:
    """Write tables, figures and configurations into `folder`, and return it.

    ``runs.csv``, ``length.csv``, ``symmetry.csv``: what was measured, run by run. ``accuracy.csv``, ``contrasts.csv``:
    over seeds. ``summary.md``, ``summary.tex``: the same to read and to print. ``figures/*.svg``, ``*.png``.
    ``configs/<run>.yaml``. The same runs give the same bytes.

    `study` may say what of it is shown, see `Part`.
    Raises ConfigError for a folder that is not for that, or holds the results of other runs; RunError if there is no
    run, or something cannot be written.
    """
    outputs, folder = Path(outputs), Path(folder)
    _refuse_taken(outputs, folder)
    part = part_of(outputs, runs, study)
    collection = part.collection
    symmetry = collection.symmetry
    if not symmetry.empty:  # hidden layers explain a result and are not one
        symmetry = symmetry[symmetry["quantity"].isin(("inputs", "answer"))]
    files = {
        "runs.csv": _csv(collection.runs),
        "length.csv": _csv(collection.lengths),
        "symmetry.csv": _csv(symmetry),
        "accuracy.csv": _csv(accuracy_table(part)),
        "contrasts.csv": _csv(contrast_table(part)),
        "summary.md": markdown(part).encode(),
        "summary.tex": latex(part).encode(),
        **{f"figures/{name}": content for name, content in drawn(part).items()},
        **{
            _config_name(run): RunFolder(outputs / "runs" / run).config_file.read_bytes()
            for run in collection.runs["run"]
        },
    }
    _refuse_other_runs(folder, files)
    for part_name in sorted({(folder / name).parent for name in files}):
        _make(part_name, folder)
    for name, content in files.items():
        write_atomic(folder / name, content)
    return folder


def _config_name(run: str) -> str:
    """A file name that no file system finds too long, with the end of the name, which tells runs apart."""
    name = run.encode(errors="replace")
    if len(name) > _LONGEST:
        start, end = (part.decode(errors="ignore") for part in (name[: _LONGEST - 40], name[-20:]))
        run = f"{start}-{digest('config', run, size=4).hex()}-{end}"
    return f"configs/{run}.yaml"


def _refuse_taken(outputs: Path, folder: Path) -> None:
    """Raises ConfigError where `folder` is no folder of its own, RunError where it cannot be made or written to."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"export={folder}: that is a file; name a folder")
    own, root = folder.resolve(), outputs.resolve()
    ours = own == root or any(own.is_relative_to(root / name) for name in ("runs", "sweeps", "wandb"))
    if ours or any(RunFolder(path).exists for path in (own, *own.parents)):
        raise ConfigError(
            f"export={folder}: that folder is of the runs themselves; name one of its own, such as export=results"
        )
    _make(folder, folder)


def _make(path: Path, folder: Path) -> None:
    """Raises RunError where files cannot be written there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise RunError(
            f"export={folder}: cannot write to {path}: {explain(error)}. Choose another folder"
        ) from error


def _refuse_other_runs(folder: Path, files: Mapping[str, bytes]) -> None:
    """Raises ConfigError where an earlier export is of runs that this one is not of: the two would be mixed."""
    others = [
        path.name for path in (folder / "configs").glob("*.yaml") if f"configs/{path.name}" not in files
    ]
    if others:
        raise ConfigError(
            f"export={folder}: it holds the results of other runs (configs/{min(others)}"
            + (f" and {len(others) - 1} more" if len(others) > 1 else "")
            + "); name another folder, or delete that one first"
        )


def _csv(frame: pd.DataFrame) -> bytes:
    shown = frame.drop(columns=["group", "setting"], errors="ignore")
    return bytes(shown.to_csv(index=False, lineterminator="\n").encode())
