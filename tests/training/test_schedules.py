"""Schedules are functions of the step, and keep their horizon."""

from __future__ import annotations

import math

import pytest

from lengthwise.training.schedules import Constant, Cosine, Linear


@pytest.mark.parametrize("schedule", [Cosine, Linear, Constant])
def test_rises_to_one_during_the_warm_up_and_rests_at_the_floor_past_the_horizon(schedule):
    factor = schedule(warmup_steps=10, steps=50)
    rise = [factor(step) for step in range(10)]
    assert rise == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert factor(10) == 1
    assert {factor(step) for step in (50, 51, 10_000)} == {factor.floor}


def test_cosine_is_half_a_cosine_down_to_five_percent():
    factor = Cosine(warmup_steps=100, steps=300)
    assert factor(200) == pytest.approx(0.05 + 0.95 * 0.5)
    assert factor(250) == pytest.approx(0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * 0.75)))
    assert factor(300) == 0.05


def test_linear_is_a_line():
    factor = Linear(warmup_steps=0, floor=0.0, steps=100)
    assert [factor(step) for step in (0, 25, 100)] == [1, 0.75, 0]


def test_a_warm_up_longer_than_the_horizon_just_rises():
    factor = Cosine(warmup_steps=100, steps=5)
    assert [factor(step) for step in range(5)] == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.05])


@pytest.mark.parametrize("wrong", [{"warmup_steps": -1}, {"floor": 1.5}, {"steps": 0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=r"schedule\."):
        Cosine(**wrong)


def test_without_a_horizon_there_is_no_factor():
    with pytest.raises(ValueError, match="horizon"):
        Cosine()(0)
