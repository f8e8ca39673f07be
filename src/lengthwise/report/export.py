"""The results of a study as files that travel with it: tables, and the configuration of every run behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lengthwise.report.analysis import (
    AFTER,
    BEFORE,
    DTYPES,
    MEASURES,
    Section,
    estimate,
    permutation_rows,
    scores_in_distribution,
)
from lengthwise.report.statistics import VERDICT_SEEDS, Estimate
from lengthwise.report.study import Part, part_of
from lengthwise.report.words import fewer_seeds, seeds_word, spread
from lengthwise.runs import RunFolder, format_lengths
from lengthwise.runs.atomic import write_atomic


def export_results(
    outputs: str | Path,
    folder: str | Path,
    *,
    runs: Sequence[str] | None = None,
    study: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``runs.csv``, ``length.csv``, ``symmetry.csv``, ``summary.md`` and ``configs/<run>.yaml`` into `folder`.

    `study` may say what of it is shown, see `Part`. Returns the folder.
    Raises RunError if there is no run, or something cannot be written.
    """
    outputs, folder = Path(outputs), Path(folder)
    part = part_of(outputs, runs, study)
    collection = part.collection
    (folder / "configs").mkdir(parents=True, exist_ok=True)
    symmetry = collection.symmetry
    if not symmetry.empty:  # hidden layers explain a result and are not one
        symmetry = symmetry[symmetry["quantity"].isin(("inputs", "answer"))]
    for name, frame in (("runs", collection.runs), ("length", collection.lengths), ("symmetry", symmetry)):
        text = frame.drop(columns=["group", "setting"], errors="ignore").to_csv(
            index=False, lineterminator="\n"
        )
        write_atomic(folder / f"{name}.csv", text.encode())
    write_atomic(folder / "summary.md", summary(part).encode())
    for run in collection.runs["run"]:
        write_atomic(
            folder / "configs" / f"{run}.yaml", RunFolder(outputs / "runs" / run).config_file.read_bytes()
        )
    return folder


def summary(part: Part) -> str:
    """Accuracy against length, or over the trained lengths, and equivariance errors as Markdown tables."""
    return "\n".join(line for section in part.sections for line in _section(section))


def _section(section: Section) -> list[str]:
    return [
        f"## {section.setting.title}",
        "",
        *(_compared(section) if section.trained_only else _lengths(section) if section.measures else []),
        *(_symmetry(section) if section.symmetry else []),
    ]


def _lengths(section: Section) -> list[str]:
    rows = []
    for group in section.groups:
        curve = section.curve(group, "all")
        cells = [_cell(curve.estimates.get(n) if curve else None, len(group.runs)) for n in section.lengths]
        rows.append(f"| {group.label} | {' | '.join(cells)} |")
    head = _head(section, "")
    if any("| – |" in row for row in rows):
        head += " –: not tested at that length, or not defined there."
    return [head, "", *_rows(["encoding", *map(str, section.lengths)]), *rows, ""]


def _compared(section: Section) -> list[str]:
    """Over the trained lengths, where nothing longer was tested: a row a variant, with each seed."""
    rows = []
    for group in section.groups:
        at = estimate(scores) if (scores := scores_in_distribution(section, group)) else None
        seeds = ", ".join(f"{100 * point:.1f}" for point in at.points) if at else "–"
        rows.append(f"| {group.label} | {_cell(at, len(group.runs))} | {seeds} |")
    head = _head(section, f" over the tested lengths {format_lengths(section.shared_lengths)}")
    return [head, "", *_rows(["variant", "accuracy", "each seed"]), *rows, ""]


def _head(section: Section, where: str) -> str:
    measure = MEASURES[section.measures[0]].capitalize()
    fewest, most = section.fewest_seeds, section.most_seeds
    seeds = seeds_word(most) if fewest == most else f"{fewest} to {seeds_word(most)}"
    provisional = f" (provisional: a verdict needs {VERDICT_SEEDS})" if fewest < VERDICT_SEEDS else ""
    return (
        f"{measure} in %{where}, mean ± half-width of the 95 % interval ([low, high] where it ends at 0 or 100), "
        f"n = {seeds}{provisional}."
    )


def _cell(at: Estimate | None, seeds: int) -> str:
    if at is None:
        return "–"
    return " ".join(filter(None, [f"{100 * at.mean:.1f}", spread(at, "± "), fewer_seeds(at, seeds)]))


def _symmetry(section: Section) -> list[str]:
    lines = ["Error under random permutations of the inputs, relative to ‖f(x)‖, mean over seeds.", ""]
    moments = [(moment, kind) for moment in (BEFORE, AFTER) for kind in DTYPES]
    lines += _rows(
        ["encoding", *(f"{DTYPES[kind]} {moment} training" for moment, kind in moments), "equivariance"]
    )
    for row in permutation_rows(section):
        errors = [row.error.get(key) for key in moments]
        cells = ["–" if error is None else f"{error:.1e}" for error in errors]
        lines.append(f"| {row.group.label} | {' | '.join(cells)} | {row.measured} |")
    return [*lines, ""]


def _rows(header: list[str]) -> list[str]:
    return [f"| {' | '.join(header)} |", f"|---{'|---:' * (len(header) - 1)}|"]
