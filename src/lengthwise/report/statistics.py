"""Intervals, exact proportions, paired contrasts and equivalence over seeds.

The model behind every interval of an accuracy. Seed s, test item i (all seeds share the test items):

    y_si = mu + a_s + b_i + e_si,          a: seed,  b: item,  e: the rest,

so the mean over S seeds and n items has variance  var(a)/S + var(b)/n + var(e)/(S n).  The sample variance V of the
seeds' accuracies estimates var(a) + var(e)/n, so V/S covers the first and the last term; what it cannot see is
var(b)/n, because all seeds answer the same items. Only counts are recorded, not each item's answer, hence the upper
bound  var(b) <= p(1 - p)  (with Agresti and Coull's p, two successes and two failures added: n of n right is not
certainty). The two parts have different degrees of freedom and are joined by their half-widths in quadrature
(modified large-sample limits; Graybill and Wang, JASA 1980):

    half-width = sqrt( t(S-1)^2 V/S  +  z^2 p(1 - p)/n ),

never narrower than the t interval over seeds, and equal to it as n grows. Its coverage is checked by simulation in
the tests. Where answers have several tokens, n is the number of sequences: the mean of a sequence has at most the
variance of a single draw. There is no bootstrap: with fewer than ten seeds it is too narrow.

Tests invert these intervals. A difference is resolved where its interval excludes 0; two variants are alike within a
margin stated beforehand where the interval of 90 % lies within it (two one-sided tests; Schuirmann, J. Pharmacokinet.
Biopharm. 1987). Both kinds are one family for Holm's correction (Scand. J. Statist. 1979). docs/statistics.md says
more.

All of it takes seeds to scatter evenly. Where few seeds fail and the others succeed, those that were trained may all
have succeeded: the interval then has no width to cover the failures with, and no test of the mean can know of them.
The tests measure how far the coverage falls. Hence variants are called alike only from ten seeds that all succeed or
all fail, and only for seeds like these, with the share of others that there may be (`Contrast.others`).
"""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import optimize, special, stats
from statsmodels.stats.multitest import multipletests

from lengthwise.evaluation.verdict import SUCCESS

VERDICT_SEEDS = 10
"""Below this number of seeds a finding is *provisional*."""

ALPHA = 0.05
"""A corrected p below it resolves."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds. `low` and `high` are None where there is no interval (fewer than two seeds)."""

    mean: float
    low: float | None
    high: float | None
    n: int
    points: tuple[float, ...]

    @property
    def half_width(self) -> float | None:
        """The larger side (an interval cut off at 0 or 1 is lopsided)."""
        if self.low is None or self.high is None:
            return None
        return max(self.mean - self.low, self.high - self.mean)

    @property
    def best(self) -> float:
        """Of the best seed: what a best-of-n result is to be compared with, never the mean."""
        return max(self.points)

    @property
    def cut_off(self) -> bool:
        """Whether the interval ends at 0 or 1, where an accuracy does: no half-width describes it."""
        return self.low == 0 or self.high == 1


@dataclass(frozen=True)
class Contrast:
    """Paired difference a - b over the seeds both have (at a length, where there is one).

    `p` tests whether there is a difference, `p_alike` whether it is within ± `alike_within` (None: not asked).
    `p_holm` and `p_alike_holm` are the same until `holm` has seen the whole family.
    """

    a: str
    b: str
    difference: float
    low: float | None
    high: float | None
    n: int
    correlation: float | None
    at: int | None
    p: float | None
    p_holm: float | None
    points: tuple[float, ...]
    alike_within: float | None = None
    p_alike: float | None = None
    p_alike_holm: float | None = None
    mixed: bool = False
    """Whether some seeds succeed (`SUCCESS`) and others fail, further apart than the margin."""
    at_start: bool | None = None
    """Of a stated one, see `Stated.at_start`."""

    @property
    def resolved(self) -> bool:
        """Whether a and b differ."""
        return self.p_holm is not None and self.p_holm < ALPHA

    @property
    def alike(self) -> bool:
        """Whether a and b differ by less than the stated margin, for seeds that do as these did (see `others`).

        Never from fewer than `VERDICT_SEEDS` seeds, nor where some succeed and others fail: their mean turns on a
        share of failures that so few seeds do not tell.
        """
        return self.close and self.n >= VERDICT_SEEDS and not self.mixed

    @property
    def close(self) -> bool:
        """Whether the equivalence test alone, which takes seeds to scatter evenly, says that they are alike."""
        return self.p_alike_holm is not None and self.p_alike_holm < ALPHA

    @property
    def others(self) -> float:
        """The largest share of seeds that may do otherwise than all `n` did: Clopper and Pearson's upper limit, 95 %,
        of none in n."""
        return 1 - ALPHA ** (1 / self.n)


def _item_variance(accuracies: np.ndarray, items: np.ndarray) -> float:
    """Upper bound of the shared item part of the variance of the mean: p(1 - p)/n, averaged over seeds."""
    adjusted = (accuracies * items + 2) / (items + 4)
    return float(np.mean(adjusted * (1 - adjusted) / items))


def _half_width(seed_variance: float, item_variance: float, seeds: int, confidence: float) -> float:
    t, z = _quantiles(seeds, confidence)
    return math.sqrt(t**2 * seed_variance + z**2 * item_variance)


@lru_cache(maxsize=1024)
def _quantiles(seeds: int, confidence: float) -> tuple[float, float]:
    """Student's t with seeds - 1 degrees of freedom, and the normal one, for a two-sided interval."""
    tail = (1 + confidence) / 2
    return float(special.stdtrit(seeds - 1, tail)), float(special.ndtri(tail))


