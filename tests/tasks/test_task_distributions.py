"""What is drawn is distributed as the task cards say: chi-square tests, at five standard deviations."""

from __future__ import annotations

import numpy as np
import pytest

from lengthwise.keyed import philox
from lengthwise.tasks import (
    AboveMean,
    BinMajority,
    Copy,
    Digits,
    First,
    Last,
    Majority,
    Offsets,
    Reverse,
    SetMax,
    Sort,
    UniqueCopy,
    WordOrder,
)
from lengthwise.tasks.digits import split_indices

DRAWS = 20_000


def chi_square_z(values, probabilities):
    """How many standard deviations chi-square is above its mean; `values` are 0…len(probabilities)-1."""
    probabilities = np.asarray(probabilities, dtype=float)
    assert np.isclose(probabilities.sum(), 1.0)
    counts = np.bincount(values, minlength=len(probabilities))
    assert len(counts) == len(probabilities), "a value outside the stated range"
    possible = probabilities > 0
    assert not counts[~possible].any(), "an impossible value was drawn"
    expected = probabilities[possible] * len(values)
    degrees = max(possible.sum() - 1, 1)
    return (((counts[possible] - expected) ** 2 / expected).sum() - degrees) / np.sqrt(2 * degrees)


def uniform(count):
    return np.full(count, 1 / count)


def draw(task, lengths, key=0, count=DRAWS):
    lengths = philox("which", key).choice(lengths, size=count)
    return task.generate(lengths, philox("distribution", task.identity, key))


def of_length(examples, n):
    return examples.rows(examples.lengths == n)


def test_the_statistic_can_fail():
    generator = philox("statistic")
    fair = generator.integers(0, 10, size=DRAWS)
    assert abs(chi_square_z(fair, uniform(10))) < 5
    biased = np.where(generator.random(DRAWS) < 0.03, 0, fair)
    assert chi_square_z(biased, uniform(10)) > 5
    with pytest.raises(AssertionError, match="impossible"):
        chi_square_z(fair, [0, *uniform(9)])


@pytest.mark.parametrize("n", [3, 4, 10, 50])
def test_word_order_places_and_labels_are_uniform(n):
    examples = of_length(draw(WordOrder(), [3, 4, 10, 50]), n)
    rows = np.arange(len(examples))
    assert chi_square_z(examples.evidence, uniform(n - 1)) < 5
    assert chi_square_z(examples.answers[:, 0] - 9, uniform(2)) < 5
    other = (examples.inputs == (9 + 10 - examples.answers)).argmax(axis=1)
    assert ((other < examples.evidence) | (other > examples.evidence + 1)).all()
    rank = other - 2 * (other > examples.evidence)
    if n > 3:
        assert chi_square_z(rank, uniform(n - 2)) < 5
        assert chi_square_z(examples.evidence * (n - 2) + rank, uniform((n - 1) * (n - 2))) < 5
        inputs = examples.inputs[:, :n]
        assert chi_square_z(inputs[inputs < 8], uniform(8)) < 5
    assert (examples.inputs[rows, examples.evidence] == 8).all()


def test_word_order_lengths_keep_their_order():
    lengths = np.array([10, 4, 7, 4, 50])
    assert (WordOrder().generate(lengths, philox("order")).lengths == lengths).all()


