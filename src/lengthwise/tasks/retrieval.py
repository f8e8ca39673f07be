"""One token to be found by its place: last, first."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.combinatorics import largest_share
from lengthwise.tasks.contract import WINDOW, Examples, Symmetry, Task, label_examples, real_places


class Last(Task):
    """Task card: last.

    Definition: independent uniform tokens; the label is the last one. Source: Lengthwise.
    Symmetry: permutations of all positions but the last, identity. Evidence: the last position.
    Format: one label. Known deviations: none (defined here).
    """

    name = "last"
    answer_format = "label"
    symmetry = Symmetry("permutations that fix the last position", "identity")
    evidence_meaning = "the last position"
    source = "Lengthwise"
    deviations = "none: defined here"

    def __init__(self, *, symbols: int = 8) -> None:
        count = self.integer_option("symbols", symbols, 2, 4096)
        self.symbols = tuple(f"s{i}" for i in range(count))
        self.answer_symbols = self.symbols

    @property
    def options(self) -> dict[str, int]:
        return {"symbols": len(self.symbols)}

    def _place(self, lengths: np.ndarray) -> np.ndarray:
        return lengths - 1

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
    """Task card: first.

    Definition: independent uniform tokens; the label is the first one. Source: Lengthwise.
    Symmetry: permutations of all positions but the first, identity. Evidence: position 0.
    Format: one label. Known deviations: none (defined here).
    """

    name = "first"
    symmetry = Symmetry("permutations that fix the first position", "identity")
    evidence_meaning = "the first position"

    def _place(self, lengths: np.ndarray) -> np.ndarray:
        return np.zeros_like(lengths)

    def _window(self) -> float:
        return 1.0 / len(self.symbols)  # the last tokens say nothing about the first
