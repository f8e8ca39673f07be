"""``summary.tex``: the tables of a study to be printed, with booktabs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lengthwise.report.blind import best_blind_lines
from lengthwise.report.comparison import estimate, scores_in_distribution
from lengthwise.report.markdown import cell, heading
from lengthwise.report.notes import section_notes
from lengthwise.report.section import DTYPES, Section
from lengthwise.report.study import Part
from lengthwise.report.symmetry import AFTER, BEFORE, permutation_rows
from lengthwise.report.words import bracket, p_word, seeds_word, signed, stated_when, verdict
from lengthwise.runs import format_lengths

_MOST_LENGTHS = 8
"""Columns that a page is wide enough for; accuracy.csv has every length."""

_LETTERS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "\u00a0": "~", "−": "$-$", "±": r"$\pm$", "×": r"$\times$",
    "‖": r"$\|$", "′": "$'$", "–": "--", "…": r"\dots{}",
}  # fmt: skip


def latex(part: Part) -> str:
    """Accuracy against length, or over the trained lengths; contrasts; equivariance errors: one table each."""
    tables = [table for section in part.sections for table in _tables(section)]
    return (
        "\n\n".join(["% \\usepackage{booktabs} (and, for quotation marks in names, [T1]{fontenc})", *tables])
        + "\n"
    )


def escape(text: str) -> str:
    """Any text as LaTeX that prints it; line breaks and other control characters become spaces."""
    plain = re.sub(r"[\s\x00-\x1f\x7f]+", lambda found: "\u00a0" if found[0] == "\u00a0" else " ", text)
    return "".join(_LETTERS.get(letter, letter) for letter in plain)


def _tables(section: Section) -> Iterator[str]:
    title = section.setting.title
    if section.measures:
        yield _compared(section, title) if section.trained_only else _lengths(section, title)
    if section.contrasts:
        yield _contrasts(section, title)
    if section.symmetry:
        yield _symmetry(section, title)
    if notes := section_notes(section):
        items = [f"\\item {escape(note)}" for note in notes]
        yield "\n".join([rf"\noindent {escape(title)}:", r"\begin{itemize}", *items, r"\end{itemize}"])


def _lengths(section: Section, title: str) -> str:
    lengths = _chosen(section)
    rows = []
    for group in section.groups:
        curve = section.curve(group)
        rows.append(
            [
                group.label,
                *(cell(curve.estimates.get(n) if curve else None, len(group.runs)) for n in lengths),
            ]
        )
    for name, blind in best_blind_lines(section) if section.measures[0] == "token_accuracy" else ():
        rows.append([name, *(f"{100 * blind[n]:.1f}" if n in blind else "–" for n in lengths)])
    more = "" if len(lengths) == len(section.lengths) else " Some of the tested lengths."
    return _table(f"{title}. {heading(section)}{more}", ["", *map(str, lengths)], rows)


def _chosen(section: Section) -> list[int]:
    """All lengths, or of more than fit the longest trained one, the longest of all, and some between."""
    lengths = section.lengths
    if len(lengths) <= _MOST_LENGTHS:
        return lengths
    inside = [n for n in lengths if n <= section.longest_trained][-1:]
    beyond = [n for n in lengths if n > section.longest_trained] or lengths
    count = _MOST_LENGTHS - len(inside)
    steps = range(count) if len(beyond) > count else range(len(beyond))
    last = max(len(steps) - 1, 1)
    return sorted({*inside, *(beyond[round(step * (len(beyond) - 1) / last)] for step in steps)})


def _compared(section: Section, title: str) -> str:
    rows = []
    for group in section.groups:
        at = estimate(scores) if (scores := scores_in_distribution(section, group)) else None
        seeds = ", ".join(f"{100 * point:.1f}" for point in at.points) if at else "–"
        rows.append([group.label, cell(at, len(group.runs)), seeds])
    where = f" over the tested lengths {format_lengths(section.compared_lengths)}"
    return _table(f"{title}. {heading(section, where)}", ["", "accuracy", "each seed"], rows)


def _contrasts(section: Section, title: str) -> str:
    rows = [
        [
            f"{c.a} − {c.b}" + (" (added later)" if c.at_start is False else ""),
            "trained" if c.at is None else str(c.at),
            f"{signed(c.difference)}{bracket(c.low, c.high)}", str(c.n),
            "–" if c.p_holm is None else p_word(c.p_holm).removeprefix("p = ").removeprefix("p "),
            verdict(c),
        ]
        for c in section.contrasts
    ]  # fmt: skip
    how = (
        stated_when(section.contrasts)
        if section.stated
        else "exploratory: the reference was picked afterwards"
    )
    caption = (
        f"{title}. Differences in points with their 95 % intervals, paired over n seeds ({how}); p corrected by "
        "Holm's method."
    )
    return _table(caption, ["contrast", "length", "difference", "n", "p", "verdict"], rows, left=(0, 5))


def _symmetry(section: Section, title: str) -> str:
    moments = [(moment, kind) for moment in (BEFORE, AFTER) for kind in DTYPES]
    rows = [
        [
            row.group.label,
            *("–" if (error := row.error.get(key)) is None else f"{error:.1e}" for key in moments),
            row.measured,
        ]
        for row in permutation_rows(section)
    ]
    seeds = sorted({row.n for row in permutation_rows(section)})
    caption = (
        f"{title}. Error under random permutations of the inputs, relative to ‖f(x)‖, mean over n = "
        f"{seeds_word(seeds[0], seeds[-1])}."
        if seeds
        else title
    )
    head = ["", *(f"{DTYPES[kind]} {moment}" for moment, kind in moments), "equivariance"]
    return _table(caption, head, rows, left=(0, len(head) - 1))


def _table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> str:
    columns = "".join("l" if index in left else "r" for index in range(len(head)))
    lines = [" & ".join(map(escape, row)) + r" \\" for row in (head, *rows)]
    lines.insert(1, r"\midrule")
    return "\n".join(
        [
            r"\begin{table}", r"\centering", f"\\caption{{{escape(caption)}}}",
            f"\\begin{{tabular}}{{{columns}}}", r"\toprule", *lines, r"\bottomrule", r"\end{tabular}", r"\end{table}",
        ]
    )  # fmt: skip
