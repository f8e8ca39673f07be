"""Counting from one number to another."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.contract import Examples, Symmetry, Task, real_places


class Count(Task):
    """All numbers from the first to the last."""

    name = "count"
    answer_format = "sequence"
    symmetry = Symmetry("adding a number to both", "adding it to each")
    evidence_meaning = "position n - 2, which holds the number to begin with"
    definition = (
        "Input: n - 2 blanks '.', then a b with b = a + n - 1 and a uniform over 0 … `numbers` - n, so that "
        "n is also how many numbers there are to write; each number is one symbol. Answer: a, a + 1, …, b."
    )
    worked = ((". . 4 7", "4 5 6 7"), ("0 1", "0 1"), (". . . 11 15", "11 12 13 14 15"))
    source = "variant of count of Zhou et al. 2023, What algorithms can transformers learn?"
    deviations = (
        "a variant: the published input is a b alone; the blanks in front make its length the number of "
        "symbols to write, as lengths count input symbols here. How many numbers there are, and how a is "
        "drawn, is ours"
    )
    prediction = (
        "has a short RASP-L program: predicted to generalise, and reported to when trained on 60 and more"
    )
    min_length = 2

    def __init__(self, *, numbers: int = 200) -> None:
        self.numbers = self.integer_option("numbers", numbers, 2, 4096)
        self.answer_symbols = tuple(str(number) for number in range(numbers))
        self.symbols = (*self.answer_symbols, ".")
        self.max_length = numbers

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        rows, real = np.arange(len(lengths)), real_places(lengths)
        first = generator.integers(0, self.numbers - lengths + 1)
        inputs = self.numbers * real
        inputs[rows, lengths - 2], inputs[rows, lengths - 1] = first, first + lengths - 1
        answers = (first[:, None] + np.arange(lengths.max())) * real
        return Examples(inputs, lengths, answers, lengths, lengths - 2)

    def baselines(self, length: int) -> dict[str, float]:
        chance = 1.0 / (self.numbers - length + 1)
        return {
            "uniform": 1.0 / self.numbers,
            "position_only": chance,
            "bag_optimal": 1.0,
            "remaining_bag": 1.0,
            "previous_only": (chance + length - 1) / length,
        }
