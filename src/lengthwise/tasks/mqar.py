"""Several keys, each asked for once: multi-query associative recall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lengthwise.batch import IGNORE
from lengthwise.tasks.contract import Examples, Symmetry, Task, is_integer, no_evidence, real_places
from lengthwise.tasks.rows import first

Numbers = int | dict[str, list[int]]
"""How many pairs a sequence has: one number, or for each length (as text) those to draw from."""


class MQAR(Task):
    """Task card: mqar."""

    name = "mqar"
    answer_format = "per_token"
    causal = True
    partly_scored = True
    definition = (
        "Of V = `vocabulary` symbols the first is a blank, V/2 - 1 are keys and V/2 are values. A sequence of "
        "even length n begins with N pairs of a key and its value, keys and values drawn without replacement. "
        "Of the (n - 2N) / 2 slots behind, the first symbols of the pairs of places that follow, each key is "
        "put into one of its own, as the pairs' order goes: slot g = 1, 2, … with chance proportional to g^(a "
        "- 1), a = `power`, without replacement. All else is blank, or, with fillers=random, any of the V "
        "symbols. The answer where a key is asked for is its value; nothing else is scored. N = `pairs` is a "
        "number, or for each length one number or several, equally likely: {64: 4, 256: [16, 32, 64]}; "
        "lengths that are not named are then not possible. `test_pairs` says where the test has other "
        "numbers."
    )
    worked = (
        ("k1 v2 k1 _", ". . v2 ."),
        ("k1 v1 k2 v2 k2 _ k1 _", ". . . . v2 . v1 ."),
        ("k3 v1 k2 v3 _ _ k3 _ _ _ k2 _", ". . . . . . v1 . . . v3 ."),
    )
    symmetry = Symmetry("a permutation of the pairs in front", "identity")
    evidence_meaning = "none: each answer has a pair of its own"
    source = "Arora et al. 2024, Zoology: measuring and improving recall in efficient language models"
    deviations = (
        "lengths and numbers of pairs are mixed in equal shares within a batch (the authors' segments have "
        "sizes of their own); the blank is no key, as in their code; by default a smaller vocabulary, and 4 pairs "
        "at shorter lengths (published: 8192, and 64: 4, 128: 8, 256: 16, 512: 64 pairs)"
    )
    prediction = ""

    def __init__(
        self,
        *,
        vocabulary: int = 256,
        pairs: int | Mapping[Any, Any] = 4,
        test_pairs: int | Mapping[Any, Any] | None = None,
        power: float = 0.01,
        fillers: str = "blank",
    ) -> None:
        self.vocabulary = self.integer_option("vocabulary", vocabulary, 4, 65536)
        self.pairs = self._numbers_option("pairs", pairs)
        self.test_pairs = None if test_pairs is None else self._numbers_option("test_pairs", test_pairs)
        if isinstance(power, bool) or not isinstance(power, (int, float)) or not 0 < power <= 1:
            raise ValueError(f"task mqar: power={power!r} is not possible; use a number above 0 and up to 1")
        if fillers not in ("blank", "random"):
            raise ValueError(f"task mqar: fillers={fillers!r} is not possible; use blank or random")
        self.power, self.fillers = float(power), fillers
        self.keys = self.vocabulary // 2 - 1
        values = tuple(f"v{i}" for i in range(1, self.vocabulary - self.keys))
        self.symbols = ("_", *(f"k{i}" for i in range(1, self.keys + 1)), *values)
        self.answer_symbols = values
        tables = [table for table in (self.pairs, self.test_pairs) if table is not None]
        self.min_length = min(_shortest(table) for table in tables)
        self.max_length = None
        if all(isinstance(table, dict) for table in tables):
            self.max_length = max(int(length) for table in tables for length in table)  # type: ignore[union-attr]

    def _numbers_option(self, option: str, value: Any) -> Numbers:
        """`value` with all its numbers checked; otherwise ValueError."""
        most = self.vocabulary // 2 - 1
        if not isinstance(value, Mapping):
            return self.integer_option(option, value, 1, most)
        table = {}
        for length, numbers in value.items():
            listed = numbers if isinstance(numbers, (list, tuple)) else [numbers]
            number = int(length) if str(length).isdecimal() else 0
            fits = all(is_integer(n) and 1 <= n <= min(most, number // 4) for n in listed)
            if number % 2 or not listed or not fits or len(set(listed)) < len(listed):
                raise ValueError(
                    f"task mqar: {option}={dict(value)!r} is not possible; use even lengths, each with a number or "
                    f"several different ones from 1 to a quarter of the length and to {most}, the number of keys"
                )
            table[number] = sorted(int(n) for n in listed)
        if not table:
            raise ValueError(f"task mqar: {option}={{}} is not possible; name at least one length")
        return {str(number): table[number] for number in sorted(table)}

    def legal_length(self, length: int) -> str | None:
        if self._numbers_at(length, "train"):
            return None
        tables = [table for table in (self.pairs, self.test_pairs) if isinstance(table, dict)]
        named = ", ".join(sorted({length for table in tables for length in table}, key=int))
        if not isinstance(self.pairs, int):
            return f"use one of {named}, the lengths that have a number of pairs"
        return f"use an even length of at least {4 * self.pairs}" + (f", or one of {named}" if named else "")

    def _numbers_at(self, length: int, split: str) -> list[int]:
        """The numbers of pairs to draw from; none for an illegal length."""
        own, other = self.pairs, self.test_pairs
        if split == "test" and other is not None:
            own, other = other, own
        for table in (own, other):
            if isinstance(table, dict) and str(length) in table:
                return table[str(length)]
            if isinstance(table, int) and length % 2 == 0 and length >= 4 * table:
                return [table]
        return []

    def tests_what_is_trained(self, length: int) -> bool:
        return self._numbers_at(length, "test") == self._numbers_at(length, "train")

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        counts = np.zeros_like(lengths)
        for length in np.unique(lengths):
            of_length = lengths == length
            counts[of_length] = generator.choice(self._numbers_at(int(length), split), size=of_length.sum())
        most, size = counts.max(), len(lengths)
        keys = 1 + distinct(size, most, self.keys, generator)
        values = 1 + self.keys + distinct(size, most, self.vocabulary - 1 - self.keys, generator)
        b, i = np.nonzero(first(counts, most))
        inputs = np.zeros(real.shape, dtype=np.int64)
        if self.fillers == "random":
            inputs = generator.integers(0, self.vocabulary, size=real.shape) * real
        inputs[b, 2 * i] = keys[b, i]
        inputs[b, 2 * i + 1] = values[b, i]
        asked = 2 * (counts[b] + self._slots(lengths, counts, generator)[b, i])
        inputs[b, asked] = keys[b, i]
        answers = np.where(real, IGNORE, 0)
        answers[b, asked] = values[b, i]
        return Examples(inputs, lengths, answers, lengths, no_evidence(lengths))

    def _slots(self, lengths: np.ndarray, counts: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """(B, N) a slot, from 0, for each pair; those past a sequence's own number of pairs hold anything.

        Draws without replacement, in order, are the order of exponential waiting times with the chances as rates.
        """
        slots = lengths // 2 - counts
        waiting = generator.exponential(size=(len(lengths), slots.max()))
        waiting *= np.arange(1, slots.max() + 1) ** (1 - self.power)
        waiting[~first(slots, slots.max())] = np.inf
        return waiting.argsort(axis=1)[:, : counts.max()]

    def baselines(self, length: int) -> dict[str, float]:
        """The bag tells the values, not which belongs to the key; blank fillers hide nothing among them."""
        chance = 1.0 / len(self.answer_symbols)
        known = {"uniform": chance, "position_only": chance, "token_only": chance}
        if self.fillers == "blank":
            known["bag_optimal"] = 1.0 / float(np.mean(self._numbers_at(length, "test")))
        return known


def _shortest(numbers: Numbers) -> int:
    return 4 * numbers if isinstance(numbers, int) else min(int(length) for length in numbers)


def distinct(rows: int, count: int, choices: int, generator: np.random.Generator) -> np.ndarray:
    """(rows, count) numbers from 0…choices-1: in each row a uniform draw without replacement, in order."""
    if 4 * count > choices:
        return generator.random((rows, choices)).argsort(axis=1)[:, :count]
    drawn = generator.integers(0, choices, size=(rows, count))
    while True:
        order = drawn.argsort(axis=1, kind="stable")
        ranked = np.take_along_axis(drawn, order, axis=1)
        b, k = np.nonzero(ranked[:, 1:] == ranked[:, :-1])
        if not len(b):
            return drawn
        drawn[b, order[b, k + 1]] = generator.integers(0, choices, size=len(b))
