"""Measured baselines: equal to the formulas where there are some, and not flattered by their own samples."""

from __future__ import annotations

import numpy as np
import pytest

from lengthwise.keyed import philox
from lengthwise.tasks import (
    Copy,
    Offsets,
    Parity,
    Reverse,
    SetMax,
    SolveEquation,
    Sort,
    SortNumbers,
    StackManipulation,
    Task,
    WordOrder,
)
from lengthwise.tasks.contract import Examples, no_evidence
from lengthwise.tasks.estimated import BAG_LENGTH, estimated_baselines

BAG_RULES = ("bag_optimal", "remaining_bag")
"""Lower bounds: most bags are too rare in a sample to be learned."""


@pytest.mark.parametrize(
    "task", [Copy(), Reverse(symbols=4), Sort(symbols=20), WordOrder(), Offsets(), SetMax()]
)
@pytest.mark.parametrize("length", [5, 12])
def test_they_agree_with_the_formulas(task: Task, length: int) -> None:
    known, found = task.baselines(length), estimated_baselines(task, length)
    assert "position_only" in found
    for name, value in found.items():
        if name in known and name in BAG_RULES:
            assert found["position_only"] <= value <= known[name] + 0.02, name
        elif name in known:
            assert value == pytest.approx(known[name], abs=0.03), name


class Noise(Task):
    """Many symbols, none of which can be known: a rule that remembers its samples would seem to know them."""

    name, answer_format = "noise", "per_token"
    symbols = answer_symbols = tuple(str(i) for i in range(500))

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        shape = (len(lengths), int(lengths.max()))
        inputs, answers = (generator.integers(0, 500, size=shape) for _ in range(2))
        return Examples(inputs, lengths, answers, lengths, no_evidence(lengths))


def test_a_rule_is_scored_on_samples_that_it_has_not_seen() -> None:
    found = estimated_baselines(Noise(), 3)
    assert found["position_only"] < 0.01
    assert found["token_only"] < 0.01
    examples = Noise().generate(np.full(4096, 3), philox("control"))
    own = [np.bincount(examples.answers[:, t]).max() / 4096 for t in range(3)]
    assert np.mean(own) > 0.004, "control: on its own samples a rule beats chance (0.002)"


def test_unscored_places_and_unused_ones_do_not_count() -> None:
    class Sparse(Noise):
        partly_scored = True

        def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
            examples = super().sample(lengths, generator, split)
            answers = np.full_like(examples.answers, -100)
            answers[:, 1] = 7
            return Examples(examples.inputs, lengths, answers, lengths, no_evidence(lengths))

    assert estimated_baselines(Sparse(), 3) == {"position_only": 1.0, "token_only": 1.0, "bag_optimal": 1.0}


@pytest.mark.parametrize(
    ("task", "length", "bag", "remaining"),
    [(Copy(), 5, 0.6875, 0.775), (Reverse(symbols=2), 4, 0.6875, 0.796875), (Parity(), 5, 1.0, None)],
)
def test_what_few_bags_tell_is_found(task: Task, length: int, bag: float, remaining: float | None) -> None:
    """Where bags repeat often the measured rule is as good as the best: the formulas'."""
    known, found = task.baselines(length), estimated_baselines(task, length)
    assert known["bag_optimal"] == pytest.approx(bag)
    assert found["bag_optimal"] == pytest.approx(bag, abs=0.01)
    assert remaining is None or known["remaining_bag"] == pytest.approx(remaining, abs=1e-3)
    assert remaining is None or found["remaining_bag"] == pytest.approx(remaining, abs=0.01)
    assert found["position_only"] < bag - 0.1, "control: the bag does tell something"


def test_no_rule_is_worse_than_one_that_knows_less() -> None:
    """Also where a cue is so rare that what was fitted is noise."""
    for task, length in ((Noise(), 3), (SolveEquation(), 16), (SortNumbers(), 14), (StackManipulation(), 16)):
        found = estimated_baselines(task, length)
        assert found["position_only"] >= 1 / len(task.answer_symbols)
        for name in ("token_only", "previous_only", "bag_optimal", "remaining_bag"):
            assert found.get(name, 1.0) >= found["position_only"], name
        assert found.get("remaining_bag", 1.0) >= found["bag_optimal"]


def test_bags_of_long_inputs_are_not_measured() -> None:
    assert not {*BAG_RULES} & {*estimated_baselines(Copy(), BAG_LENGTH + 1)}


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="no such rule: magic"):
        estimated_baselines(Copy(), 3, ("magic",))
