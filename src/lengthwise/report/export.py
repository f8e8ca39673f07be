"""The results of a study as files that travel with it: tables, figures, and the configuration of every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lengthwise.report.latex import latex
from lengthwise.report.markdown import markdown
from lengthwise.report.plots import drawn
from lengthwise.report.study import part_of
from lengthwise.report.tables import accuracy_table, contrast_table
from lengthwise.runs import RunFolder
from lengthwise.runs.atomic import write_atomic


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
    Raises RunError if there is no run, or something cannot be written.
    """
    outputs, folder = Path(outputs), Path(folder)
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
            f"configs/{run}.yaml": RunFolder(outputs / "runs" / run).config_file.read_bytes()
            for run in collection.runs["run"]
        },
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / name, content)
    return folder


def _csv(frame: pd.DataFrame) -> bytes:
    shown = frame.drop(columns=["group", "setting"], errors="ignore")
    return bytes(shown.to_csv(index=False, lineterminator="\n").encode())
