"""Rules of position numbers: what they draw, from where, and what a test sees."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lengthwise.keyed import philox
from lengthwise.positions import Floats, Offset, Positions, Randomized, Sequential, TaskSupplied

COUNTS = np.array([3, 7, 5, 7])
RULES = {
    "offset": Offset(range=20),
    "offset a batch": Offset(range=20, per="batch"),
    "randomized": Randomized(range=20),
    "randomized a batch": Randomized(range=20, per="batch"),
    "floats": Floats(range=20),
    "floats a batch": Floats(range=20, per="batch"),
}


def drawn(rule: Positions, counts: np.ndarray = COUNTS, key: int = 0) -> np.ndarray:
    numbers = rule.numbers(counts, philox("test", key))
    assert numbers is not None
    return numbers


@pytest.mark.parametrize("name", RULES)
def test_numbers_ascend_within_the_range(name: str) -> None:
    rule = RULES[name]
    for key in range(50):
        numbers = drawn(rule, key=key)
        assert numbers.shape == (4, 7)
        assert numbers.min() >= 0 and numbers.max() < rule.span(7) == 20
        for row, count in zip(numbers, COUNTS, strict=True):
            assert (np.diff(row[:count]) > 0).all()


@pytest.mark.parametrize("name", RULES)
def test_more_rows_change_none_of_the_first_ones(name: str) -> None:
    more = np.concatenate([COUNTS, [4, 2]])
    assert np.array_equal(drawn(RULES[name], more)[:4], drawn(RULES[name]))
    assert not np.array_equal(drawn(RULES[name], key=1), drawn(RULES[name])), (
        "control: another key, other numbers"
    )


def test_many_rows_are_drawn_in_parts_with_equal_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drawn(Randomized(range=20), np.full(9, 6))
    monkeypatch.setattr("lengthwise.positions.randomized._AT_ONCE", 45)  # two rows at a time
    assert np.array_equal(drawn(Randomized(range=20), np.full(9, 6)), whole)


def test_a_random_start_is_uniform_over_the_room() -> None:
    numbers = drawn(Offset(range=12), np.full(20_000, 5))
    assert (np.diff(numbers, axis=1) == 1).all()
    assert stats.chisquare(np.bincount(numbers[:, 0], minlength=8)).pvalue > 1e-3
    assert numbers[:, 0].max() == 7


def test_every_subset_is_equally_likely() -> None:
    numbers = drawn(Randomized(range=5), np.full(20_000, 2))
    pairs, counts = np.unique(numbers, axis=0, return_counts=True)
    assert len(pairs) == 10
    assert stats.chisquare(counts).pvalue > 1e-3
    # control: gaps drawn one after another would not be
    gaps = np.sort(philox("control").integers(0, 5, size=(20_000, 2)), axis=1)
    assert stats.chisquare(np.unique(gaps, axis=0, return_counts=True)[1]).pvalue < 1e-3


def test_real_numbers_are_uniform() -> None:
    numbers = drawn(Floats(range=10), np.full(4_000, 3))
    assert numbers.dtype == np.float32
    assert stats.kstest(numbers.ravel() / 10, "uniform").pvalue > 1e-3
    assert (numbers % 1 != 0).mean() > 0.99


@pytest.mark.parametrize("rule", [Randomized(range=30, per="batch"), Floats(range=30, per="batch")])
def test_one_draw_a_batch_shares_its_numbers(rule: Positions) -> None:
    numbers = drawn(rule)
    assert np.array_equal(numbers[1], numbers[3])
    assert set(numbers[0, :3]) < set(numbers[2, :5]) < set(numbers[1])
    a_sample = type(rule)(range=30)  # type: ignore[call-arg]
    assert not np.array_equal(*drawn(a_sample)[[1, 3]]), "control"


def test_one_start_a_batch() -> None:
    numbers = drawn(Offset(range=1000, per="batch"), np.array([10, 10, 10]))
    assert len(np.unique(numbers[:, 0])) == 1
    assert len(np.unique(drawn(Offset(range=1000), np.array([10, 10, 10]))[:, 0])) == 3


def test_the_test_may_have_another_rule() -> None:
    assert isinstance(Offset().in_test(), Sequential)
    for rule in (Offset(at_test="same"), Randomized(), Floats()):
        assert rule.in_test() is rule
    for kind in (Randomized, Floats):
        assert isinstance(kind(at_test="sequential").in_test(), Sequential)
    shifted = TaskSupplied(max_offset=9)
    assert shifted.draws and not shifted.in_test().draws
    assert (shifted.span(5, 5), shifted.in_test().span(5, 5)) == (15, 6)


@pytest.mark.parametrize("per", ["batch", "sample"])
def test_the_tasks_own_numbers_are_raised_but_0(per: str) -> None:
    given = np.tile([0, 1, 2, 0, 3], (200, 1))
    numbers = TaskSupplied(max_offset=4, per=per).numbers(np.full(200, 5), philox("t"), given)  # type: ignore[arg-type]
    offsets = numbers[:, 1] - 1
    assert (numbers == np.where(given > 0, given + offsets[:, None], 0)).all()
    assert set(offsets) == (set(range(5)) if per == "sample" else {offsets[0]})
    assert np.array_equal(TaskSupplied().numbers(np.full(200, 5), None, given), given)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Offset(range=0), "range=0 must be at least 1"),
        (lambda: Randomized(per="layer"), "per=layer must be one of sample, batch"),  # type: ignore[arg-type]
        (lambda: Floats(at_test="none"), "at_test=none must be one of same, sequential"),  # type: ignore[arg-type]
        (lambda: TaskSupplied(max_offset=-1), "max_offset=-1 must be at least 0"),
        (lambda: Offset(range=10).check(11), "range=10 has too few numbers for a sequence of 11 positions"),
        (lambda: Randomized(range=10).check(11), "set 11 or more"),
    ],
)
def test_what_cannot_be_is_refused(make, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()
    Offset(range=10).check(10)
    Floats(range=10).check(1000)