@pytest.mark.parametrize(
    ("task", "inputs"),
    [
        (Last(), 8),
        (First(), 8),
        (Offsets(), 2),
        (Reverse(), 2),
        (Copy(symbols=5), 5),
        (Reverse(symbols=3), 3),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_iid_tokens_are_uniform_at_every_position(task, inputs):
    examples = of_length(draw(task, [3, 7]), 7)
    for position in (0, 3, 6):
        assert chi_square_z(examples.inputs[:, position], uniform(inputs)) < 5
    pairs = examples.inputs[:, 2] * inputs + examples.inputs[:, 3]
    assert chi_square_z(pairs, uniform(inputs**2)) < 5
    if task.answer_format == "label":
        assert chi_square_z(examples.answers[:, 0], uniform(inputs)) < 5


def test_offsets_answers_are_uniform_once_all_bits_exist():
    examples = of_length(draw(Offsets(), [9]), 9)
    for position in (5, 8):
        assert chi_square_z(examples.answers[:, position] - 2, uniform(16)) < 5
    assert (examples.answers[:, 0] == 2).all()


@pytest.mark.parametrize("n", [1, 3, 5, 21])
def test_majority_margins_labels_and_places(n):
    examples = of_length(draw(Majority(), [1, 3, 5, 21]), n)
    ones = examples.inputs.sum(axis=1)
    fitting = [margin for margin in (1, 3, 5) if margin <= n]
    expected = np.zeros(n + 1)
    for margin in fitting:
        expected[[(n + margin) // 2, (n - margin) // 2]] += 0.5 / len(fitting)
    assert chi_square_z(ones, expected) < 5
    assert (examples.answers[:, 0] == (2 * ones > n)).all()
    assert chi_square_z(np.nonzero(examples.inputs)[1], uniform(n)) < 5


@pytest.mark.parametrize("n", [1, 2, 5, 6, 20])
def test_bin_majority_counts_are_uniform_without_ties(n):
    examples = of_length(draw(BinMajority(), [1, 2, 5, 6, 20]), n)
    expected = np.ones(n + 1)
    if n % 2 == 0:
        expected[n // 2] = 0
    assert chi_square_z(n - examples.inputs.sum(axis=1), expected / expected.sum()) < 5
    assert chi_square_z(np.nonzero(examples.inputs)[1], uniform(n)) < 5
    assert chi_square_z(examples.answers[:, 0], uniform(2)) < 5


@pytest.mark.parametrize("task", [SetMax(symbols=6), AboveMean(symbols=6)], ids=lambda task: task.name)
def test_numbers_come_from_a_range_drawn_per_sequence(task):
    examples = of_length(draw(task, [2, 4]), 4)
    largest = examples.inputs.max(axis=1)
    expected = [sum(((j + 1) ** 4 - j**4) / r**4 for r in range(j + 1, 7)) / 6 for j in range(6)]
    assert chi_square_z(largest, expected) < 5
    one_range = np.full(6, 1 / 6)
    assert chi_square_z(largest, one_range) > 5


@pytest.mark.parametrize("task", [Sort(symbols=9), UniqueCopy(symbols=9)], ids=lambda task: task.name)
def test_sampling_without_replacement_is_uniform(task):
    examples = of_length(draw(task, [2, 5]), 5)
    for position in range(5):
        assert chi_square_z(examples.inputs[:, position], uniform(9)) < 5
    pairs = examples.inputs[:, 1] * 9 + examples.inputs[:, 4]
    assert chi_square_z(pairs, (1 - np.eye(9)).ravel() / 72) < 5


def test_digits_splits_are_disjoint_complete_and_kept():
    train, val, test = (split_indices(split) for split in ("train", "val", "test"))
    assert sorted(np.concatenate([train, val, test])) == list(range(1797))
    task = Digits(patch=8 // 2)
    pools = {}
    for split in ("train", "val", "test"):
        examples = task.generate(np.full(DRAWS, 4), philox("digits", split), split)
        pools[split] = {row.tobytes() for row in examples.features}
    assert len(pools["train"]) > 990  # every picture is drawn (equal pictures would count once)
    assert (
        not pools["train"] & pools["test"]
        and not pools["train"] & pools["val"]
        and not pools["val"] & pools["test"]
    )
    assert pools["test"] == {row.tobytes() for row in task.fixed_items("test").features}
    again = task.generate(np.full(DRAWS, 4), philox("digits", "control"), "train")
    assert pools["train"] & {row.tobytes() for row in again.features}


def test_digits_patches_are_scaled_and_shaped():
    for patch, tokens in ((1, 64), (2, 16), (4, 4)):
        task = Digits(patch=patch)
        assert (task.min_length, task.max_length) == (tokens, tokens)
        examples = task.generate(np.full(64, tokens), philox("patch"))
        assert examples.features.shape == (64, tokens, patch**2) and examples.features.dtype == np.float32
        assert examples.features.min() == 0.0 and examples.features.max() == 1.0
