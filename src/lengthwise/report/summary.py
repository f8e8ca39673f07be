"""The same findings as tables in a terminal; plain text where the output is not one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lengthwise.report.analysis import (
    AFTER,
    BEFORE,
    DTYPES,
    MEASURES,
    PERPLEXITIES,
    STRATA,
    Section,
    estimate,
    permutation_rows,
    scores_in_distribution,
)
from lengthwise.report.collect import Group, Problem
from lengthwise.report.findings import findings
from lengthwise.report.notes import section_notes
from lengthwise.report.statistics import VERDICT_SEEDS, Estimate
from lengthwise.report.study import Part, Studies, parts_of
from lengthwise.report.words import fewer_seeds, seeds_word, spread
from lengthwise.runs import format_lengths

_PLAIN_WIDTH = 130
_STRATA_LENGTHS = 4
"""The longest so many are shown by where the evidence lies: two columns each."""


def print_summary(
    outputs: str | Path,
    *,
    runs: Sequence[str] | None = None,
    study: Mapping[str, Any] | None = None,
    studies: Studies | None = None,
    console: Console | None = None,
) -> None:
    """Accuracy by length, by where the evidence lies, equivariance errors, and what they say; study by study.

    Raises RunError if there is no run.
    """
    console = console or _console()
    parts = parts_of(outputs, runs=runs, study=study, studies=studies)
    for part in parts:
        if len(parts) > 1:
            console.print()
            console.print(
                Text(f"{part.title}: {part.study.get('question') or ''}".strip(), style="bold cyan")
            )
        _part(part, console)
    problems = list(dict.fromkeys(problem for part in parts for problem in part.collection.problems))
    notes = list(dict.fromkeys(note for part in parts for note in part.collection.notes))
    _problems(problems, notes, console)


def _part(part: Part, console: Console) -> None:
    for section in part.sections:
        console.print()
        console.print(Text(section.setting.title, style="bold"))
        if section.measures:
            console.print(_compared(section, console) if section.trained_only else _lengths(section, console))
            if (beyond := _beyond(section)) and any(stratum in STRATA for _, _, stratum in section.curves):
                console.print(_strata(section, beyond, console))
        if section.bins:
            console.print(_bins(section, console))
        if section.perplexities:
            console.print(_perplexities(section, console))
        if section.symmetry:
            console.print(_symmetry(section, console))
        for finding in findings(section):
            console.print(Text.assemble(("• ", "dim"), (f"{finding.about}: ", "bold"), finding.text))
        for note in section_notes(section):
            console.print(Text(f"• {note}", style="dim"))
        if 0 < section.fewest_seeds < VERDICT_SEEDS:
            seeds = seeds_word(section.fewest_seeds)
            console.print(
                Text(
                    f"• With {seeds} all of this is provisional; a verdict needs {VERDICT_SEEDS}.",
                    style="yellow",
                )
            )


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_PLAIN_WIDTH)


def _table(title: str, console: Console) -> Table:
    shape = box.ROUNDED if console.is_terminal else box.SIMPLE_HEAD
    return Table(title=Text(title), title_justify="left", box=shape, safe_box=True, padding=(0, 1, 0, 0))


def _lengths(section: Section, console: Console) -> Table:
    measure = MEASURES[section.measures[0]].capitalize()
    interval = "its 95 % interval as ± half-width, or [low, high] where it ends at 0 or 100"
    table = _table(f"{measure} in %, mean over seeds; {interval}", console)
    table.add_column("encoding", no_wrap=True)
    table.add_column(
        f"trained ({format_lengths(section.compared_lengths) or 'none shared'})", justify="right"
    )
    others = [length for length in section.lengths if length not in section.trained_lengths]
    for length in others:
        table.add_column(str(length), justify="right")
    table.add_column("n", justify="right")
    for group in section.groups:
        trained = scores_in_distribution(section, group)
        first = _cell(estimate(trained) if trained else None, len(group.runs))
        cells = [first, *_cells(section, group, "all", others)]
        table.add_row(Text(group.label), *cells, str(len(group.runs)))
    return table


def _compared(section: Section, console: Console) -> Table:
    """Over the trained lengths, where nothing longer was tested."""
    measure = MEASURES[section.measures[0]].capitalize()
    table = _table(
        f"{measure} in % over the tested lengths {format_lengths(section.compared_lengths)}", console
    )
    table.add_column("variant", no_wrap=True)
    for name in ("mean", "95 % interval", "each seed", "n"):
        table.add_column(name, justify="right")
    for group in section.groups:
        at = estimate(scores) if (scores := scores_in_distribution(section, group)) else None
        table.add_row(
            Text(group.label),
            f"{100 * at.mean:.1f}" if at else "–",
            spread(at, "± ") if at else "–",
            ", ".join(f"{100 * point:.1f}" for point in at.points) if at else "–",
            str(len(group.runs)),
        )
    return table


def _beyond(section: Section) -> list[int]:
    """The longest of the compared lengths beyond training."""
    lengths = section.shared_lengths if section.longest_shared else section.lengths
    return [n for n in lengths if n > section.longest_trained][-_STRATA_LENGTHS:]


def _strata(section: Section, beyond: Sequence[int], console: Console) -> Table:
    table = _table("The same by where the evidence lies: inside | outside the trained positions", console)
    table.add_column("encoding", no_wrap=True)
    for length in beyond:
        for name in STRATA.values():
            table.add_column(f"{length} {name}", justify="right")
    for group in section.groups:
        by_stratum = [_cells(section, group, stratum, beyond) for stratum in STRATA]
        table.add_row(Text(group.label), *(cell for pair in zip(*by_stratum, strict=True) for cell in pair))
    return table


def _bins(section: Section, console: Console) -> Table:
    names = section.bin_names
    table = _table("Over bins of lengths, in %, mean over seeds", console)
    table.add_column("encoding", no_wrap=True)
    table.add_column("measure")
    for name in names:
        table.add_column(name.removeprefix("bin_"), justify="right")
    for group in section.groups:
        for measure, worded in MEASURES.items():
            curves = [section.bins.get((group.key, measure, name)) for name in names]
            cells = [_cell(c.estimates[c.lengths[0]] if c else None, len(group.runs)) for c in curves]
            table.add_row(Text(group.label), worded, *cells)
    return table


def _perplexities(section: Section, console: Console) -> Table:
    lengths = sorted({length for at in section.perplexities.values() for length in at})
    table = _table("Perplexity by context length, mean over seeds", console)
    table.add_column("encoding", no_wrap=True)
    table.add_column("tested in")
    for length in lengths:
        table.add_column(str(length), justify="right")
    for group in section.groups:
        for stratum, worded in PERPLEXITIES.items():
            at = section.perplexities.get((group.key, stratum), {})
            table.add_row(
                Text(group.label), worded, *(f"{at[n].mean:.3f}" if n in at else "–" for n in lengths)
            )
    return table


def _cells(section: Section, group: Group, stratum: str, lengths: Sequence[int]) -> list[str]:
    curve = section.curve(group, stratum)
    return [_cell(curve.estimates.get(length) if curve else None, len(group.runs)) for length in lengths]


def _cell(at: Estimate | None, seeds: int) -> str:
    if at is None:
        return "–"
    return "\n".join(filter(None, [f"{100 * at.mean:.1f}", spread(at, "±"), fewer_seeds(at, seeds)]))


def _symmetry(section: Section, console: Console) -> Table:
    table = _table(
        "Error under random permutations of the inputs, relative to ‖f(x)‖, mean over seeds", console
    )
    table.add_column("encoding")
    for moment in (BEFORE, AFTER):
        for name in DTYPES.values():
            table.add_column(f"{name} {moment}", justify="right")
    table.add_column("÷ ‖f(x)−f(x′)‖ after", justify="right")
    table.add_column("equivariance")
    for row in permutation_rows(section):
        errors = [row.error.get((moment, kind)) for moment in (BEFORE, AFTER) for kind in DTYPES]
        errors.append(row.difference.get((AFTER, "float64")))
        verdict = row.measured + (f", {row.verdict}" if row.verdict else "")
        table.add_row(Text(row.group.label), *("–" if e is None else f"{e:.1e}" for e in errors), verdict)
    return table


def _problems(problems: Sequence[Problem], notes: Sequence[str], console: Console) -> None:
    for note in notes:
        console.print(Text(f"• {note}"))
    if problems:
        console.print(Text("\nRuns that are not, or only in part, in these figures:", style="bold"))
        for problem in problems:
            console.print(Text(f"  {problem.run}: {problem.state}: {problem.reason}"))
