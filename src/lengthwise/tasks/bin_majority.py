"""The more frequent of two symbols, as published."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.combinatorics import majority_in_window
from lengthwise.tasks.contract import WINDOW, Examples, Symmetry, Task, label_examples
from lengthwise.tasks.majority import place_ones


class BinMajority(Task):
    """Task card: bin_majority.

    Definition: the number of zeros is uniform over 0…n without the tie n/2, the order is uniform; the label is the more
    frequent bit. Source: Huang et al. 2025, "A formal framework for understanding length generalization in
    transformers". Symmetry: (P, identity). Evidence: none. Format: one label out of two.
    Known deviations: as an encoder it is read from one slot; as a decoder there is no end symbol after the bit.
    """

    name = "bin_majority"
    answer_format = "label"
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count alike"
    source = "Huang et al. 2025, A formal framework for understanding length generalization in transformers"
    deviations = "no end symbol after the single answer"

    def __init__(self) -> None:
        self.symbols = ("0", "1")
        self.answer_symbols = self.symbols

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        even = lengths % 2 == 0
        zeros = generator.integers(0, lengths + 1 - even)
        zeros += even & (zeros >= lengths // 2)  # step over the tie
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
