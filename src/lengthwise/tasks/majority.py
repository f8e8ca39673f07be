"""The more frequent of two symbols, by a fixed margin: the order-free control."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lengthwise.tasks.combinatorics import majority_in_window
from lengthwise.tasks.contract import WINDOW, Examples, Symmetry, Task, label_examples, real_places


class Majority(Task):
    """The more frequent of two symbols, by a fixed margin."""

    name = "majority"
    answer_format = "label"
    definition = (
        "Odd length; the numbers of the two symbols differ by a margin drawn uniformly from `margins` (those <= n); "
        "the label is the more frequent symbol, each half of the time; the order is uniform."
    )
    worked = (("1 0 1", "1"), ("0 0 0", "0"), ("1 1 0 0 1 1 1", "1"))
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count alike"
    source = "Lengthwise"
    deviations = (
        "margins are fixed numbers of tokens: with a rate drawn per sequence, most sequences are so lopsided that 21 "
        "tokens answer as well as the whole (93 % at length 101); differs from bin_majority and letter_majority in "
        "how counts are drawn"
    )

    def __init__(self, *, margins: Sequence[int] = (1, 3, 5)) -> None:
        self.margins = self.integers_option("margins", margins, 1, 999)
        if any(margin % 2 == 0 for margin in self.margins):
            raise ValueError(
                f"task majority: margins={list(self.margins)} is not possible; use odd margins, e.g. [1, 3, 5]"
            )
        self.min_length = self.margins[0]
        self.symbols = ("0", "1")
        self.answer_symbols = self.symbols

    def legal_length(self, length: int) -> str | None:
        return None if length % 2 else "use odd lengths, so that there is no tie"

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        fitting = np.searchsorted(self.margins, lengths, side="right")
        margin = np.array(self.margins)[generator.integers(0, fitting)]
        label = generator.integers(0, 2, size=len(lengths))
        ones = np.where(label == 1, lengths + margin, lengths - margin) // 2
        return label_examples(place_ones(ones, lengths, generator), lengths, label, None)

    def baselines(self, length: int) -> dict[str, float]:
        known = {"uniform": 0.5, "position_only": 0.5, "bag_optimal": 1.0}
        if length > WINDOW:
            margins = np.array([margin for margin in self.margins if margin <= length])
            known["window"] = float(majority_in_window(length, (length + margins) // 2, WINDOW).mean())
        return known


def place_ones(ones: np.ndarray, lengths: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(B, n) bits with `ones` (B,) ones each at uniformly chosen real places."""
    keys = generator.random((len(lengths), lengths.max()))
    keys[~real_places(lengths)] = 2.0  # behind every real place
    ranks = keys.argsort(axis=1).argsort(axis=1)
    return (ranks < ones[:, None]).astype(np.int64)
