"""Of many tested lengths those that a figure, or a table, has room for. What is computed rests on all of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lengthwise.report.analysis import Curve, Section

COLUMNS = 24
"""Lengths of a table."""

POINTS = 60
"""Lengths of a line."""


def sparse(section: Section, most: int) -> Section:
    """The section at about `most` of its lengths; itself where it has no more."""
    kept = kept_lengths(section, most)
    if len(kept) == len(section.lengths):
        return section
    return replace(
        section,
        curves={key: at_lengths(curve, kept) for key, curve in section.curves.items()},
        successes=[success for success in section.successes if success.length in kept],
    )


def kept_lengths(section: Section, most: int) -> frozenset[int]:
    """About `most` of its lengths: evenly spread, and those that anything is said of."""
    told = {min(section.trained_lengths, default=0), section.longest_trained, section.longest_shared}
    told |= {contrast.at for contrast in section.contrasts}
    lengths = section.lengths
    return frozenset([*spread(lengths, most), *(length for length in lengths if length in told)])


def spread(lengths: Sequence[int], most: int) -> list[int]:
    """At most `most` (two or more) of sorted `lengths`, the first and the last among them, evenly on a log scale."""
    if len(lengths) <= most:
        return list(lengths)
    first, last = lengths[0], lengths[-1]
    wanted = [first * (last / first) ** (at / (most - 1)) for at in range(most)]
    found = {
        min(lengths[max(0, at - 1) : at + 1], key=lambda n: abs(n - want))
        for want, at in _places(lengths, wanted)
    }
    return sorted(found | {first, last})


def _places(lengths: Sequence[int], wanted: Sequence[float]) -> list[tuple[float, int]]:
    return [(want, min(bisect_left(lengths, want), len(lengths) - 1)) for want in wanted]


def at_lengths(curve: Curve, kept: Container[int]) -> Curve:
    """The curve at the lengths in `kept` alone."""

    def only(values: Mapping[int, Any]) -> dict[int, Any]:
        return {length: value for length, value in values.items() if length in kept}

    return Curve(
        only(curve.estimates), {seed: only(values) for seed, values in curve.seeds.items()}, only(curve.items)
    )
