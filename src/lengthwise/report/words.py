"""Numbers and lists as they stand in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lengthwise.report.statistics import VERDICT_SEEDS, Contrast, Estimate

NBSP = "\u00a0"
"""A figure and its unit stay on one line."""

_LONG = 14
"""A list of more is cut: the tables have them all."""


def percent(value: float) -> str:
    return f"{100 * value:.1f}{NBSP}%"


def bracket(low: float | None, high: float | None) -> str:
    """`` [low, high]`` in percent, or nothing."""
    if low is None or high is None:
        return ""
    return f" [{100 * low:.1f},{NBSP}{100 * high:.1f}]".replace("-", "−")


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
    """``a, b and c``; of a long list the first five and how many more."""
    items = [str(word) for word in words]
    if len(items) > _LONG:
        items = [*items[:5], f"{len(items) - 5} more"]
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]])) if items else ""


def counted(n: int, what: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def seeds_word(n: int, most: int | None = None) -> str:
    """``3 seeds``, or ``3 to 15 seeds``."""
    return counted(n, "seed") if most in (None, n) else f"{n} to {most} seeds"


def p_word(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def signed(value: float) -> str:
    """A difference in points with its sign: ``+3.0``, ``−1.2``."""
    return f"{100 * value:+.1f}".replace("-", "−")


def margin(value: float) -> str:
    """``±2 points``."""
    return f"±{100 * value:g}{NBSP}points"


_MIXED = "some seeds succeed and others fail"


def verdict(contrast: Contrast) -> str:
    """``higher``, ``lower``, ``alike within ±2 points for seeds like these`` or ``not resolved with 3 seeds``;
    *provisional* below ten."""
    said = []
    if contrast.resolved:
        said.append("higher" if contrast.difference > 0 else "lower")
    if contrast.alike and contrast.alike_within is not None:
        said.append(f"alike within {margin(contrast.alike_within)} for seeds like these")
    why = f": {_MIXED}" if contrast.close and contrast.mixed else f" with {seeds_word(contrast.n)}"
    text = ", yet ".join(said) or f"not resolved{why}"
    return f"{text}, provisional" if contrast.n < VERDICT_SEEDS else text


def share(value: float) -> str:
    """A normalised accuracy: ``0.87``, ``−0.02``."""
    return f"{value:.2f}".replace("-", "−")


def _why_not_alike(contrast: Contrast) -> str:
    """What keeps two variants from being called alike although their means are close."""
    if not contrast.close:
        return ""
    return f" ({_MIXED})" if contrast.mixed else f" (that takes {VERDICT_SEEDS} seeds)"


LATER = "added or changed after the runs began, hence exploratory"


def stated_when(contrasts: Sequence[Contrast]) -> str:
    """Of the contrasts of a study: before its runs only where that is on record of all."""
    return "stated before the runs" if all(c.at_start for c in contrasts) else "stated in the study"


def sentence(contrast: Contrast) -> str:
    """One contrast in words."""
    a, b = contrast.a, contrast.b
    where = f"At length {contrast.at}, " if contrast.at is not None else ""
    size = f"{signed(contrast.difference)} points{bracket(contrast.low, contrast.high)}"
    if contrast.p_holm is None:
        return f"{where}{a} − {b}: {size}; one seed has no interval."
    within = "" if contrast.alike_within is None else margin(contrast.alike_within)
    said = []
    if contrast.resolved:
        said.append(f"{a} is {'above' if contrast.difference > 0 else 'below'} {b}")
    if contrast.alike:
        said.append(f"{'' if said else f'{a} and {b} are '}alike within {within} for seeds like these")
    text = ", yet ".join(said) or f"{a} − {b} is not resolved with {seeds_word(contrast.n)}"
    if within and not said:
        text += f", nor that they are alike within {within}{_why_not_alike(contrast)}"
    r = "" if contrast.correlation is None else f", r = {contrast.correlation:.2f}".replace("-", "−")
    alike = "" if contrast.p_alike_holm is None else f", alike {p_word(contrast.p_alike_holm)}"
    if contrast.alike:
        alike += f"; up to {100 * contrast.others:.0f}{NBSP}% of seeds may do otherwise"
    basis = f"({contrast.n} paired seeds{r}, Holm-corrected {p_word(contrast.p_holm)}{alike})"
    state = ", provisional" if contrast.n < VERDICT_SEEDS else ""
    state += f", {LATER}" if contrast.at_start is False else ""
    return f"{where}{text}: {size} {basis}{state}."
