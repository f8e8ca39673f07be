"""Lists put into ascending order: symbols that may repeat, numbers of several digits."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.contract import Examples, Symmetry, Task, no_evidence, real_places

_PAPER = "Kazemnejad et al. 2023, The impact of positional encoding on length generalization"


class SortTokens(Task):
    """A list of symbols in ascending order; symbols may repeat."""

    name = "sort_tokens"
    answer_format = "sequence"
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count"
    definition = (
        "n symbols, independent and uniform over t0 … t49 (`symbols`). Answer: the same symbols in "
        "ascending order of their number."
    )
    worked = (("t4 t11 t2", "t2 t4 t11"), ("t9", "t9"), ("t3 t0 t3 t1", "t0 t1 t3 t3"))
    source = f"s2s_sort, single tokens (sngd), of {_PAPER}"
    deviations = (
        "symbols instead of T5's tokens; the words of the prompt, brackets and commas are left out. The "
        "task sort of Huang et al. draws without replacement; shorter training lengths by default (published: 2 to "
        "20, tested on 21 to 40)"
    )
    prediction = (
        "sorting has a short RASP-L program: predicted to generalise (Zhou et al. 2023, for symbols without "
        "repeats)"
    )

    def __init__(self, *, symbols: int = 50) -> None:
        count = self.integer_option("symbols", symbols, 2, 4096)
        self.symbols = tuple(f"t{i}" for i in range(count))
        self.answer_symbols = self.symbols

    @property
    def options(self) -> dict[str, int]:
        return {"symbols": len(self.symbols)}

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        inputs = generator.integers(0, len(self.symbols), size=real.shape) * real
        answers = np.sort(np.where(real, inputs, len(self.symbols)), axis=1) * real
        return Examples(inputs, lengths, answers, lengths, no_evidence(lengths))

    def baselines(self, length: int) -> dict[str, float]:
        return self.beside_measured({"bag_optimal": 1.0, "remaining_bag": 1.0}, length)


class SortNumbers(Task):
    """A list of numbers of two to four digits in ascending order."""

    name = "sort_numbers"
    answer_format = "sequence"
    symmetry = Symmetry("permutations of the numbers", "identity")
    evidence_meaning = "none: all numbers count"
    definition = (
        "Numbers, independent and uniform over 10 … 9999, given that the list, digit by digit with ',' "
        "between numbers, has n symbols: of all such lists, each is as likely as its numbers are. Answer: "
        "the numbers in ascending order, written likewise."
    )
    worked = (
        ("8 8 , 1 0 2 3 , 9 9 9", "8 8 , 9 9 9 , 1 0 2 3"),
        ("4 2", "4 2"),
        ("7 0 0 , 6 9 , 7 0 0", "6 9 , 7 0 0 , 7 0 0"),
    )
    source = f"s2s_sort, numbers of several digits (mltd), of {_PAPER}"
    deviations = (
        "symbols instead of T5's tokens; the words of the prompt and brackets are left out. Length counts "
        "symbols, not numbers (a number takes almost five), so a length holds lists of several counts; "
        "fewer numbers by default (published: 2 to 20, tested on 21 to 40)"
    )
    prediction = ""
    min_length = 2

    def __init__(self) -> None:
        self.symbols = (*"0123456789", ",")
        self.answer_symbols = self.symbols

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        digits = _digit_counts(lengths, generator)
        there = digits > 0
        values = generator.integers(np.where(there, 10 ** np.maximum(digits - 1, 0), 0), 10**digits) * there
        ordered = np.sort(np.where(there, values, 10**5), axis=1) * there
        inputs, answers = (self._written(numbers, lengths) for numbers in (values, ordered))
        return Examples(inputs, lengths, answers, lengths, no_evidence(lengths))

    def _written(self, values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(B, n) symbols of the lists `values` (B, K), 0 = no number."""
        digits = (values[:, :, None] >= [1, 10, 100, 1000]).sum(axis=2)
        starts = np.cumsum(digits + 1, axis=1) - digits - 1
        rows = np.broadcast_to(np.arange(len(values))[:, None], values.shape)
        text = np.zeros((len(values), lengths.max() + 1), dtype=np.int64)  # room for a comma behind the last
        for place in range(4):
            there = place < digits
            digit = values // 10 ** np.maximum(digits - 1 - place, 0) % 10
            text[rows[there], (starts + place)[there]] = digit[there]
        there = digits > 0
        text[rows[there], (starts + digits)[there]] = 10
        return text[:, :-1] * real_places(lengths)


def _digit_counts(lengths: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(B, K) digits of each number of a list of `lengths` (B,) symbols, 0 behind the last.

    A number and the comma behind it take 3, 4 or 5 symbols, with the chances of two, three and four digits; `reach[m]`
    is the chance that such steps come to m exactly. Each step is weighted by what it leaves to be reached.
    """
    steps, chances = np.array([3, 4, 5]), np.array([90, 900, 9000]) / 9990
    whole = int(lengths.max()) + 1
    reach = np.zeros(whole + 1)
    reach[0] = 1.0
    for m in range(3, whole + 1):
        fits = steps <= m
        reach[m] = (chances[fits] * reach[m - steps[fits]]).sum()
    left, taken = lengths + 1, []
    while left.any():
        weights = chances * np.where(left[:, None] >= steps, reach[np.maximum(left[:, None] - steps, 0)], 0.0)
        bounds = weights.cumsum(axis=1)
        draw = generator.random((len(left), 1)) * bounds[:, -1:]
        step = np.where(left > 0, steps[(draw >= bounds).sum(axis=1).clip(max=2)], 0)
        taken.append(np.maximum(step - 1, 0))
        left = left - step
    return np.stack(taken, axis=1)
