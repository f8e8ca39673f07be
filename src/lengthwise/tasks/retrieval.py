"""One token to be found by its place: last, first."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.combinatorics import largest_share
from lengthwise.tasks.contract import WINDOW, Examples, Symmetry, Task, label_examples, real_places


class Last(Task):
    """The last token."""

    name = "last"
    answer_format = "label"
    definition = "Independent uniform tokens; the label is the last one."
    worked = (("s3 s1 s7", "s7"), ("s0", "s0"), ("s2 s2 s5 s4", "s4"))
    symmetry = Symmetry("permutations that fix the last position", "identity")
    evidence_meaning = "the last position"
    source = "Lengthwise"
    deviations = "none: defined here"

    def __init__(self, *, symbols: int = 8) -> None:
        count = self.integer_option("symbols", symbols, 2, 4096)
        self.symbols = tuple(f"s{i}" for i in range(count))
        self.answer_symbols = self.neutral_symbols = self.symbols

    @property
    def options(self) -> dict[str, int]:
        return {"symbols": len(self.symbols)}

    def _place(self, lengths: np.ndarray) -> np.ndarray:
        return lengths - 1

    def neutral_gaps(self, examples: Examples) -> np.ndarray:
        """Neither behind the last symbol nor under its number."""
        gaps = super().neutral_gaps(examples)
        gaps[:, -2:] = False
        return gaps

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        inputs = generator.integers(0, len(self.symbols), size=(len(lengths), lengths.max()))
        inputs[~real_places(lengths)] = 0
        place = self._place(lengths)
        return label_examples(inputs, lengths, inputs[np.arange(len(lengths)), place], place)

    def baselines(self, length: int) -> dict[str, float]:
        chance = 1.0 / len(self.symbols)
        known = {
            "uniform": chance,
            "position_only": chance,
            "bag_optimal": largest_share(length, len(self.symbols)),
        }
        if length > WINDOW:
            known["window"] = self._window()
        return known

    def _window(self) -> float:
        return 1.0


class First(Last):
    """The first token."""

    name = "first"
    definition = "Independent uniform tokens; the label is the first one."
    worked = (("s3 s1 s7", "s3"), ("s0", "s0"), ("s2 s2 s5 s4", "s2"))
    symmetry = Symmetry("permutations that fix the first position", "identity")
    evidence_meaning = "the first position"

    def _place(self, lengths: np.ndarray) -> np.ndarray:
        return np.zeros_like(lengths)

    def neutral_gaps(self, examples: Examples) -> np.ndarray:
        """Neither in front of the first symbol nor under its number."""
        gaps = Task.neutral_gaps(self, examples)
        gaps[:, 0] = False
        gaps[:, 1] &= examples.inputs.shape[1] > 1
        return gaps

    def _window(self) -> float:
        return 1.0 / len(self.symbols)  # the last tokens say nothing about the first
