"""Several fixed distances at once: the task that counts heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lengthwise.tasks.combinatorics import log_factorial
from lengthwise.tasks.contract import WINDOW, Examples, Symmetry, Task, no_evidence, real_places


class Offsets(Task):
    """The bits at several fixed distances before each place."""

    name = "offsets"
    answer_format = "per_token"
    definition = (
        "Independent uniform bits; the answer at position t is the string of the bits at t-1, t-2, t-3, t-5 "
        "(`offsets`, the nearest first), one of 16 symbols; a bit before the start counts as 0. Needs one attention "
        "pattern per offset."
    )
    worked = (
        ("1 0 1 1 0 1", "=0000 =1000 =0100 =1010 =1100 =0111"),
        ("1 1", "=0000 =1000"),
        ("0 1 0", "=0000 =0000 =1000"),
    )
    symmetry = Symmetry("shift of the sequence", "the same shift, up to the start")
    evidence_meaning = "none: fixed distances before each position"
    source = "Lengthwise"
    deviations = "none: defined here"
    causal = True

    def __init__(self, *, offsets: Sequence[int] = (1, 2, 3, 5)) -> None:
        self.offsets = self.integers_option("offsets", offsets, 1, 1024)
        if len(self.offsets) > 8:
            raise ValueError(
                f"task offsets: offsets={list(self.offsets)} is not possible; use at most 8 (2^8 answer symbols)"
            )
        bits = len(self.offsets)
        self.answer_symbols = tuple(f"={code:0{bits}b}" for code in range(2**bits))
        self.symbols = ("0", "1", *self.answer_symbols)

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        inputs = generator.integers(0, 2, size=real.shape) * real
        code = np.zeros_like(inputs)
        for offset in self.offsets:  # the nearest bit is written first
            code *= 2
            code[:, offset:] += inputs[:, :-offset]
        answers = np.where(real, 2 + code, 0)
        return Examples(inputs, lengths, answers, lengths, no_evidence(lengths))

    def baselines(self, length: int) -> dict[str, float]:
        known_bits = np.searchsorted(
            self.offsets, np.arange(length), side="right"
        )  # offsets that fit before t
        bag = {bits: self._bag(length, bits) for bits in np.unique(known_bits).tolist()}
        known = {
            "uniform": 1.0 / len(self.answer_symbols),
            "position_only": float((0.5**known_bits).mean()),
            "bag_optimal": float(np.mean([bag[bits] for bits in known_bits.tolist()])),
        }
        if length > WINDOW and self.offsets[-1] <= WINDOW // 2:
            known["window"] = 1.0
        return known

    @staticmethod
    def _bag(length: int, bits: int) -> float:
        """E[max over patterns of P(pattern | the other n-1 tokens' bag)] for `bits` different other places."""
        others = length - 1
        ones = np.arange(others + 1)
        weight = np.exp(_log_choose(others, ones) - others * np.log(2.0))
        # P(one pattern with j ones | bag) = C(n-1-bits, ones-j) / C(n-1, ones)
        j = np.arange(bits + 1)[:, None]
        left = ones[None, :] - j
        fits = (left >= 0) & (left <= others - bits)
        safe = np.where(fits, left, 0)
        pattern = np.exp(_log_choose(others - bits, safe) - _log_choose(others, ones))
        best = np.where(fits, pattern, 0.0).max(axis=0)
        return float((weight * best).sum())


def _log_choose(top: int, low: np.ndarray) -> np.ndarray:
    return log_factorial(top) - log_factorial(low) - log_factorial(top - low)
