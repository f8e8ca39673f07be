"""What a reader of a section must know: who was tested where, what training had seen, what is not defined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lengthwise.evaluation.verdict import NOT_AS_TRAINED
from lengthwise.report.section import Section
from lengthwise.report.symmetry import length_note
from lengthwise.report.words import counted, listed
from lengthwise.runs import format_lengths
from lengthwise.runs.lengths import bin_of

EXACT = "exact"
"""What ``overlap_is`` says of a share that is no lower bound."""


def length_notes(section: Section) -> list[str]:
    longest = section.longest_shared
    if longest is None:
        return ["No length was tested in every run: nothing is compared."]
    notes = []
    trained = set(section.trained_lengths)
    if left := [n for n in section.lengths if n in trained and n not in section.compared_lengths]:
        used = format_lengths(section.compared_lengths)
        notes.append(
            f"Only some of the runs were tested at the trained {_lengths(left)}: "
            + (
                f"means over trained lengths are over {used} alone."
                if used
                else "no mean over them is compared."
            )
        )
    if more := [length for length in section.lengths if length > longest]:
        notes.append(
            f"Only some of the runs were tested at {_lengths(more)}; they are compared at {longest}."
        )
    return notes


def _lengths(lengths: Sequence[int]) -> str:
    return f"length{'' if len(lengths) == 1 else 's'} {listed(lengths)}"


def section_notes(section: Section) -> list[str]:
    """All that is to be said of what the section shows, its symmetries too."""
    return [*section.notes, *filter(None, [length_note(section)])]


_OVERLAPS_SHOWN = 12


def overlap_notes(rows: list[dict[str, Any]]) -> list[str]:
    """The largest share, over the runs, of test inputs that training had seen too."""
    found: dict[tuple[int, int], tuple[float, bool]] = {}  # (shortest, longest) -> share, whether it is exact
    for row in rows:
        if row.get("train_overlap", 0) > 0:
            lengths = bin_of(row.get("stratum")) or (int(row["length"]), int(row["length"]))
            now = (row["train_overlap"], row.get("overlap_is") == EXACT)
            found[lengths] = max(found.get(lengths, now), now, key=lambda one: one[0])
    if not found:
        return []
    shown = [
        f"{'' if exact else 'at least '}{100 * share:.1f} % at {low if low == high else f'{low}-{high}'}"
        for (low, high), (share, exact) in sorted(found.items())
    ]
    left = len(shown) - _OVERLAPS_SHOWN
    more = f" and others at {counted(left, 'more length')}" if left > 0 else ""
    return [
        f"Test inputs that training had seen too, in the run that had seen the most: "
        f"{', '.join(shown[:_OVERLAPS_SHOWN])}{more}."
    ]


def flag_notes(section: Section) -> list[str]:
    notes = []
    if other := sorted({n for flags in section.flags.values() for n in flags.get(NOT_AS_TRAINED, [])}):
        notes.append(
            f"What is tested at length {listed(other)} is drawn otherwise than in training, and counts as beyond it."
        )
    for group in section.groups:
        for flag, lengths in section.flags.get(group.key, {}).items():
            where = f"at length {listed(lengths)}"
            if flag == NOT_AS_TRAINED:
                continue
            if flag == "untrained_positions":
                notes.append(
                    f"{group.label}: positions past those of the longest trained input ({section.longest_trained} "
                    f"symbols) were never trained; they are in use {where}."
                )
            elif flag == "not_defined":
                notes.append(f"{group.label}: cannot represent such inputs {where}; no figure there.")
            else:
                notes.append(f"{group.label}: {flag.replace('_', ' ')} {where}.")
    return notes
