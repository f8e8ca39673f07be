"""Tasks on the input as a set: its maximum, its mean."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lengthwise.keyed import philox
from lengthwise.tasks.combinatorics import sum_at_most
from lengthwise.tasks.contract import (
    WINDOW,
    Examples,
    Symmetry,
    Task,
    label_examples,
    no_evidence,
    real_places,
)


def numbers_in_range(lengths: np.ndarray, symbols: int, generator: np.random.Generator) -> np.ndarray:
    """(B, n): r uniform over 1…symbols for each sequence, then independent uniform numbers from 0…r-1."""
    real = real_places(lengths)
    top = generator.integers(1, symbols + 1, size=(len(lengths), 1))
    return generator.integers(0, top, size=real.shape) * real


class SetMax(Task):
    """The largest number."""

    name = "set_max"
    answer_format = "label"
    definition = (
        "A range r uniform over 1…`symbols` is drawn per sequence, then independent uniform numbers from 0…r-1; the "
        "label is their maximum. Without the range, the maximum of a long sequence would be the largest symbol."
    )
    worked = (("3 7 0 7", "7"), ("5", "5"), ("12 40 2", "40"))
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "the first position that holds the maximum"
    source = "Lengthwise, after Lee et al. 2019, Set Transformer"
    deviations = "classes instead of a real number; numbers from a range drawn per sequence"

    def __init__(self, *, symbols: int = 64) -> None:
        count = self.integer_option("symbols", symbols, 2, 512)
        self.symbols = tuple(str(i) for i in range(count))
        self.answer_symbols = self.symbols
        self.neutral_symbols = self.symbols[:1]  # a zero more changes no maximum

    @property
    def options(self) -> dict[str, int]:
        return {"symbols": len(self.symbols)}

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        inputs = numbers_in_range(lengths, len(self.symbols), generator)
        place = inputs.argmax(axis=1)  # pads hold 0 and come last, so they are never the first maximum
        return label_examples(inputs, lengths, inputs[np.arange(len(lengths)), place], place)

    def baselines(self, length: int) -> dict[str, float]:
        count = len(self.symbols)
        known = {
            "uniform": 1.0 / count,
            "position_only": float(self._maximum(length).mean(axis=0).max()),
            "bag_optimal": 1.0,
        }
        if length > WINDOW:
            # The window's maximum a holds all that the window says (numbers are uniform below r).
            window, rest = self._maximum(WINDOW) / count, self._maximum(length - WINDOW)
            joint = np.triu(window.T @ rest, 1)
            joint += np.diag((window * np.cumsum(rest, axis=1)).sum(axis=0))
            known["window"] = float(joint.max(axis=1).sum())
        return known

    def _maximum(self, terms: int) -> np.ndarray:
        """(r, j): P(the maximum of `terms` uniform numbers from 0…r-1 is j), r = 1…symbols."""
        count = len(self.symbols)
        share = np.minimum(np.arange(count + 1)[None, :] / np.arange(1, count + 1)[:, None], 1.0)
        return np.diff(share**terms, axis=1)


class AboveMean(Task):
    """Which numbers lie above the mean."""

    name = "above_mean"
    answer_format = "per_token"
    definition = (
        "Numbers as in set_max; the answer at each position says whether its number is above (strictly) the mean of "
        "the sequence. Not causal: as a decoder the answers follow the input."
    )
    worked = (("1 2 6", "no no yes"), ("4 4", "no no"), ("0 10 5 2", "no yes yes no"))
    symmetry = Symmetry("P", "P")
    evidence_meaning = "none: all positions count alike"
    source = "Lengthwise"
    deviations = "none: defined here"

    def __init__(self, *, symbols: int = 64) -> None:
        self.count = self.integer_option("symbols", symbols, 2, 512)
        self.answer_symbols = ("no", "yes")
        self.symbols = (*(str(i) for i in range(self.count)), *self.answer_symbols)

    @property
    def options(self) -> dict[str, int]:
        return {"symbols": self.count}

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        inputs = numbers_in_range(lengths, self.count, generator)
        above = inputs * lengths[:, None] > inputs.sum(axis=1, keepdims=True)
        answers = np.where(real_places(lengths), self.count + above, 0)
        return Examples(inputs, lengths, answers, lengths, no_evidence(lengths))

    def baselines(self, length: int) -> dict[str, float]:
        token, yes = _above_mean(length, self.count)
        share = float(yes.sum())
        known = {
            "uniform": 0.5,
            "position_only": max(share, 1 - share),
            "token_only": float(np.maximum(yes, token - yes).sum()),
            "bag_optimal": 1.0,
        }
        if length > WINDOW:
            known["window"] = _above_window_mean(length, self.count)
        return known


@lru_cache(maxsize=256)
def _above_mean(length: int, symbols: int) -> tuple[np.ndarray, np.ndarray]:
    """P(x) and P(x, x above the mean), both (symbols,), exactly: x n > x + sum of the others."""
    token, yes = np.zeros(symbols), np.zeros(symbols)
    for top in range(1, symbols + 1):
        numbers = np.arange(top)
        token[:top] += 1 / top / symbols
        if length > 1:
            yes[:top] += sum_at_most(length - 1, top, (length - 1) * numbers - 1) / top / symbols
    return token, yes


@lru_cache(maxsize=256)
def _above_window_mean(length: int, symbols: int, sequences: int = 1024) -> float:
    """Monte Carlo (keyed): the same rule with the mean of the `WINDOW` tokens around, shifted to lie inside."""
    x = numbers_in_range(
        np.full(sequences, length), symbols, philox("baseline", "above_mean", length, symbols)
    )
    sums = np.concatenate([np.zeros((sequences, 1), dtype=np.int64), x.cumsum(axis=1)], axis=1)
    start = np.clip(np.arange(length) - WINDOW // 2, 0, length - WINDOW)
    guess = x * WINDOW > sums[:, start + WINDOW] - sums[:, start]
    return float((guess == (x * length > sums[:, -1:])).mean())
