"""One answer from all symbols of a set: the largest, the sum, how many different ones."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.contract import (
    WINDOW,
    Examples,
    Symmetry,
    Task,
    label_examples,
    no_evidence,
    real_places,
)


class MaxRegression(Task):
    """Task card: max_regression."""

    name = "max_regression"
    answer_format = "label"
    definition = (
        "Independent uniform whole numbers from 1 to `largest` (99); the label is the largest of them."
    )
    worked = (("7", "7"), ("12 99 3", "99"), ("40 8 40 39", "40"))
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "the first position that holds the maximum"
    source = "Lee et al. 2019, Set Transformer (max regression)"
    deviations = (
        "classes instead of a real number, so accuracy instead of the mean absolute error; lengths are mixed "
        "within a batch instead of one a batch"
    )
    prediction = (
        "Long sets have their maximum near 99 (see position_only), so that accuracy there says little; "
        "set_max draws a range for each sequence instead"
    )

    def __init__(self, *, largest: int = 99) -> None:
        self.largest = self.integer_option("largest", largest, 2, 4096)
        self.symbols = tuple(str(i) for i in range(1, self.largest + 1))
        self.answer_symbols = self.symbols

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        inputs = generator.integers(0, self.largest, size=real.shape) * real
        place = inputs.argmax(axis=1)  # pads hold the smallest and come last
        return label_examples(inputs, lengths, inputs[np.arange(len(lengths)), place], place)

    def baselines(self, length: int) -> dict[str, float]:
        known = {
            "uniform": 1.0 / self.largest,
            "position_only": float(self._maximum(length).max()),
            "bag_optimal": 1.0,
        }
        if length > WINDOW:
            # Given the window's maximum a, the whole has it unless another symbol is larger.
            rest = self._maximum(length - WINDOW)
            same = np.cumsum(rest)
            larger = np.append(np.maximum.accumulate(rest[::-1])[::-1][1:], 0.0)
            known["window"] = float((self._maximum(WINDOW) * np.maximum(same, larger)).sum())
        return known

    def _maximum(self, terms: int) -> np.ndarray:
        """(j,): P(the maximum of `terms` numbers is j), j = 1…largest."""
        return np.diff((np.arange(self.largest + 1) / self.largest) ** terms)


class DigitSum(Task):
    """Task card: digit_sum."""

    name = "digit_sum"
    answer_format = "sequence"
    variable_answers = True
    definition = "Independent uniform digits from 1 to 9; the answer is their sum in decimal digits, the highest first."
    worked = (("5", "5"), ("9 9", "1 8"), ("1 2 3 4 5", "1 5"))
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count alike"
    source = "Zaheer et al. 2017, Deep Sets (sum of digits)"
    deviations = (
        "the sum is written in digits, so that sums above those of training can be said at all, instead of a "
        "real number that is rounded: exact match is the published accuracy. Published sizes in training: 1 "
        "to 10 in the paper, 1 to 9 in the code"
    )
    prediction = (
        "Measured by the authors up to 95 digits: a sum over the set generalises, recurrent networks do not"
    )

    def __init__(self) -> None:
        self.symbols = tuple(str(i) for i in range(10))
        self.answer_symbols = self.symbols

    def answer_length(self, length: int) -> int:
        return len(str(9 * length))

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        inputs = generator.integers(1, 10, size=real.shape) * real
        sums = inputs.sum(axis=1)
        powers = 10 ** np.arange(self.answer_length(int(lengths.max())))
        digits = (sums[:, None] >= powers).sum(axis=1)
        powers = powers[
            np.maximum(digits[:, None] - 1 - np.arange(len(powers)), 0)
        ]  # the highest digit's first
        answers = sums[:, None] // powers % 10 * (np.arange(powers.shape[1]) < digits[:, None])
        return Examples(inputs, lengths, answers, digits, no_evidence(lengths))

    def baselines(self, length: int) -> dict[str, float]:
        return self.beside_measured({"bag_optimal": 1.0, "remaining_bag": 1.0}, length)


class UniqueCount(Task):
    """Task card: unique_count."""

    name = "unique_count"
    answer_format = "label"
    definition = (
        "The number c of different symbols is uniform over 1…min(n, `symbols`); c symbols are drawn without "
        "replacement, each stands at least once, the other n - c places hold independent uniform ones of "
        "them, and the order is uniform. The label is c."
    )
    worked = (("s3", "1"), ("s3 s3 s0", "2"), ("s1 s0 s1 s4 s4", "3"))
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count"
    source = "variant of counting unique characters, Lee et al. 2019, Set Transformer"
    deviations = (
        "a variant: symbols in place of pictures of characters, a class in place of the rate of a Poisson "
        "distribution; how often each symbol stands is defined here"
    )

    def __init__(self, *, symbols: int = 10) -> None:
        self.count = self.integer_option("symbols", symbols, 2, 512)
        self.answer_symbols = tuple(str(i) for i in range(1, self.count + 1))
        self.symbols = (*(f"s{i}" for i in range(self.count)), *self.answer_symbols)

    @property
    def options(self) -> dict[str, int]:
        return {"symbols": self.count}

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        different = generator.integers(1, np.minimum(lengths, self.count) + 1)
        kinds = generator.random((len(lengths), self.count)).argsort(axis=1)
        # Each kind once, then any of them; then the order is shuffled.
        place = np.broadcast_to(np.arange(real.shape[1]), real.shape)
        which = np.where(
            place < different[:, None], place, generator.integers(0, different[:, None], size=real.shape)
        )
        keys = generator.random(real.shape)
        keys[~real] = 2.0  # stays behind every real place
        inputs = np.take_along_axis(kinds, np.take_along_axis(which, keys.argsort(axis=1), axis=1), axis=1)
        return label_examples(inputs * real, lengths, self.count - 1 + different, None)

    def baselines(self, length: int) -> dict[str, float]:
        return {
            "uniform": 1.0 / self.count,
            "position_only": 1.0 / min(length, self.count),
            "bag_optimal": 1.0,
        }
