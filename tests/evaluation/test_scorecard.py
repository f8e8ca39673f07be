"""The scorecard against what is known of the encodings, and against encodings made to fail a criterion."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from lengthwise import nn
from lengthwise.evaluation import cost, position_codes, relations, scorecard
from lengthwise.evaluation.card import Scorecard
from lengthwise.evaluation.pictures import pictures
from lengthwise.evaluation.position_codes import LAST, Subject
from lengthwise.evaluation.scorecard import measure

D, TRAINED = 128, 20
NARROW = 32
"""The width where the textbook's does not matter."""


def subject(position, *, causal: bool = False, heads: int = 4, width: int = NARROW) -> Subject:
    shape = nn.Decoder if causal else nn.Encoder
    model = shape(9, width=width, layers=1, heads=heads, position=position, trained_length=TRAINED)
    position_codes.fill_empty_tables(model)
    return Subject.of(model)


def card_of(position, **options) -> Scorecard:
    return measure(subject(position, **options))


@pytest.fixture(scope="module")
def sinusoidal() -> Scorecard:
    return card_of(nn.Sinusoidal, width=D)


@pytest.fixture(scope="module")
def rotary() -> Scorecard:
    return card_of(nn.Rotary)


def test_the_sinusoid_s_dot_product_depends_on_the_distance_alone(sinusoidal: Scorecard) -> None:
    """⟨r_n, r_{n+k}⟩ = Σ_i cos(ω_i k), D/2 at k = 0."""
    rows = position_codes.table(subject(nn.Sinusoidal, width=D).to(torch.float64), 3000, torch.float64)
    curve = relations.dot_curve(rows, 1000)
    for k in (0, 1, 10, 100, 1000):
        closed = sum(math.cos(k * 10000 ** (-2 * i / D)) for i in range(D // 2))
        assert float(curve[k]) * D / 2 == pytest.approx(closed, abs=1e-9)
    assert float(rows.square().sum(1).max()) == pytest.approx(D / 2, abs=1e-9)
    assert sinusoidal.figures["dot_consistent"] and sinusoidal.figures["dot_spread"] < 1e-12


def test_it_falls_slowly_and_not_monotonically(sinusoidal: Scorecard) -> None:
    figures = sinusoidal.figures
    shown = [round(figures[f"dot_{k}"], 2) for k in (10, 100, 1000)]
    assert shown == [0.67, 0.48, 0.16]
    assert figures["dot_decay"] == "not monotone" and 0.5 < figures["dot_falling"] < 1


def test_through_random_projections_the_sinusoid_s_score_depends_on_the_place(sinusoidal: Scorecard) -> None:
    assert not sinusoidal.figures["score_consistent"] and sinusoidal.figures["score_spread"] > 0.1


def test_a_rotary_score_depends_on_the_distance_alone_through_any_projection(rotary: Scorecard) -> None:
    figures = rotary.figures
    assert figures["score_consistent"] and figures["score_spread"] < 1e-11
    assert figures["shift_exact"] and figures["shift_residual"] is None
    assert figures["dot_1"] is None and "no vector" in rotary.reasons["dot_1"]


def test_shifts_are_linear_with_sines_and_cosines_not_with_sines_alone(sinusoidal: Scorecard) -> None:
    assert sinusoidal.figures["shift_exact"] and sinusoidal.figures["shift_residual"] < 1e-10
    rows = position_codes.table(subject(nn.Sinusoidal, width=D).to(torch.float64), 800, torch.float64)
    sines = rows[:, 0::2]
    for k in (1, 10, 100):
        assert relations.shift_residual(rows, k) < 1e-10
        assert relations.shift_residual(sines, k) > 1e-6
    odd = card_of(nn.Sinusoidal, width=15, heads=3).figures  # the last column is a sine without its cosine
    assert not odd["shift_exact"] and odd["shift_residual"] > 1e-6


def test_an_integer_has_no_bound_and_a_share_of_the_length_names_no_position() -> None:
    integer, share = card_of(nn.Integer), card_of(nn.UnitInterval)
    assert not integer.figures["bounded"] and integer.figures["growth"] == pytest.approx(2, abs=1e-3)
    assert integer.figures["unique"] and integer.figures["codes"] == LAST + 1
    assert share.figures["bounded"] and share.figures["growth"] == pytest.approx(1, abs=1e-3)
    assert not share.figures["unique"] and not share.figures["prefix_stable"]
    assert "number 1 of 512 has that of number 2 of 1024" in " ".join(share.notes)
    assert integer.mismatches == share.mismatches == []


def test_a_sinusoid_is_bounded_and_unique(sinusoidal: Scorecard) -> None:
    figures = sinusoidal.figures
    assert figures["bounded"] and (figures["low"], figures["high"]) == (-1.0, 1.0)
    assert figures["unique"] and figures["codes_of"] == f"{LAST + 1} positions"
    assert sinusoidal.mismatches == [] and sinusoidal.symmetries == dict.fromkeys(
        sinusoidal.symmetries, False
    )


@pytest.mark.parametrize(
    ("beyond", "said", "defined"),
    [
        ("untrained", "flagged untrained positions, LengthError past 1 024 positions", 1024),
        ("error", "LengthError past 20 positions", TRAINED),
        ("clamp", "flagged clamped positions, the same from position 19 on", LAST + 1),
        ("interpolate", "flagged interpolated positions", LAST + 1),
    ],
)
def test_a_learned_table_past_its_training(beyond: str, said: str, defined: int) -> None:
    card = card_of(partial(nn.Learned, beyond=beyond), width=8, heads=2)
    assert card.figures["past_training"] == said and card.figures["positions_defined"] == defined
    assert card.figures["prefix_stable"] is (beyond != "interpolate")
    assert card.figures["unique"] is (beyond in ("untrained", "error"))
    assert card.mismatches == [] or beyond in ("clamp", "interpolate")  # rows that are shared are no codes


@pytest.mark.parametrize(
    ("position", "causal"),
    [
        (nn.NoPosition, False),
        (nn.ALiBi, False),
        (partial(nn.Binary, range=64), False),
        (partial(nn.Shaw, max_distance=9), True),
        (nn.Sandwich, False),
        (nn.Integer, False),
    ],
)
def test_told_apart_in_bfloat16_as_declared(position, causal: bool) -> None:
    one = subject(position, causal=causal, heads=1)
    card = measure(one)
    declared, told = card.declared["distinct_until"], card.figures["bf16_told_apart"]
    assert declared is not None and told >= declared and card.mismatches == []
    if position is not nn.Integer:  # whose limit holds for any direction, and is passed by most
        assert told <= declared + 1


def test_kerple_in_bfloat16_with_both_numbers_one() -> None:
    one = subject(nn.Kerple)
    for parameter in one.attention.position.parameters():
        parameter.data.fill_(1.0)
    card = measure(one)
    assert card.figures["bf16_told_apart"] == card.declared["distinct_until"] == 56
    assert card.figures["decay"] == "monotone" and not card.figures["bounded"]
    assert card.figures["weight_1"] == pytest.approx(1 / 2) and card.figures["weight_100"] == pytest.approx(
        1 / 101
    )


def test_alibi_against_its_equation() -> None:
    figures = card_of(nn.ALiBi).figures
    mean_slope = sum(2.0 ** (-2 * h) for h in range(1, 5)) / 4
    for k in (1, 10, 100):
        assert figures[f"weight_{k}"] == pytest.approx(math.exp(-mean_slope * k), rel=1e-9)
    assert figures["low"] == -LAST / 4 and figures["high"] == 0 and not figures["bounded"]
    assert figures["decay"] == "monotone" and figures["parameters"] is None


def test_without_an_encoding_nothing_is_told_apart() -> None:
    card = card_of(nn.NoPosition)
    figures = card.figures
    assert (figures["codes"], figures["unique"], figures["decay"]) == (1, False, "flat")
    assert all(card.symmetries.values()) and len(card.symmetries) == 3
    assert figures["dot_10"] is None and "zero" in card.reasons["dot_10"]
    assert figures["shift_exact"] is None and "shift_exact" in card.reasons


@pytest.mark.parametrize(
    ("position", "causal", "shared_from"),
    [(nn.T5Bias, False, 91), (nn.Shaw, False, 16), (nn.CoPE, True, 125)],
)
def test_distances_that_share_a_code(position, causal: bool, shared_from: int) -> None:
    """T5: the last of 8 + 8 buckets begins at 8·16^(7/8) = 90.5. CoPE: gates of ½ reach row 63 after 126 keys."""
    card = card_of(position, causal=causal)
    assert card.figures["one_code_from"] == shared_from and not card.figures["unique"]
    assert f"the same from distance {shared_from} on" in card.figures["past_training"]


def test_fire_depends_on_the_place_past_its_threshold_alone() -> None:
    assert not card_of(nn.FIRE).figures["score_consistent"]
    assert card_of(partial(nn.FIRE, threshold=1e6)).figures["score_consistent"]


def test_an_encoding_that_answers_for_all_queries_at_once() -> None:
    card = card_of(nn.Forgetting, causal=True)
    assert card.figures["codes_of"] == "2048 distances" and "2048" in " ".join(card.notes)
    assert card.figures["score_consistent"] and card.figures["decay"] == "monotone"


def test_a_stack_has_vectors_and_scores() -> None:
    card = card_of(partial(nn.PositionStack, parts={"a": nn.Sinusoidal, "b": nn.ALiBi}))
    assert card.figures["dot_consistent"] and card.figures["shift_exact"]
    assert card.figures["weight_100"] < 0.01 and not card.figures["score_consistent"]


# --- what is declared wrongly is named ---


class Boastful(nn.ALiBi):
    """Declares what it does not keep."""

    distinct_until = 1000
    max_length = 77
    prefix_stable = False
    symmetries = frozenset({"permutation"})


class Relative(nn.Learned):
    symmetries = frozenset({"translation"})
    max_length = None


def test_declared_facts_that_are_wrong_are_named() -> None:
    said = " | ".join(card_of(Boastful).mismatches)
    for part in (
        "permutation is declared, and measured to fail",
        "translation is not declared",
        "reversal is not declared",
        "max_length=77",
        "prefix_stable=False",
        "distinct_until=1000 is declared, and 257",
    ):
        assert part in said
    said = " | ".join(card_of(Relative).mismatches)
    assert "translation is declared, and measured to fail" in said


def test_scores_of_equal_content_do_not_make_a_symmetry() -> None:
    """q = k wherever all content is the same and nothing projects it: a score is then the same both ways."""
    model = nn.Encoder(
        9, width=16, layers=1, heads=1, position=nn.Rotary, attention=nn.ParameterFreeAttention
    )
    card = measure(Subject.of(model))
    assert card.symmetries == {"translation": True, "reversal": False, "permutation": False}
    assert card.mismatches == []


class Crashing(nn.Learned):
    def vectors(self, numbers, context, dtype):
        return self.table(numbers)  # IndexError past its rows


def test_an_index_error_is_no_length_error() -> None:
    card = card_of(partial(Crashing, max_length=64), width=8, heads=2)
    assert card.figures["positions_defined"] == 64 and "IndexError" in card.figures["past_training"]


# --- helpers that can be wrong by themselves ---


def test_distinct_counts_rows_and_finds_the_first_repeat() -> None:
    rows = torch.tensor([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0], [2.0, 2.0]])
    assert position_codes.distinct(rows) == (3, 2)
    assert position_codes.distinct(rows[:2]) == (2, None)
    assert position_codes.distinct(torch.tensor([[256.0], [257.0]], dtype=torch.bfloat16)) == (1, 1)


def test_falling() -> None:
    down, up = torch.arange(5.0).flip(0)[None], torch.arange(5.0)[None]
    assert relations.falling(down, 1.0) == (1.0, "monotone")
    assert relations.falling(up, 1.0) == (0.0, "not monotone")
    assert relations.falling(torch.cat((down, up)), 1.0) == (0.5, "not monotone")
    assert relations.falling(torch.ones(2, 5), 1.0) == (0.0, "flat")


# --- costs ---


def test_memory_is_that_of_the_tensors_alive_at_once() -> None:
    def step() -> None:
        a = torch.zeros(1000, dtype=torch.float32)
        b = a + 1
        c = (a + b).view(10, 100)
        del a, b
        c.add_(1)
        torch.zeros(10)

    assert cost.peak(step) == 12_000


def test_the_cost_of_nothing_is_one_and_a_mask_costs() -> None:
    none = subject(nn.NoPosition)
    same = cost.compare(none, subject(nn.NoPosition), 64, 3)
    assert same.memory == 1.0 and same.time_low <= same.time <= same.time_high
    masks = cost.compare(subject(nn.ALiBi), none, 256, 2)
    added = 4 * 256 * 256 * 4  # H·N·N numbers in float32
    bare = cost.peak(cost._step(none, 256))
    assert masks.memory > 1 + added / bare


def test_a_step_is_no_longer_than_the_encoding_is_defined() -> None:
    one = subject(partial(nn.Learned, beyond="error"), width=16)
    card = measure(one)
    scorecard.measure_cost(card, one, subject(nn.NoPosition, width=16), repeats=2)
    assert card.figures["cost_length"] == TRAINED and card.figures["time"] > 0


# --- pictures ---


def test_the_pictures_are_the_textbook_s() -> None:
    """100 positions by 128 dimensions; dimension i of position n is the equation's."""
    drawn = pictures(subject(nn.Sinusoidal, width=D), LAST + 1, movable=True)
    assert (len(drawn["vectors"]), len(drawn["vectors"][0])) == (100, 128)
    for n, i in ((0, 0), (7, 10), (99, 40), (50, 101)):
        angle = n / 10000 ** ((i - i % 2) / 128)
        assert drawn["vectors"][n][i] == pytest.approx((math.sin, math.cos)[i % 2](angle), abs=1e-3)
    assert drawn["dots"][0] == 1.0 and drawn["dots"][10] == pytest.approx(0.669, abs=1e-3)
    assert len(drawn["similarity"]) == 64 and drawn["similarity"][5][5] == 1.0
    assert len(drawn["scores"]) == 4 and len(drawn["scores"][0]) == 101


def test_a_map_shows_what_may_be_read() -> None:
    maps = pictures(subject(nn.ALiBi, causal=True), LAST + 1, movable=True)["maps"]
    assert len(maps) == 4 and maps[0][3][4] is None and maps[0][4][3] is not None
    assert maps[0][9][4] - maps[0][9][9] == pytest.approx(-5 / 4, abs=0.02)
