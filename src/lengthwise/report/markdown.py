"""``summary.md``: what the runs say as tables and sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lengthwise.report.blind import best_blind_lines
from lengthwise.report.comparison import estimate, headlines, scores_in_distribution
from lengthwise.report.notes import section_notes
from lengthwise.report.published import Beside
from lengthwise.report.section import DTYPES, MEASURES, Section
from lengthwise.report.statistics import VERDICT_SEEDS, Estimate
from lengthwise.report.study import Part
from lengthwise.report.symmetry import AFTER, BEFORE, permutation_rows
from lengthwise.report.words import bracket, fewer_seeds, seeds_word, sentence, share, spread, stated_when
from lengthwise.runs import format_lengths


def markdown(part: Part) -> str:
    """Accuracy against length, or over the trained lengths; contrasts; published figures; equivariance errors."""
    notes = [f"- {escape(note)}" for note in part.collection.notes]
    return "\n".join([*(line for section in part.sections for line in _section(section)), *notes])


def _section(section: Section) -> list[str]:
    accuracy = _compared(section) if section.trained_only else _lengths(section) if section.measures else []
    return [
        f"## {section.setting.title}",
        "",
        *accuracy,
        *_headlines(section),
        *_contrasts(section),
        *(line for beside in section.published for line in _published(beside)),
        *(_symmetry(section) if section.symmetry else []),
        *(f"- {escape(note)}" for note in section_notes(section)),
        *([""] if section_notes(section) else []),
    ]


def _lengths(section: Section) -> list[str]:
    rows = []
    for group in section.groups:
        curve = section.curve(group, "all")
        cells = [cell(curve.estimates.get(n) if curve else None, len(group.runs)) for n in section.lengths]
        rows.append(_row([group.label, *cells]))
    head = heading(section)
    if any("| – |" in row for row in rows):
        head += " –: not tested at that length, or not defined there."
    for name, blind in best_blind_lines(section) if section.measures[0] == "token_accuracy" else ():
        best = [f"{100 * blind[n]:.1f}" if n in blind else "–" for n in section.lengths]
        rows.append(_row([f"*{name}*", *best]))
    return [head, "", *_head(["encoding", *map(str, section.lengths)]), *rows, ""]


def _compared(section: Section) -> list[str]:
    """Over the trained lengths, where nothing longer was tested: a row a variant, with each seed."""
    rows = []
    for group in section.groups:
        at = estimate(scores) if (scores := scores_in_distribution(section, group)) else None
        seeds = ", ".join(f"{100 * point:.1f}" for point in at.points) if at else "–"
        rows.append(_row([group.label, cell(at, len(group.runs)), seeds]))
    head = heading(section, f" over the tested lengths {format_lengths(section.compared_lengths)}")
    return [head, "", *_head(["variant", "accuracy", "each seed"]), *rows, ""]


def heading(section: Section, where: str = "") -> str:
    """What the cells of a table of accuracies are."""
    measure = MEASURES[section.measures[0]].capitalize()
    fewest = section.fewest_seeds
    seeds = seeds_word(fewest, section.most_seeds)
    provisional = f" (provisional: a verdict needs {VERDICT_SEEDS})" if fewest < VERDICT_SEEDS else ""
    return (
        f"{measure} in %{where}, mean ± half-width of the 95 % interval ([low, high] where it ends at 0 or 100), "
        f"n = {seeds}{provisional}."
    )


def cell(at: Estimate | None, seeds: int) -> str:
    """``87.2 ± 3.1``, with the number of seeds where it is not all of `seeds`."""
    if at is None:
        return "–"
    return " ".join(filter(None, [f"{100 * at.mean:.1f}", spread(at, "± "), fewer_seeds(at, seeds)]))


def _headlines(section: Section) -> list[str]:
    rows = []
    for one in headlines(section):
        part = "–" if one.normalised is None else share(one.normalised)
        success = "–"
        if one.success:
            success = (
                f"{one.success.successes} of {one.success.n}{bracket(one.success.low, one.success.high)}"
            )
        rows.append(_row([one.group.label, part, f"{100 * one.at.best:.1f}", success]))
    if not rows:
        return []
    words = (
        f"At length {section.compared_at}: the share of what a variant's best blind rule leaves, "
        "(accuracy − b) / (1 − b); the best seed; seeds with an exact match of 90 % or more, and the exact 95 % "
        "interval of that probability in %."
    )
    return [words, "", *_head(["encoding", "normalised", "best seed", "seeds that succeed"]), *rows, ""]


def _contrasts(section: Section) -> list[str]:
    if not section.contrasts:
        return []
    how = (
        stated_when(section.contrasts)
        if section.stated
        else "picked after seeing the results, hence exploratory"
    )
    return [
        f"Paired over seeds, {how}:",
        "",
        *(f"- {escape(sentence(contrast))}" for contrast in section.contrasts),
        "",
    ]


def _published(beside: Beside) -> list[str]:
    table = beside.table
    rows = [_row([row.label, *(cell(at, row.n) for at in row.cells), str(row.n)]) for row in beside.ours]
    for reference in beside.references:
        figures = (figure.text if figure else "–" for figure in reference.cells)
        rows.append(_row([f"{reference.row.encoding} (published)", *figures, str(table.seeds or "–")]))
    notes = [
        f"{reference.row.encoding}: {'; '.join(filter(None, [reference.row.note, *reference.differs]))}."
        for reference in beside.references
        if reference.row.note or reference.differs
    ]
    return [
        f"Published, beside ours: {table.task}, {table.measure.replace('_', ' ')} in {table.unit}. "
        f"{table.paper}; {table.where}. {table.basis.capitalize()}; trained on {table.trained}. {table.protocol}.",
        "",
        *_head(["tested on", *beside.columns, "seeds"]),
        *rows,
        "",
        *(f"- {escape(note)}" for note in notes),
        *([""] if notes else []),
    ]


def _symmetry(section: Section) -> list[str]:
    lines = ["Error under random permutations of the inputs, relative to ‖f(x)‖, mean over seeds.", ""]
    moments = [(moment, kind) for moment in (BEFORE, AFTER) for kind in DTYPES]
    lines += _head(
        ["encoding", *(f"{DTYPES[kind]} {moment} training" for moment, kind in moments), "equivariance"]
    )
    for row in permutation_rows(section):
        errors = [row.error.get(key) for key in moments]
        cells = ["–" if error is None else f"{error:.1e}" for error in errors]
        lines.append(_row([row.group.label, *cells, row.measured]))
    return [*lines, ""]


def escape(text: str) -> str:
    """A label as one cell of one line."""
    return re.sub(r"[^\S\u00a0]+", " ", text).replace("|", "\\|")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


def _head(header: Sequence[str]) -> list[str]:
    return [_row(header), f"|---{'|---:' * (len(header) - 1)}|"]
