"""Numbers and lists as they stand in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lengthwise.report.statistics import Estimate

NBSP = "\u00a0"
"""A figure and its unit stay on one line."""


def percent(value: float) -> str:
    return f"{100 * value:.1f}{NBSP}%"


def bracket(low: float | None, high: float | None) -> str:
    """`` [low, high]`` in percent, or nothing."""
    return "" if low is None or high is None else f" [{100 * low:.1f},{NBSP}{100 * high:.1f}]"


def spread(at: Estimate, plus_minus: str) -> str:
    """`plus_minus` and the half-width in percent, ``[low, high]`` where the interval is cut off, or nothing."""
    if at.low is None or at.high is None or at.half_width is None:
        return ""
    if not at.cut_off:
        return f"{plus_minus}{100 * at.half_width:.1f}"
    low, high = (f"{100 * end:.0f}" if end in (0, 1) else f"{100 * end:.1f}" for end in (at.low, at.high))
    return f"[{low}, {high}]"


def fewer_seeds(at: Estimate, seeds: int) -> str:
    """``(1 seed)`` where not all `seeds` are behind an estimate, or nothing."""
    return "" if at.n == seeds else f"({seeds_word(at.n)})"


def listed(words: Iterable[Any]) -> str:
    """``a, b and c``."""
    items = [str(word) for word in words]
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]])) if items else ""


def seeds_word(n: int) -> str:
    return f"{n} seed" if n == 1 else f"{n} seeds"


def p_word(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
