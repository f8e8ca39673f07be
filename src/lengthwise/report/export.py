"""The results of a study as files that travel with it: tables, and the configuration of every run behind them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lengthwise.report.analysis import AFTER, BEFORE, DTYPES, MEASURES, Section, analyse, permutation_rows
from lengthwise.report.collect import Collection, collect
from lengthwise.report.statistics import VERDICT_SEEDS, Estimate
from lengthwise.report.words import fewer_seeds, seeds_word, spread
from lengthwise.runs import RunFolder
from lengthwise.runs.atomic import write_atomic


def export_results(outputs: str | Path, folder: str | Path, *, runs: Sequence[str] | None = None) -> Path:
    """Write ``runs.csv``, ``length.csv``, ``symmetry.csv``, ``summary.md`` and ``configs/<run>.yaml`` into `folder`.

    Returns the folder. Raises RunError if there is no run, or something cannot be written.
    """
    outputs, folder = Path(outputs), Path(folder)
    collection = collect(outputs, runs=runs)
    (folder / "configs").mkdir(parents=True, exist_ok=True)
    symmetry = collection.symmetry
    if not symmetry.empty:  # hidden layers explain a result and are not one
        symmetry = symmetry[symmetry["quantity"].isin(("inputs", "answer"))]
    for name, frame in (("runs", collection.runs), ("length", collection.lengths), ("symmetry", symmetry)):
        text = frame.drop(columns=["group", "setting"], errors="ignore").to_csv(
            index=False, lineterminator="\n"
        )
        write_atomic(folder / f"{name}.csv", text.encode())
    write_atomic(folder / "summary.md", summary(collection).encode())
    for run in collection.runs["run"]:
        write_atomic(
            folder / "configs" / f"{run}.yaml", RunFolder(outputs / "runs" / run).config_file.read_bytes()
        )
    return folder


def summary(collection: Collection) -> str:
    """Accuracy against length and equivariance errors as Markdown tables."""
    return "\n".join(line for section in analyse(collection) for line in _section(section))


def _section(section: Section) -> list[str]:
    return [
        f"## {section.setting.title}",
        "",
        *(_lengths(section) if section.measures else []),
        *(_symmetry(section) if section.symmetry else []),
    ]


def _lengths(section: Section) -> list[str]:
    measure = MEASURES[section.measures[0]].capitalize()
    fewest, most = section.fewest_seeds, section.most_seeds
    seeds = seeds_word(most) if fewest == most else f"{fewest} to {seeds_word(most)}"
    provisional = f" (provisional: a verdict needs {VERDICT_SEEDS})" if fewest < VERDICT_SEEDS else ""
    rows = []
    for group in section.groups:
        curve = section.curve(group, "all")
        cells = [_cell(curve.estimates.get(n) if curve else None, len(group.runs)) for n in section.lengths]
        rows.append(f"| {group.label} | {' | '.join(cells)} |")
    head = (
        f"{measure} in %, mean ± half-width of the 95 % interval ([low, high] where it ends at 0 or 100), "
        f"n = {seeds}{provisional}."
    )
    if any("| – |" in row for row in rows):
        head += " –: not tested at that length, or not defined there."
    return [head, "", *_rows(["encoding", *map(str, section.lengths)]), *rows, ""]


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