def seed_interval(
    accuracies: Sequence[float], items: int | Sequence[int] | None = None, *, confidence: float = 0.95
) -> Estimate:
    """Mean accuracy over seeds with its interval (see the module): `items` test sequences behind each accuracy.

    Without `items` (a quantity that has no test-item error) it is the t interval over seeds, not cut off anywhere.
    Raises ValueError if there are no accuracies, or one is not finite.
    """
    values = np.asarray(accuracies, dtype=float)
    if values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"accuracies must be finite and at least one, got {list(accuracies)}")
    mean, seeds = float(values.mean()), len(values)
    points = tuple(values.tolist())
    if seeds < 2:
        return Estimate(mean, None, None, seeds, points)
    item_variance = 0.0
    if items is not None:
        counts = np.broadcast_to(np.asarray(items, dtype=float), values.shape)
        item_variance = _item_variance(values, counts)
    half = _half_width(float(values.var(ddof=1)) / seeds, item_variance, seeds, confidence)
    low, high = mean - half, mean + half
    if items is not None:
        low, high = max(0.0, low), min(1.0, high)
    return Estimate(mean, low, high, seeds, points)


@lru_cache(maxsize=1024)
def exact_interval(successes: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval for P(success)."""
    interval = stats.binomtest(successes, trials).proportion_ci(confidence, method="exact")
    return float(interval.low), float(interval.high)


def paired_contrast(
    a: Mapping[Any, tuple[float, int]],
    b: Mapping[Any, tuple[float, int]],
    *,
    names: tuple[str, str] = ("a", "b"),
    at: int | None = None,
    alike_within: float | None = None,
    confidence: float = 0.95,
) -> Contrast:
    """Difference of two variants over the seeds they share; each side maps seed -> (accuracy, test items).

    `alike_within`: the margin of an equivalence test, in accuracy (0.02 = 2 points), stated before running.

    Both variants answered the same items. Their item parts are added, which bounds the item part of the difference
    as long as items hard for one are not easy for the other. The p value inverts the interval: it is the level at
    which the interval first contains zero; that of the equivalence test is half the level at which the interval first
    reaches the margin. Raises ValueError without a shared seed.
    """
    seeds = sorted(a.keys() & b.keys(), key=str)
    if not seeds:
        raise ValueError(f"{names[0]} and {names[1]} share no seed")
    left = np.array([a[seed][0] for seed in seeds])
    right = np.array([b[seed][0] for seed in seeds])
    differences = left - right
    difference, n = float(differences.mean()), len(seeds)
    points = tuple(differences.tolist())
    if n < 2:
        return Contrast(*names, difference, None, None, n, None, at, None, None, points, alike_within)
    varies = left.std() > 0 and right.std() > 0 and n > 2
    correlation = float(np.corrcoef(left, right)[0, 1]) if varies else None
    seed_variance = float(differences.var(ddof=1)) / n
    item_variance = sum(
        _item_variance(values, np.array([side[seed][1] for seed in seeds], dtype=float))
        for values, side in ((left, a), (right, b))
    )
    half = _half_width(seed_variance, item_variance, n, confidence)
    p = _level(abs(difference), seed_variance, item_variance, n)
    p_alike, mixed = None, False
    if alike_within is not None:
        both = np.concatenate([left, right])
        mixed = bool(both.min() < SUCCESS <= both.max() and np.ptp(both) > alike_within)
        room = alike_within - abs(difference)
        one_sided = _level(abs(room), seed_variance, item_variance, n) / 2
        p_alike = one_sided if room > 0 else 1 - one_sided
    return Contrast(
        *names, difference, difference - half, difference + half, n, correlation, at, p, p, points,
        alike_within, p_alike, p_alike, mixed,
    )  # fmt: skip


def _level(distance: float, seed_variance: float, item_variance: float, seeds: int) -> float:
    """The p at which the interval's half-width equals `distance`."""
    if seed_variance + item_variance == 0:
        return 0.0 if distance > 0 else 1.0
    smallest = 1e-12

    def excess(log_p: float) -> float:
        return _half_width(seed_variance, item_variance, seeds, 1 - math.exp(log_p)) - distance

    if excess(math.log(smallest)) <= 0:
        return smallest
    if excess(0.0) >= 0:
        return 1.0
    return math.exp(optimize.brentq(excess, math.log(smallest), 0.0))


def holm(contrasts: Sequence[Contrast], unanswered: int = 0) -> list[Contrast]:
    """The same contrasts with every p corrected for the whole family: all their tests, of differences and of
    equivalence, and as many that were stated and are `unanswered`, as p = 1. Those without a p value stay without."""
    tested = [
        (index, name)
        for index, contrast in enumerate(contrasts)
        for name in ("p", "p_alike")
        if getattr(contrast, name) is not None
    ]
    corrected = list(contrasts)
    if tested:
        gc.freeze()  # statsmodels collects garbage in every call, which takes longer the more is in memory
        try:
            _, adjusted, *_ = multipletests(
                [getattr(contrasts[at], name) for at, name in tested] + [1.0] * unanswered, method="holm"
            )
        finally:
            gc.unfreeze()
        for (index, name), p in zip(tested, adjusted, strict=False):
            found: dict[str, Any] = {f"{name}_holm": float(p)}
            corrected[index] = replace(corrected[index], **found)
    return corrected
