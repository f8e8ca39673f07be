"""Intervals and contrasts against scipy and statsmodels; by simulation: test_report_coverage.py."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import ttost_paired

from lengthwise.report.statistics import Contrast, exact_interval, holm, paired_contrast, seed_interval
from lengthwise.report.words import sentence, verdict

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


A, B = [0.90, 0.93, 0.88, 0.91], [0.89, 0.91, 0.89, 0.90]


def test_equivalence_is_two_one_sided_t_tests_when_items_are_many():
    for margin in (0.005, 0.02, 0.05):
        ours = paired_contrast(pairs(A), pairs(B), alike_within=margin).p_alike
        expected, *_ = ttost_paired(np.array(A), np.array(B), -margin, margin)
        assert ours == pytest.approx(expected, abs=1e-4)


def test_equivalence_is_the_interval_of_90_percent_within_the_margin():
    a, b = pairs(A, 500), pairs(B, 500)
    within = paired_contrast(a, b, confidence=0.9)
    reach = max(abs(within.low), abs(within.high))
    assert paired_contrast(a, b, alike_within=reach).p_alike == pytest.approx(0.05, abs=1e-6)
    assert paired_contrast(a, b, alike_within=1.01 * reach).close
    assert not paired_contrast(a, b, alike_within=0.99 * reach).close
    assert paired_contrast(a, b, alike_within=reach).p == paired_contrast(a, b).p


def test_a_difference_beyond_the_margin_is_surely_not_within_it():
    assert paired_contrast(pairs([0.9, 0.92]), pairs([0.5, 0.51]), alike_within=0.02).p_alike > 0.95
    one = paired_contrast(pairs([0.9]), pairs([0.9]), alike_within=0.02)
    assert one.p_alike is None and not one.alike


def test_holm_counts_both_kinds_of_tests_as_one_family():
    def contrast(p: float, p_alike: float | None) -> Contrast:
        return Contrast("a", "b", 0.1, 0.0, 0.2, 10, None, None, p, p, (), 0.02, p_alike, p_alike)

    one, other = holm([contrast(0.03, 0.01), contrast(0.04, None)])
    assert (one.p_holm, one.p_alike_holm, other.p_holm) == pytest.approx((0.06, 0.03, 0.06))
    assert other.p_alike_holm is None and not one.resolved and one.alike


def words_of(a, b, margin=None):
    contrast = paired_contrast(pairs(a), pairs(b), names=("a", "b"), at=50, alike_within=margin)
    return verdict(contrast).replace("\u00a0", " "), sentence(contrast).replace("\u00a0", " ")


VERDICTS = {  # the mean of a - b, its scatter over seeds, the margin: the verdict, and what the sentence says
    "higher": (0.1, 0.001, None, "a is above b: +10.0 points"),
    "lower": (-0.1, 0.001, 0.02, "a is below b: −10.0 points"),
    "alike within ±2 points for seeds like these": (
        0.0, 0.001, 0.02, "a and b are alike within ±2 points for seeds like these: ",
    ),
    "higher, yet alike within ±2 points for seeds like these": (
        0.01, 0.001, 0.02, "a is above b, yet alike within ±2 points for seeds like these: +1.0",
    ),
    "not resolved": (0.0, 0.02, None, "a − b is not resolved with {} seeds: "),
    "not resolved either way": (0.001, 0.02, 0.002, "seeds, nor that they are alike within ±0.2 points: "),
}  # fmt: skip


ALIKE, ALIKE_TEN = (
    "alike within ±2 points for seeds like these",
    "alike within ±2 points (that takes 10 seeds)",
)


@pytest.mark.parametrize("seeds", [3, 10])
@pytest.mark.parametrize("said", VERDICTS)
def test_each_verdict_in_words(said, seeds):
    mean, scatter, margin, words = VERDICTS[said]
    b = 0.8 + np.linspace(-0.01, 0.01, seeds)
    short, long = words_of(b + mean + np.linspace(-scatter, scatter, seeds), b, margin)
    if "alike" in said and seeds < 10:  # never called alike
        said = said.removesuffix(f", yet {ALIKE}").replace(ALIKE, "not resolved")
        words = "a is above b: +1.0" if said == "higher" else f"nor that they are {ALIKE_TEN}: "
    verdict = f"not resolved with {seeds} seeds" if said.startswith("not") else said
    assert short == verdict + (", provisional" if seeds < 10 else "")
    assert long.startswith("At length 50, ") and words.format(seeds) in long
    assert f"({seeds} paired seeds" in long and ("alike p " in long) == (margin is not None)
    assert long.endswith(", provisional." if seeds < 10 else ").")
    assert ("up to 26 % of seeds may do otherwise" in long) == ("alike" in short)


def test_seeds_of_which_some_fail_are_not_called_alike():
    """Nine of ten of both succeed, the same ones: no difference at all, and no word of how often either fails."""
    some, all_, none = [0.5, *[0.99] * 9], [0.99] * 10, [0.5] * 10
    contrast = paired_contrast(pairs(some, 10**6), pairs(some, 10**6), names=("a", "b"), alike_within=0.02)
    assert contrast.close and contrast.mixed and not contrast.alike
    assert verdict(contrast) == "not resolved: some seeds succeed and others fail"
    assert "(some seeds succeed and others fail)" in sentence(contrast)
    for same in (
        all_,
        none,
        [0.895, *[0.905] * 9],
    ):  # the last is on both sides of 90 %, by less than the margin
        contrast = paired_contrast(pairs(same, 10**6), pairs(same, 10**6), alike_within=0.02)
        assert contrast.alike and not contrast.mixed
    assert not paired_contrast(
        pairs(all_[1:], 10**6), pairs(all_[1:], 10**6), alike_within=0.02
    ).alike  # nine
    upper = stats.binomtest(0, 10).proportion_ci(0.9, method="exact").high  # one-sided 95 %
    assert contrast.others == pytest.approx(upper)


def test_holm_counts_what_was_stated_and_not_answered():
    contrasts = [paired_contrast(pairs(A), pairs(B)), paired_contrast(pairs(A), pairs([0.5, 0.6, 0.4, 0.5]))]
    for unanswered in (0, 1, 3):
        found = holm(contrasts, unanswered)
        low, high = sorted(contrast.p for contrast in contrasts)
        assert len(found) == 2
        assert min(c.p_holm for c in found) == pytest.approx(min(1, (2 + unanswered) * low))
        assert max(c.p_holm for c in found) == pytest.approx(min(1, (1 + unanswered) * high))


def test_the_best_seed_is_not_the_mean():
    assert seed_interval([0.2, 0.9, 0.4], 100).best == 0.9
