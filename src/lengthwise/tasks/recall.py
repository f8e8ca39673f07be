"""One symbol recalled, or a few out of noise: induction heads, selective copying."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.combinatorics import largest_share, mean_largest_share
from lengthwise.tasks.contract import (
    WINDOW,
    Examples,
    Symmetry,
    Task,
    label_examples,
    no_evidence,
    real_places,
)
from lengthwise.tasks.majority import place_ones


class InductionHeads(Task):
    """Task card: induction_heads."""

    name = "induction_heads"
    answer_format = "label"
    definition = (
        "Of `symbols` (16) symbols one, `*`, is special. It stands last and once before, at a place uniform "
        "over 0…n-3; all other places hold independent uniform ordinary symbols. The label is the symbol "
        "behind the first `*`."
    )
    worked = (("* 3 *", "3"), ("0 7 * 2 9 *", "2"), ("* 14 5 5 0 1 *", "14"))
    symmetry = Symmetry(
        "permutations that move the first `*` and its successor together, and not the last", "identity"
    )
    evidence_meaning = "position of the symbol behind the first `*`"
    source = "Gu & Dao 2023, Mamba: linear-time sequence modeling with selective state spaces (appendix E)"
    deviations = (
        "the special symbol is counted among the 16, which the paper leaves open; shorter lengths by default"
    )
    prediction = (
        "Measured by the authors, trained at 256: attention with xPos up to about twice that length, with "
        "rotary or absolute positions hardly beyond it"
    )
    min_length = 3

    def __init__(self, *, symbols: int = 16) -> None:
        self.count = self.integer_option("symbols", symbols, 3, 4096)
        self.answer_symbols = tuple(str(i) for i in range(self.count - 1))
        self.symbols = (*self.answer_symbols, "*")

    @property
    def options(self) -> dict[str, int]:
        return {"symbols": self.count}

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        rows, special = np.arange(len(lengths)), self.count - 1
        inputs = generator.integers(0, special, size=(len(lengths), lengths.max())) * real_places(lengths)
        place = generator.integers(0, lengths - 2)
        inputs[rows, place] = inputs[rows, lengths - 1] = special
        return label_examples(inputs, lengths, inputs[rows, place + 1], place + 1)

    def baselines(self, length: int) -> dict[str, float]:
        ordinary = self.count - 1
        known = {
            "uniform": 1.0 / ordinary,
            "position_only": 1.0 / ordinary,
            "bag_optimal": largest_share(length - 2, ordinary),
        }
        if length > WINDOW:
            # Of the n-2 places of `*`, W-2 lie in the window; from the one right before it, the answer is the
            # window's first symbol, which is the best guess whenever no `*` is seen.
            outside = length - WINDOW - 1
            known["window"] = (WINDOW - 1 + outside / ordinary) / (length - 2)
        return known


class SelectiveCopying(Task):
    """Task card: selective_copying."""

    name = "selective_copying"
    answer_format = "sequence"
    definition = (
        "`tokens` independent uniform data symbols at a uniform choice of places, noise `_` at all others -> "
        "the data symbols in order. There are `symbols` symbols, the noise among them (16: 15 of data)."
    )
    worked = (
        ("_ 1 _ _ 2 3", "1 2 3"),
        ("4 _ 4 _ _ 1 _ _", "4 4 1"),
        ("_ 15 9 _ 7 _ 15 _", "15 9 7 15"),
    )
    symmetry = Symmetry("moving noise", "identity")
    evidence_meaning = "none: each answer symbol has its own position"
    source = (
        "Gu & Dao 2023, Mamba: linear-time sequence modeling with selective state spaces (selective copying)"
    )
    deviations = (
        "in the code that the paper builds on, a marker that asks for the answer is one of the 16 symbols "
        "too, which leaves 14 of data; here slots or the separator ask, and are counted by no task; shorter "
        "lengths and fewer data symbols by default"
    )

    def __init__(self, *, symbols: int = 16, tokens: int = 16) -> None:
        count = self.integer_option("symbols", symbols, 2, 4096)
        self.tokens = self.min_length = self.integer_option("tokens", tokens, 1, 4096)
        self.answer_symbols = tuple(str(i) for i in range(1, count))
        self.symbols = ("_", *self.answer_symbols)

    @property
    def options(self) -> dict[str, int]:
        return {"symbols": len(self.symbols), "tokens": self.tokens}

    def answer_length(self, length: int) -> int:
        return self.tokens

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        counts = np.full_like(lengths, self.tokens)
        data = generator.integers(1, len(self.symbols), size=(len(lengths), self.tokens))
        inputs = place_ones(counts, lengths, generator)
        inputs[inputs == 1] = data.ravel()  # row by row, as many in each
        return Examples(inputs, lengths, data, counts, no_evidence(lengths))

    def baselines(self, length: int) -> dict[str, float]:
        """Noise says nothing, so that none of them depends on the length."""
        kinds = len(self.answer_symbols)
        return {
            "uniform": 1.0 / kinds,
            "position_only": 1.0 / kinds,
            "bag_optimal": largest_share(self.tokens, kinds),
            "remaining_bag": mean_largest_share(self.tokens, kinds),
            "previous_only": 1.0 / kinds,
        }
