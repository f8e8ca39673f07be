"""A string in, a string of the same length out: reverse, copy, sort, unique_copy."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lengthwise.tasks.chomsky import NOT_REGULAR, PROTOCOL, SUITE
from lengthwise.tasks.combinatorics import choose_ratio, largest_share, mean_largest_share
from lengthwise.tasks.contract import Examples, Symmetry, Task, no_evidence, real_places


class Strings(Task):
    """Answers as long as the input; no single position decides them."""

    answer_format = "sequence"
    evidence_meaning = "none: each answer symbol has its own position"
    number_kinds: ClassVar[tuple[str, ...]] = ("index",)

    def position_numbers(
        self, examples: Examples, answer_width: int, kind: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """index: 1…n in both strings. coupled: an answer symbol has the number of the input symbol that it repeats."""
        inputs = np.broadcast_to(np.arange(1, examples.inputs.shape[1] + 1), examples.inputs.shape)
        places = np.broadcast_to(np.arange(answer_width), (len(examples), answer_width))
        return inputs, 1 + (self.coupled(places, examples.lengths) if kind == "coupled" else places)

    def coupled(self, places: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The place in the input (from 0) that the answer's symbol at `places` (B, m) repeats."""
        return places

    def __init__(self, symbols: int) -> None:
        count = self.integer_option("symbols", symbols, 2, 4096)
        self.symbols = tuple(str(i) for i in range(count))
        self.answer_symbols = self.symbols

    @property
    def options(self) -> dict[str, int]:
        return {"symbols": len(self.symbols)}

    def draw(self, lengths: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """(B, n) inputs; places past the length may hold anything."""
        return generator.integers(0, len(self.symbols), size=(len(lengths), lengths.max()))

    def answer(self, inputs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(B, n) answers; places past the length may hold anything."""
        return inputs

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        inputs = self.draw(lengths, generator) * real
        answers = self.answer(inputs, lengths) * real
        return Examples(inputs, lengths, answers, lengths, no_evidence(lengths))

    def baselines(self, length: int) -> dict[str, float]:
        count = len(self.symbols)
        return {
            "uniform": 1.0 / count,
            "position_only": 1.0 / count,
            "bag_optimal": largest_share(length, count),
            "remaining_bag": mean_largest_share(length, count),
            "previous_only": 1.0 / count,
        }


class Copy(Strings):
    """The string again."""

    name = "copy"
    definition = "Independent uniform tokens over `symbols` (2, as published); the answer is the same string."
    worked = (("0 1 1", "0 1 1"), ("1 0 1 0", "1 0 1 0"), ("0", "0"))
    prediction = (
        "predicted not to generalise, as tokens repeat; measured 25.6 % exact match on 51-100 and 0 % on 101-150 with "
        "learned positions, 28.0 and 0 % without (Huang et al. 2025)"
    )
    symmetry = Symmetry("P", "P")
    source = "Huang et al. 2025 (repeat_copy), A formal framework for understanding length generalization"
    deviations = (
        "symbols are called 0 and 1; shorter training lengths by default (published: 1 to 50, tested on 51-100 and "
        "101-150)"
    )
    number_kinds = ("index", "coupled")

    def __init__(self, *, symbols: int = 2) -> None:
        super().__init__(symbols)


class Reverse(Strings):
    """The string backwards."""

    name = "reverse"
    definition = "Independent uniform tokens over `symbols` (2: bits, as published); the answer is the reversed string."
    worked = (("1 0 0", "0 0 1"), ("0 1 1 0 1", "1 0 1 1 0"), ("1", "1"))
    prediction = NOT_REGULAR
    symmetry = Symmetry("P", "JPJ")
    source = f"reverse_string of {SUITE}"
    deviations = PROTOCOL
    number_kinds = ("index", "coupled")

    def __init__(self, *, symbols: int = 2) -> None:
        super().__init__(symbols)

    def coupled(self, places: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return np.maximum(lengths[:, None] - 1 - places, 0)

    def answer(self, inputs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        places = np.broadcast_to(np.arange(inputs.shape[1]), inputs.shape)
        return np.take_along_axis(inputs, self.coupled(places, lengths), axis=1)


class _DistinctStrings(Strings):
    """Tokens drawn without replacement, so a string is at most as long as the alphabet."""

    def __init__(self, symbols: int) -> None:
        super().__init__(symbols)
        self.max_length = len(self.symbols)

    def draw(self, lengths: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        shuffled = generator.random((len(lengths), len(self.symbols))).argsort(axis=1)
        return shuffled[:, : lengths.max()]


class UniqueCopy(_DistinctStrings):
    """A string of different tokens again."""

    name = "unique_copy"
    definition = (
        "Tokens sampled without replacement from `symbols` (150, as published); the answer is the same string. "
        "Lengths up to `symbols`."
    )
    worked = (("7 140 3", "7 140 3"), ("12", "12"), ("0 149 75 1", "0 149 75 1"))
    prediction = (
        "predicted to generalise; measured 99.9 % exact match on 51-100 and 98.7 % on 101-150 with learned positions, "
        "18.0 and 0 % without (Huang et al. 2025)"
    )
    symmetry = Symmetry("P", "P")
    source = "Huang et al. 2025, A formal framework for understanding length generalization in transformers"
    deviations = "shorter training lengths by default"
    number_kinds = ("index", "coupled")

    def __init__(self, *, symbols: int = 150) -> None:
        super().__init__(symbols)

    def baselines(self, length: int) -> dict[str, float]:
        count = len(self.symbols)
        return {
            "uniform": 1.0 / count,
            "position_only": 1.0 / count,
            "bag_optimal": 1.0 / length,
            "remaining_bag": float((1.0 / np.arange(1, length + 1)).mean()),
            "previous_only": (1.0 / count + (length - 1) / (count - 1)) / length,
        }


class Sort(_DistinctStrings):
    """Different tokens in ascending order."""

    name = "sort"
    definition = (
        "Tokens sampled without replacement from `symbols` (150, as published); the answer is the same tokens in "
        "ascending order. Lengths up to `symbols`."
    )
    worked = (("7 140 3", "3 7 140"), ("12", "12"), ("149 0 75 1", "0 1 75 149"))
    prediction = (
        "predicted to generalise; measured 99.96 % exact match on 51-100 and 99.4 % on 101-150 with learned "
        "positions, 99.8 and 80.6 % without (Huang et al. 2025). Beware: as all tokens differ, the symbol after the "
        "previous one is right with probability n / symbols (previous_only), 2/3 at length 100: look at exact match"
    )
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count"
    source = "Huang et al. 2025, A formal framework for understanding length generalization in transformers"
    deviations = "shorter training lengths by default"

    def __init__(self, *, symbols: int = 150) -> None:
        super().__init__(symbols)

    def answer(self, inputs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        behind = np.where(real_places(lengths), inputs, len(self.symbols))
        return np.sort(behind, axis=1)

    def baselines(self, length: int) -> dict[str, float]:
        count = len(self.symbols)
        rank, symbol = np.arange(length)[:, None], np.arange(count)[None, :]
        order_statistic = choose_ratio(
            symbol, rank, count - 1 - symbol, length - 1 - rank, over=(count, length)
        )  # (t, a): P(the t-th smallest is a)
        return {
            "uniform": 1.0 / count,
            "position_only": float(order_statistic.max(axis=1).mean()),
            "bag_optimal": 1.0,
            "remaining_bag": 1.0,
            # The gaps of a random subset are exchangeable, so each is 1 with the chance that the first symbol is drawn.
            "previous_only": length / count,
        }
