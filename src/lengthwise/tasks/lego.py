"""A chain of clauses to be followed: LEGO."""

from __future__ import annotations

from math import comb

import numpy as np

from lengthwise.tasks.contract import Examples, Symmetry, Task, label_examples, real_places


class Lego(Task):
    """Each variable is plus or minus another; the value of one is asked."""

    name = "lego"
    answer_format = "label"
    symmetry = Symmetry("renaming of the variables", "identity")
    evidence_meaning = "none: the clauses from the first variable to the one asked for count"
    definition = (
        "k variables v1 … vk, drawn without replacement from `variables` letters, each +1 or -1 with equal "
        "chances. Input: one clause each, v1 = + 1 or v1 = - 1, then vi = + v(i-1) if both values are equal "
        "and vi = - v(i-1) if not, ',' between clauses, '?' and a variable; its length is n = 5k + 1. The "
        "one asked for is uniform over the second half, v(ceil(k/2)+1) … vk. Answer: its value. Clauses are "
        "in the order of the chain, or with shuffle=true in a uniform order."
    )
    worked = (
        ("a = - 1 , b = + a , c = - b ? c", "+1"),
        ("x = + 1 , d = - x ? d", "-1"),
        ("q = - 1 , t = - q , c = + t , f = - c ? f", "-1"),
    )
    source = (
        "s2s_lego of Kazemnejad et al. 2023, The impact of positional encoding on length generalization, "
        "after Zhang et al. 2022, Unveiling transformers with LEGO"
    )
    deviations = (
        "symbols instead of a T5 prompt ('If a = -1, b = + a. Then, what is the value of b?'): the words "
        "are left out; one variable is asked for in each example instead of every one of the second half in "
        "turn; no end symbol. Published: up to 8 variables in training, up to 16 in the test"
    )
    prediction = "measured on 9 to 16 variables after 8: no position encoding 67.9 %, absolute positions 64.3"
    min_length = 11

    def __init__(self, *, variables: int = 26, shuffle: bool = False) -> None:
        self.variables = self.integer_option("variables", variables, 2, 256)
        if not isinstance(shuffle, bool):
            raise ValueError(f"task lego: shuffle={shuffle!r} is not possible; use true or false")
        self.shuffle = shuffle
        letters = tuple("abcdefghijklmnopqrstuvwxyz") + tuple(f"v{i}" for i in range(26, variables))
        self.symbols = (*letters[:variables], "=", "+", "-", "1", ",", "?", "+1", "-1")
        self.answer_symbols = ("+1", "-1")
        self.max_length = 5 * variables + 1

    def legal_length(self, length: int) -> str | None:
        return None if length % 5 == 1 else "use lengths 5k + 1: k clauses of five symbols and what is asked"

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        rows, count = np.arange(len(lengths)), (lengths - 1) // 5
        shape, real = (len(lengths), count.max()), real_places(count)
        letters = generator.random((len(lengths), self.variables)).argsort(axis=1)[:, : count.max()]
        negative = generator.integers(0, 2, size=shape)
        asked = generator.integers((count + 1) // 2, count)

        equals, plus, minus, one, comma, question, positive = (
            self.symbols.index(symbol) for symbol in ("=", "+", "-", "1", ",", "?", "+1")
        )
        sign = plus + (negative ^ np.pad(negative, ((0, 0), (1, 0)))[:, :-1]) * (minus - plus)
        source = np.pad(letters, ((0, 0), (1, 0)), constant_values=one)[:, :-1]
        clauses = np.stack(
            [letters, np.full(shape, equals), sign, source, np.full(shape, comma)], axis=2
        )  # (B, k, 5)
        if self.shuffle:
            order = np.where(real, generator.random(shape), 2.0).argsort(axis=1)
            clauses = np.take_along_axis(clauses, order[:, :, None], axis=1)
        inputs = np.zeros((len(lengths), lengths.max()), dtype=np.int64)
        inputs[:, :-1] = clauses.reshape(len(lengths), -1)
        inputs[rows, lengths - 2], inputs[rows, lengths - 1] = question, letters[rows, asked]
        return label_examples(inputs * real_places(lengths), lengths, positive + negative[rows, asked], None)

    def baselines(self, length: int) -> dict[str, float]:
        return {"uniform": 0.5, "position_only": 0.5, "bag_optimal": _from_the_bag((length - 1) // 5)}


def _from_the_bag(count: int) -> float:
    """The bag tells how many minus signs there are, and whether the last variable is asked for, which no clause uses:
    then their parity is the answer. Otherwise the best guess is how many of them lie up to the one asked for."""
    asked = range((count + 1) // 2, count - 1)
    if not asked:
        return 1.0
    right = 0.0
    for minus in range(count + 1):
        ways = [
            sum(comb(k + 1, even) * comb(count - k - 1, minus - even) for even in range(0, minus + 1, 2))
            for k in asked
        ]
        positive = sum(ways) / len(asked)
        right += max(positive, comb(count, minus) - positive) / 2**count
    return (1.0 + len(asked) * right) / (len(asked) + 1)
