"""Variants compared: their scores over seeds, contrasts, successes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lengthwise.evaluation.verdict import SUCCESS
from lengthwise.report.collect import Group
from lengthwise.report.section import Section, Success
from lengthwise.report.statistics import (
    Contrast,
    Estimate,
    exact_interval,
    holm,
    paired_contrast,
    seed_interval,
)
from lengthwise.report.words import counted
from lengthwise.sweeps.contrasts import Stated

Scores = dict[Any, tuple[float, int]]
"""seed -> (accuracy, test sequences behind it)."""


def scores_at(section: Section, group: Group, length: int | None, stratum: str = "all") -> Scores:
    """Each seed's accuracy at `length`; None = over the trained lengths."""
    if length is None:
        return scores_in_distribution(section, group)
    return scores_over(section, group, [length], stratum=stratum)


def scores_in_distribution(section: Section, group: Group) -> Scores:
    """Each seed's mean over `Section.compared_lengths`."""
    curve = section.curve(group)
    return scores_over(
        section, group, [n for n in section.compared_lengths if n in curve.estimates] if curve else []
    )


def scores_over(
    section: Section,
    group: Group,
    lengths: Sequence[int],
    *,
    stratum: str = "all",
    measure: str | None = None,
) -> Scores:
    """The mean over `lengths` of each seed that was tested at all of them; nothing without a length.

    The items of all lengths count together: the mean of p(1 - p) over lengths is at most that of the mean p.
    """
    curve = section.curve(group, stratum, measure)
    if curve is None or not lengths:
        return {}
    return {
        seed: (sum(at[n] for n in lengths) / len(lengths), sum(curve.items[n] for n in lengths))
        for seed, at in curve.seeds.items()
        if all(n in at for n in lengths)
    }


def estimate(scores: Scores) -> Estimate:
    return seed_interval([value for value, _ in scores.values()], [items for _, items in scores.values()])


def compare(section: Section, stated: Sequence[Stated]) -> None:
    """The contrasts the study states; without any, each group against the best at the longest length of all.

    What a study states is corrected for by `correct`, all of it together; what it does not, here.
    """
    if stated:
        section.stated = True
        for contrast in stated:
            found = _stated_pair(section, contrast)
            section.contrasts += found
            if not any(one.p is not None for one in found):
                section.unanswered += 1 if contrast.alike_within is None else 2
        answered = sum(one.p is not None for one in section.contrasts)
        if section.unanswered:
            section.notes.append(
                f"Of {counted(len(stated), 'contrast')} that the study states {answered} "
                f"{'is' if answered == 1 else 'are'} answered here; Holm's correction counts all of them."
            )
    elif section.longest_shared is not None:
        length = section.compared_at
        ranked = [group for _, group in ranking(section, length)]
        section.contrasts = holm(
            [pair for other in ranked[1:] for pair in _paired(section, ranked[0], other, length)]
        )


def correct(sections: Iterable[Section]) -> None:
    """Holm's correction within a study: all contrasts that it states are one family, in every section, answered or
    not. Were those that cannot be answered left out, runs that fail would make the others significant."""
    sections = [section for section in sections if section.stated]
    unanswered = sum(section.unanswered for section in sections)
    corrected = iter(holm([contrast for section in sections for contrast in section.contrasts], unanswered))
    for section in sections:
        section.contrasts = [next(corrected) for _ in section.contrasts]


def _stated_pair(section: Section, contrast: Stated) -> list[Contrast]:
    a, b = _group_named(section, contrast.a), _group_named(section, contrast.b)
    length = contrast.at_length or section.compared_at
    if a is None or b is None:
        missing = contrast.a if a is None else contrast.b
        section.notes.append(
            f"The study contrasts {missing}, which is not (or not uniquely) among these runs."
        )
        return []
    pairs = _paired(section, a, b, length, contrast.alike_within)
    if not pairs:
        where = f"at length {length}" if length else "over the trained lengths"
        tested = all(scores_at(section, group, length) for group in (a, b))
        section.notes.append(
            f"{a.label} and {b.label}, which the study contrasts, share no {'seed' if tested else 'test'} {where}."
        )
    return [replace(pair, at_start=contrast.at_start) for pair in pairs]


def _paired(
    section: Section, a: Group, b: Group, length: int | None, alike_within: float | None = None
) -> list[Contrast]:
    left, right = scores_at(section, a, length), scores_at(section, b, length)
    if not left.keys() & right.keys():
        return []
    return [paired_contrast(left, right, names=(a.label, b.label), at=length, alike_within=alike_within)]


def _group_named(section: Section, name: str) -> Group | None:
    exact = [group for group in section.groups if group.label == name]
    by_encoding = [group for group in section.groups if group.encoding == name]
    candidates = exact or by_encoding
    return candidates[0] if len(candidates) == 1 else None


def ranking(section: Section, length: int | None) -> list[tuple[float, Group]]:
    """(mean, group) at `length` (None = over the trained lengths), highest first."""
    found = [(scores_at(section, group, length), group) for group in section.groups]
    means = [(estimate(scores).mean, group) for scores, group in found if scores]
    return sorted(means, key=lambda pair: -pair[0])


def successes(section: Section) -> list[Success]:
    """How many seeds succeed, for each group and length."""
    found = []
    measure = "exact_match" if "exact_match" in section.measures else section.measures[0]
    for group in section.groups:
        curve = section.curve(group, measure=measure)
        for length, at in (curve.estimates if curve else {}).items():
            right = sum(point >= SUCCESS for point in at.points)
            found.append(Success(group, length, right, at.n, *exact_interval(right, at.n)))
    return found


def normalised(accuracy: float, blind: float | None) -> float | None:
    """Of what the best blind rule leaves to be gained, the share that is: (accuracy - blind) / (1 - blind).

    0 is blind, 1 is perfect; below 0 is worse than blind. None without such a rule, or where it is perfect.
    """
    return None if blind is None or blind >= 1 else (accuracy - blind) / (1 - blind)


def blind_at(section: Section, group: Group, length: int, measure: str) -> float | None:
    """The accuracy of the group's best blind rule; None for exact match, of which none is known."""
    return section.best_blind(group).get(length) if measure == "token_accuracy" else None


@dataclass(frozen=True)
class Headline:
    """One group where variants are compared; `normalised` is of the mean."""

    group: Group
    at: Estimate
    normalised: float | None
    success: Success | None


def headlines(section: Section) -> list[Headline]:
    """One a group at the length at which variants are compared; none where only trained lengths were tested."""
    length = section.compared_at
    if length is None:
        return []
    succeeded = {s.group.key: s for s in section.successes if s.length == length}
    found = []
    for group in section.groups:
        if scores := scores_at(section, group, length):
            at = estimate(scores)
            share = normalised(at.mean, blind_at(section, group, length, section.measures[0]))
            found.append(Headline(group, at, share, succeeded.get(group.key)))
    return found
