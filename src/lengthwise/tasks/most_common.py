"""The most frequent of several symbols, ties refused."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.contract import Examples, Symmetry, Task, label_examples, real_places

AT_ONCE = 8192
"""Symbols drawn and counts kept in one go for strings that still need a winner."""


class LetterMajority(Task):
    """The most frequent of 26 letters."""

    name = "letter_majority"
    answer_format = "label"
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count alike"
    definition = (
        "n letters, independent and uniform over a to z; strings in which two letters share the highest "
        "count are drawn again. Answer: the most frequent letter."
    )
    worked = (("a b a", "a"), ("q", "q"), ("z c c z c x x", "c"))
    source = (
        "majority of Huang et al. 2025, A formal framework for understanding length generalization in "
        "transformers"
    )
    deviations = (
        "no end symbol after the single answer; shorter training lengths by default (published: 1 to 50, "
        "tested on 51-100 and 101-150). The task majority of Lengthwise is another: two symbols and a fixed "
        "margin"
    )
    prediction = (
        "in C-RASP: predicted to generalise; measured 99.6 % on 51-100 and 97.8 % on 101-150 (learned "
        "positions)"
    )

    def __init__(self) -> None:
        self.symbols = tuple("abcdefghijklmnopqrstuvwxyz")
        self.answer_symbols = self.symbols

    def alphabets(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """(count, k) the symbols that each string is made of."""
        return np.broadcast_to(np.arange(len(self.symbols)), (count, len(self.symbols)))

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        alphabets = self.alphabets(len(lengths), generator)
        inputs, winners = strings_with_a_winner(lengths, alphabets.shape[1], generator)
        inputs = np.take_along_axis(alphabets, inputs, axis=1) * real_places(lengths)
        return label_examples(inputs, lengths, alphabets[np.arange(len(lengths)), winners], None)

    def baselines(self, length: int) -> dict[str, float]:
        chance = 1.0 / len(self.symbols)
        return {"uniform": chance, "position_only": chance, "bag_optimal": 1.0}


class Mode(LetterMajority):
    """The most frequent symbol of a string over a few symbols of its own."""

    name = "mode"
    definition = (
        "Each string draws `distinct` of the `symbols` symbols without replacement; its n symbols are "
        "independent and uniform over these; strings in which two share the highest count are drawn again. "
        "Answer: the most frequent symbol."
    )
    worked = (("s7 s7 s1", "s7"), ("s0", "s0"), ("s4 s9 s9 s4 s2 s9", "s9"))
    source = "variant of mode of Zhou et al. 2023, What algorithms can transformers learn?"
    deviations = "a variant: the number of symbols, how many a string uses, and their probabilities are ours"
    prediction = "has a short RASP-L program: predicted to generalise"

    def __init__(self, *, symbols: int = 52, distinct: int = 5) -> None:
        count = self.integer_option("symbols", symbols, 2, 4096)
        self.distinct = self.integer_option("distinct", distinct, 2, count)
        self.symbols = tuple(f"s{i}" for i in range(count))
        self.answer_symbols = self.symbols

    @property
    def options(self) -> dict[str, int]:
        return {"symbols": len(self.symbols), "distinct": self.distinct}

    def alphabets(self, count: int, generator: np.random.Generator) -> np.ndarray:
        return generator.random((count, len(self.symbols))).argsort(axis=1)[:, : self.distinct]


def strings_with_a_winner(
    lengths: np.ndarray, symbols: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(B, n) independent uniform ids, drawn again until one is the most frequent alone, and that one (B,)."""
    inputs = np.zeros((len(lengths), lengths.max()), dtype=np.int64)
    winners = np.zeros_like(lengths)
    left = np.arange(len(lengths))
    while len(left):
        width = lengths[left].max()
        # Two letters are alike once in 26: many are tried at once.
        tries = max(1, AT_ONCE // (len(left) * (width + symbols)))
        drawn = generator.integers(0, symbols, size=(len(left), tries, width))
        real = np.broadcast_to(np.arange(width) < lengths[left, None, None], drawn.shape)
        string = np.arange(len(left) * tries).reshape(len(left), tries, 1)
        counts = np.bincount((string * symbols + drawn)[real], minlength=len(left) * tries * symbols)
        counts = counts.reshape(len(left), tries, symbols)
        alone = (counts == counts.max(axis=2, keepdims=True)).sum(axis=2) == 1
        rows, found = np.nonzero(alone.any(axis=1))[0], alone.argmax(axis=1)  # the first that has a winner
        inputs[left[rows], :width] = drawn[rows, found[rows]]
        winners[left[rows]] = counts[rows, found[rows]].argmax(axis=1)
        left = np.delete(left, rows)
    return inputs, winners
