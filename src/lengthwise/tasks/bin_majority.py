"""The more frequent of two symbols, once or in three strings at a time, as published."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.combinatorics import majority_in_window
from lengthwise.tasks.contract import WINDOW, Examples, Symmetry, Task, label_examples, no_evidence
from lengthwise.tasks.majority import place_ones


class BinMajority(Task):
    """The more frequent of two symbols."""

    name = "bin_majority"
    answer_format = "label"
    definition = (
        "The number of zeros is uniform over 0…n without the tie n/2, the order is uniform; the label is the more "
        "frequent bit."
    )
    worked = (("0 1 1", "1"), ("0 0 1 0", "0"), ("1", "1"))
    prediction = (
        "predicted to generalise; measured 99.99 % on 51-100 and 99.96 % on 101-150 with learned positions, 100 and "
        "100 % without (Huang et al. 2025)"
    )
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count alike"
    source = "Huang et al. 2025, A formal framework for understanding length generalization in transformers"
    deviations = (
        "no end symbol after the single answer; shorter training lengths by default, odd ones (published: 1 to 50, "
        "tested on 51-100 and 101-150)"
    )

    def __init__(self) -> None:
        self.symbols = ("0", "1")
        self.answer_symbols = self.symbols

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        zeros = untied(lengths, generator)
        ones = lengths - zeros
        return label_examples(
            place_ones(ones, lengths, generator), lengths, (ones > zeros).astype(np.int64), None
        )

    def baselines(self, length: int) -> dict[str, float]:
        known = {"uniform": 0.5, "position_only": 0.5, "bag_optimal": 1.0}
        if length > WINDOW:
            ones = np.arange(length // 2 + 1, length + 1)  # the other half is its mirror image
            known["window"] = float(majority_in_window(length, ones, WINDOW).mean())
        return known


class BinMajorityInterleave(Task):
    """The more frequent bit in each of three interleaved strings."""

    name = "bin_majority_interleave"
    answer_format = "sequence"
    symmetry = Symmetry("permutations within each third place", "identity")
    evidence_meaning = "none: all positions of a string count alike"
    definition = (
        "Three strings of n/3 bits, each with a number of zeros uniform over 0 to n/3 without the tie and "
        "in uniform order, are interleaved: places 0, 3, 6, ... are the first string. Answer: the more "
        "frequent bit of each string, in their order."
    )
    worked = (("0 1 1", "0 1 1"), ("1 0 0 1 0 1 0 0 1", "1 0 1"), ("1 1 0 1 1 0", "1 1 0"))
    source = "Huang et al. 2025, A formal framework for understanding length generalization in transformers"
    deviations = (
        "lengths are multiples of 3 (published: drawn from 3 to 50, then rounded to one); shorter training "
        "lengths by default"
    )
    prediction = (
        "in C-RASP with periodic positions: predicted to generalise with learned positions, not without; "
        "measured 96.8 % on 51-100 and 84.7 % on 101-150 with learned positions, 68.8 and 39.5 % without"
    )
    min_length = 3

    def __init__(self) -> None:
        self.symbols = ("0", "1")
        self.answer_symbols = self.symbols

    def legal_length(self, length: int) -> str | None:
        return None if length % 3 == 0 else "use multiples of 3: three strings of equal length"

    def answer_length(self, length: int) -> int:
        return 3

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        each = lengths // 3
        inputs = np.zeros((len(lengths), lengths.max()), dtype=np.int64)
        answers = np.empty((len(lengths), 3), dtype=np.int64)
        for string in range(3):
            ones = each - untied(each, generator)
            inputs[:, string::3] = place_ones(ones, each, generator)
            answers[:, string] = 2 * ones > each
        return Examples(inputs, lengths, answers, np.full_like(lengths, 3), no_evidence(lengths))

    def baselines(self, length: int) -> dict[str, float]:
        """bag_optimal and remaining_bag know how many ones there are in all."""
        each = length // 3
        ones = np.arange(each + 1)
        fair = (2 * ones != each) / np.count_nonzero(2 * ones != each)
        halves = (fair * (2 * ones < each), fair * (2 * ones > each))  # P(ones, answer)

        def best(known: int) -> float:
            """The chance of the right bit after `known` bits, from them and the sum of all ones."""
            chance = 0.0
            for bits in np.ndindex(*(2,) * known):
                both = []
                for half in halves:
                    strings = [*(halves[bit] for bit in bits), half, *[fair] * (2 - known)]
                    both.append(np.convolve(np.convolve(strings[0], strings[1]), strings[2]))
                chance += float(np.maximum(*both).sum())
            return chance

        chances = [best(known) for known in range(3)]
        return {
            "uniform": 0.5,
            "position_only": 0.5,
            "bag_optimal": chances[0],
            "remaining_bag": float(np.mean(chances)),
            "previous_only": 0.5,
        }


def untied(lengths: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(B,) numbers uniform over 0…length, without length / 2."""
    even = lengths % 2 == 0
    numbers = generator.integers(0, lengths + 1 - even)
    return numbers + (even & (numbers >= lengths // 2))  # step over the tie
