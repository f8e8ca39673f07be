"""A string in, a string of the same length out: reverse, copy, sort, unique_copy."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.combinatorics import choose_ratio, largest_share, mean_largest_share
from lengthwise.tasks.contract import Examples, Symmetry, Task, no_evidence, real_places


class _Strings(Task):
    """Answers as long as the input; no single position decides them."""

    answer_format = "sequence"
    evidence_meaning = "none: each answer symbol has its own position"

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


class Copy(_Strings):
    """Task card: copy.

    Definition: independent uniform tokens over `symbols` (2: a and b of the published task) -> the same string.
    Source: repeat_copy of Huang et al. 2025. Symmetry: (P, P). Evidence: answer symbol t is at position t, so no single
    one. Format: sequence with an end symbol (decoder, encoder_decoder); slots (encoder).
    Known deviations: symbols are called 0 and 1.
    """

    name = "copy"
    symmetry = Symmetry("P", "P")
    source = "Huang et al. 2025 (repeat_copy), A formal framework for understanding length generalization"
    deviations = "symbols are called 0 and 1"

    def __init__(self, *, symbols: int = 2) -> None:
        super().__init__(symbols)


class Reverse(_Strings):
    """Task card: reverse.

    Definition: independent uniform tokens over `symbols` (2: bits, as published) -> the reversed string.
    Source: reverse_string of Delétang et al. 2023, "Neural networks and the Chomsky hierarchy". Symmetry: (P, JPJ).
    Evidence: answer symbol t is at position n-1-t, so no single one. Format: sequence with an end symbol (decoder,
    encoder_decoder); slots (encoder). Known deviations: lengths are mixed within a batch; the published protocol
    (one length a batch, l <= 40, slots only, loss over all slots) is the encoder shape here.
    """

    name = "reverse"
    symmetry = Symmetry("P", "JPJ")
    source = "reverse_string of Delétang et al. 2023, Neural networks and the Chomsky hierarchy"
    deviations = "lengths are mixed within a batch; shorter training lengths by default"

    def __init__(self, *, symbols: int = 2) -> None:
        super().__init__(symbols)

    def answer(self, inputs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        mirrored = lengths[:, None] - 1 - np.arange(inputs.shape[1])[None, :]
        return np.take_along_axis(inputs, np.maximum(mirrored, 0), axis=1)


class _DistinctStrings(_Strings):
    """Tokens drawn without replacement, so a string is at most as long as the alphabet."""

    def __init__(self, symbols: int) -> None:
        super().__init__(symbols)
        self.max_length = len(self.symbols)

    def draw(self, lengths: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        shuffled = generator.random((len(lengths), len(self.symbols))).argsort(axis=1)
        return shuffled[:, : lengths.max()]


class UniqueCopy(_DistinctStrings):
    """Task card: unique_copy.

    Definition: tokens sampled without replacement from `symbols` (150) -> the same string; lengths up to `symbols`.
    Source: Huang et al. 2025. Symmetry: (P, P). Evidence: answer symbol t is at position t, so no single one.
    Format: sequence with an end symbol (decoder, encoder_decoder); slots (encoder).
    Known deviations: trained on short lengths by default (published: up to 50, with random position offsets).
    """

    name = "unique_copy"
    symmetry = Symmetry("P", "P")
    source = "Huang et al. 2025, A formal framework for understanding length generalization in transformers"
    deviations = "shorter training lengths by default"

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
    """Task card: sort.

    Definition: tokens sampled without replacement from `symbols` (150) -> in ascending order; lengths up to `symbols`.
    Source: Huang et al. 2025. Symmetry: (P, identity). Evidence: none, all positions count.
    Format: sequence with an end symbol (decoder, encoder_decoder); slots (encoder).
    Known deviations: trained on short lengths by default. Beware: as all tokens differ, "the symbol after the previous
    one" is right with probability n / symbols (`previous_only`), 2/3 at length 100: look at exact match.
    """

    name = "sort"
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
