"""A string twice: duplicate_string writes it, missing_duplicate finds the symbol that one copy lacks."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.chomsky import NOT_REGULAR, PROTOCOL, SUITE
from lengthwise.tasks.combinatorics import largest_share, mean_largest_share
from lengthwise.tasks.contract import Examples, Symmetry, Task, label_examples, no_evidence, real_places
from lengthwise.tasks.strings import Strings


class DuplicateString(Strings):
    """The string, and the string again."""

    name = "duplicate_string"
    definition = (
        "Independent uniform tokens over `symbols` (2: bits, as published); the answer is the string twice, without a "
        "separator."
    )
    worked = (("1 0 1", "1 0 1 1 0 1"), ("0 1", "0 1 0 1"), ("1", "1 1"))
    prediction = NOT_REGULAR
    symmetry = Symmetry("P", "P on both copies")
    source = f"duplicate_string of {SUITE}"
    deviations = PROTOCOL
    number_kinds = ("index", "coupled")

    def __init__(self, *, symbols: int = 2) -> None:
        super().__init__(symbols)

    def answer_length(self, length: int) -> int:
        return 2 * length

    def coupled(self, places: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return places % lengths[:, None]

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        inputs = self.draw(lengths, generator) * real_places(lengths)
        twice = real_places(2 * lengths)
        places = np.broadcast_to(np.arange(twice.shape[1]), twice.shape)
        answers = np.take_along_axis(inputs, self.coupled(places, lengths), axis=1) * twice
        return Examples(inputs, lengths, answers, 2 * lengths, no_evidence(lengths))

    def baselines(self, length: int) -> dict[str, float]:
        count = len(self.symbols)
        return {
            "uniform": 1.0 / count,
            "position_only": 1.0 / count,
            "bag_optimal": largest_share(length, count),
            "remaining_bag": (mean_largest_share(length, count) + 1) / 2,  # the first copy tells the second
            "previous_only": 1.0 / count if length > 1 else (1.0 / count + 1) / 2,
        }


class MissingDuplicate(Task):
    """The symbol that is missing in one of two copies."""

    name = "missing_duplicate"
    answer_format = "label"
    definition = (
        "A string of floor(l/2) independent uniform bits stands twice; one place of all these, drawn uniformly, is "
        "replaced by ?; for an odd l the symbol _ follows. The label is the bit under ?. Length 1 is always 1 with "
        "the label 1. As all else is there twice, the label is also the number of visible ones modulo 2."
    )
    worked = (("0 1 1 0 ? 1", "1"), ("1 ? 1 0 _", "0"), ("? 1 0 1 1 0", "1"))
    prediction = NOT_REGULAR
    symmetry = Symmetry("the same permutation of both copies; exchange of the copies", "identity")
    evidence_meaning = "the position of the same bit in the other copy"
    source = f"missing_duplicate_string of {SUITE}"
    deviations = f"the symbols 2 and 3 are called ? and _; {PROTOCOL}"

    def __init__(self) -> None:
        self.symbols = ("0", "1", "?", "_")
        self.answer_symbols = self.symbols[:2]

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        rows, real, long = np.arange(len(lengths)), real_places(lengths), lengths > 1
        half = np.maximum(lengths // 2, 1)
        string = generator.integers(0, 2, size=(len(lengths), half.max()))
        missing = generator.integers(0, 2 * half)
        places = np.broadcast_to(np.arange(real.shape[1]), real.shape)
        inputs = np.take_along_axis(string, places % half[:, None], axis=1)
        label = np.where(long, inputs[rows, missing * long], 1)
        inputs[rows, missing * long] = self.symbols.index("?")
        inputs = np.where(places == 2 * half[:, None], self.symbols.index("_"), inputs) * real
        inputs[~long] = 0
        inputs[~long, 0] = 1
        evidence = np.where(long, (missing + half) % (2 * half), -1)
        return label_examples(inputs, lengths, label, evidence)

    def baselines(self, length: int) -> dict[str, float]:
        return {"uniform": 0.5, "position_only": 1.0 if length == 1 else 0.5, "bag_optimal": 1.0}
