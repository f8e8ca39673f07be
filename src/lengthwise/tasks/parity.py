"""Whether the number of ones is odd, as three groups published it, with or without the steps."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.chomsky import PROTOCOL, SUITE
from lengthwise.tasks.combinatorics import choose_ratio, mean_largest_share
from lengthwise.tasks.contract import WINDOW, Examples, Symmetry, Task, no_evidence, real_places
from lengthwise.tasks.majority import place_ones


class Parity(Task):
    """The number of ones modulo 2."""

    name = "parity"
    answer_format = "label"
    definition = (
        "Independent uniform bits; the label is the number of ones modulo 2. `balanced`: the number of ones is "
        "uniform over 0…n and their order is uniform; the label is `e` (even) or `o` (odd). `scratchpad`: the answer "
        "is the parity of the first 1, 2, …, n bits, then the result once more."
    )
    worked = (("1 0 1 1", "1"), ("0 1 0 0 1", "0"), ("0", "0"))
    prediction = (
        "Predicted not to generalise: it has no C-RASP program (Huang et al. 2025). Measured there (balanced), exact "
        "match at lengths up to 50 / 51–100 / 101–150: 100 / 83 / 62 % with learned absolute positions, "
        "98 / 75 / 63 % without. With a scratchpad of its own kind a RASP-L program exists (Zhou et al. 2024)."
    )
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count alike"
    source = (
        f"parity_check of {SUITE}; balanced: Huang et al. 2025; Kazemnejad et al. 2023 has lengths from 3"
    )
    deviations = (
        f"the scratchpad is the running parity alone (a variant); {PROTOCOL}; "
        "balanced: published with lengths up to 50"
    )

    def __init__(self, *, balanced: bool = False, scratchpad: bool = False) -> None:
        for option, value in (("balanced", balanced), ("scratchpad", scratchpad)):
            if not isinstance(value, bool):
                raise ValueError(f"task parity: {option}={value!r} is not possible; use true or false")
        self.balanced, self.scratchpad = balanced, scratchpad
        self.symbols = ("0", "1", "e", "o") if balanced else ("0", "1")
        self.answer_symbols = self.symbols[-2:]
        if scratchpad:
            self.answer_format = "sequence"  # type: ignore[misc]  # the one fact that an option changes
        else:
            self.neutral_symbols = ("0",)

    def answer_length(self, length: int) -> int:
        return length + 1 if self.scratchpad else 1

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        if self.balanced:
            bits = place_ones(generator.integers(0, lengths + 1), lengths, generator)
        else:
            bits = generator.integers(0, 2, size=real.shape) * real
        answers, counts = bits.sum(axis=1, keepdims=True) % 2, np.ones_like(lengths)
        if self.scratchpad:
            answers, counts = np.hstack([bits.cumsum(axis=1) % 2, answers]), lengths + 1
        answers = (answers + len(self.symbols) - 2) * (np.arange(answers.shape[1]) < counts[:, None])
        return Examples(bits, lengths, answers, counts, no_evidence(lengths))

    def baselines(self, length: int) -> dict[str, float]:
        if self.scratchpad:
            return self._of_steps(length)
        known = {"uniform": 0.5, "position_only": 0.5, "bag_optimal": 1.0}
        if self.balanced:
            known["position_only"] = (length // 2 + 1) / (length + 1)
        if length > WINDOW:
            known["window"] = _beyond_window(length) if self.balanced else 0.5
        return known

    def _of_steps(self, length: int) -> dict[str, float]:
        """The answer's places 0…n-1 each add a bit, place n repeats the one before."""
        bits = np.arange(1, length + 1)
        if not self.balanced:
            return {
                "uniform": 0.5,
                "position_only": 0.5,
                "remaining_bag": (length * mean_largest_share(length, 2) + 1) / (length + 1),
                "previous_only": (length * 0.5 + 1) / (length + 1),
            }
        # A count uniform over 0…n, in random order, leaves uniform counts in front of and behind each place.
        even = (bits // 2 + 1) / (bits + 1)
        commonest = np.array([np.maximum(np.arange(m + 1), m - np.arange(m + 1)).mean() / m for m in bits])
        follow = np.array([_after_parity(before) for before in range(length)])
        return {
            "uniform": 0.5,
            "position_only": float((even.sum() + even[-1]) / (length + 1)),
            "remaining_bag": float((commonest.sum() + 1) / (length + 1)),
            "previous_only": float((follow.sum() + 1) / (length + 1)),
        }


def _after_parity(before: int) -> float:
    """P(the likelier next bit) where the parity of `before` bits is known, whose number of ones is uniform."""
    ones = np.arange(before + 1)
    next_one = (ones + 1) / (before + 2) / (before + 1)
    shares = np.bincount(ones % 2, next_one, minlength=2)
    totals = np.bincount(ones % 2, minlength=2) / (before + 1)
    return float(np.maximum(shares, totals - shares).sum())


def _beyond_window(length: int) -> float:
    """P(the likelier parity of the bits out of sight, given the ones in the window), balanced bits."""
    seen, hidden = np.arange(WINDOW + 1)[:, None], np.arange(length - WINDOW + 1)[None, :]
    rest = length - WINDOW
    chance = choose_ratio(
        seen + hidden, hidden, length - seen - hidden, rest - hidden, over=(length + 1, rest)
    )  # (j, k): P(k ones out of sight | j in the window)
    odd = chance[:, 1::2].sum(axis=1)
    return float(np.maximum(odd, 1 - odd).mean())
