"""Intervals and contrasts against scipy, statsmodels and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from lengthwise.report.statistics import Contrast, exact_interval, holm, paired_contrast, seed_interval

MANY = 10**9  # test sequences: no test-item error to speak of


def test_without_item_error_it_is_the_t_interval():
    values = [0.81, 0.86, 0.93, 0.79]
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    for estimate in (seed_interval(values), seed_interval(values, MANY)):
        assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=1e-4)
        assert estimate.points == tuple(values) and estimate.n == 4


def test_item_error_widens_the_interval_and_is_all_that_is_left_when_seeds_agree():
    values = [0.8, 0.82, 0.84]
    assert seed_interval(values, 256).half_width > seed_interval(values).half_width
    half = seed_interval([0.5, 0.5, 0.5], 1024).half_width
    assert half == pytest.approx(1.96 * (0.25 / 1024) ** 0.5, rel=1e-3)


def test_all_right_is_not_certainty():
    estimate = seed_interval([1.0, 1.0, 1.0], 1024)
    assert 0.99 < estimate.low < 1.0 == estimate.high


def test_one_seed_has_no_interval_and_nothing_has_no_mean():
    assert seed_interval([0.7], 1024).low is None
    with pytest.raises(ValueError, match="at least one"):
        seed_interval([])
    with pytest.raises(ValueError, match="finite"):
        seed_interval([0.5, float("nan")])


@pytest.mark.parametrize(("successes", "trials"), [(0, 3), (2, 3), (3, 3), (7, 10)])
def test_probability_of_success_is_clopper_pearsons(successes, trials):
    assert exact_interval(successes, trials) == pytest.approx(
        proportion_confint(successes, trials, 0.05, method="beta"), abs=1e-9
    )


def simulate(rng, seeds, items, seed_sd, item_sd, mean=0.5):
    """Accuracies (seeds,) of one experiment in a probit model, and the true accuracy over all seeds and items."""
    truth = float(stats.norm.cdf(mean / np.sqrt(1 + seed_sd**2 + item_sd**2)))
    latent = mean + rng.normal(0, seed_sd, (seeds, 1)) + rng.normal(0, item_sd, items)
    return (latent + rng.normal(size=(seeds, items)) > 0).mean(1), truth


def coverage(make, seeds, seed_sd, item_sd, repeats=500, items=128):
    rng = np.random.default_rng([seeds, round(100 * seed_sd), round(100 * item_sd)])
    inside = 0
    for _ in range(repeats):
        accuracies, truth = simulate(rng, seeds, items, seed_sd, item_sd)
        estimate = make(accuracies.tolist(), items)
        inside += estimate.low <= truth <= estimate.high
    return inside / repeats


@pytest.mark.parametrize("seeds", [3, 10])
@pytest.mark.parametrize(("seed_sd", "item_sd"), [(0.0, 0.0), (0.3, 0.0), (0.3, 1.0), (0.05, 5.0)])
def test_coverage_is_what_it_says(seeds, seed_sd, item_sd):
    # 500 repeats of a true 95 % lie above 92.4 % with probability 0.99.
    assert coverage(seed_interval, seeds, seed_sd, item_sd) >= 0.924


def test_the_simulation_can_tell_too_narrow_from_right():
    """Without the item part the interval misses what all seeds share."""
    assert coverage(lambda values, _: seed_interval(values), 3, 0.0, 5.0) < 0.9
    assert coverage(lambda values, _: seed_interval(values), 10, 0.0, 5.0) < 0.8


def pairs(values, items=MANY):
    return {seed: (value, items) for seed, value in enumerate(values)}


def test_a_contrast_is_the_paired_t_test_when_items_are_many():
    a, b = [0.90, 0.95, 0.85, 0.91], [0.80, 0.88, 0.79, 0.75]
    contrast = paired_contrast(pairs(a), pairs(b), names=("a", "b"), at=100)
    expected = stats.ttest_rel(a, b)
    interval = expected.confidence_interval(0.95)
    assert contrast.p == pytest.approx(expected.pvalue, abs=1e-4)
    assert (contrast.low, contrast.high) == pytest.approx((interval.low, interval.high), abs=1e-4)
    assert contrast.correlation == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert (contrast.difference, contrast.n, contrast.at) == (pytest.approx(0.0975), 4, 100)


def test_p_is_the_level_at_which_the_interval_reaches_zero():
    a, b = pairs([0.62, 0.70, 0.66], 500), pairs([0.55, 0.60, 0.61], 500)
    p = paired_contrast(a, b).p
    assert paired_contrast(a, b, confidence=1 - p).low == pytest.approx(0, abs=1e-6)


def test_only_shared_seeds_count():
    a, b = pairs([0.9, 0.8, 0.7]), pairs([0.5, 0.6])
    assert paired_contrast(a, b).n == 2
    with pytest.raises(ValueError, match="share no seed"):
        paired_contrast({0: (0.5, 10)}, {1: (0.5, 10)})


def test_equal_variants_are_rarely_called_different():
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(500):
        a, b = (simulate(rng, 3, 128, 0.3, 1.0)[0] for _ in range(2))
        contrast = paired_contrast(pairs(a, 128), pairs(b, 128))
        found += contrast.p < 0.05
    assert found / 500 <= 0.07


def test_holm_steps_down():
    def contrast(p: float | None) -> Contrast:
        return Contrast("a", "b", 0.1, 0.0, 0.2, 3, None, None, p, p, ())

    corrected = holm([contrast(p) for p in (0.03, 0.01, None, 0.04)])
    assert [c.p_holm for c in corrected] == [
        pytest.approx(0.06),
        pytest.approx(0.03),
        None,
        pytest.approx(0.06),
    ]
    assert [c.resolved for c in corrected] == [False, True, False, False]
    assert all(c.p == p for c, p in zip(corrected, (0.03, 0.01, None, 0.04), strict=True))
