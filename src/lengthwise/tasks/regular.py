"""Regular languages of the Chomsky-hierarchy suite: even_pairs, modular_arithmetic, cycle_navigation."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.chomsky import PROTOCOL, SUITE
from lengthwise.tasks.combinatorics import log_factorial
from lengthwise.tasks.contract import WINDOW, Examples, Symmetry, Task, label_examples, real_places

MODULUS = 5
_PLUS, _MINUS, _TIMES = MODULUS, MODULUS + 1, MODULUS + 2
_OPERATORS = 3


class EvenPairs(Task):
    """Whether the number of unequal neighbours is odd."""

    name = "even_pairs"
    answer_format = "label"
    definition = (
        "Independent uniform bits; the label is the number of places where a bit differs from the next one, modulo 2. "
        "Equally: 1 if the first and the last bit differ, else 0."
    )
    worked = (("0 0 1 1 0", "0"), ("1 0 1 0", "1"), ("1", "0"))
    symmetry = Symmetry("permutations that fix the first and the last position", "identity")
    evidence_meaning = "none: the first and the last position together"
    source = f"even_pairs of {SUITE}"
    deviations = PROTOCOL

    def __init__(self) -> None:
        self.symbols = ("0", "1")
        self.answer_symbols = self.symbols

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        bits = generator.integers(0, 2, size=real.shape) * real
        last = bits[np.arange(len(lengths)), lengths - 1]
        return label_examples(
            bits, lengths, bits[:, 0] ^ last, None
        )  # the changes between them cancel in pairs

    def baselines(self, length: int) -> dict[str, float]:
        if length == 1:
            return {"uniform": 0.5, "position_only": 1.0, "bag_optimal": 1.0}
        ones = np.arange(length + 1)
        weight = np.exp(
            log_factorial(length) - log_factorial(ones) - log_factorial(length - ones) - length * np.log(2)
        )
        differ = 2 * ones * (length - ones) / (length * (length - 1))  # P(the ends differ | so many ones)
        known = {
            "uniform": 0.5,
            "position_only": 0.5,
            "bag_optimal": float((weight * np.maximum(differ, 1 - differ)).sum()),
        }
        if length > WINDOW:
            known["window"] = 0.5  # the first bit is out of sight
        return known


class ModularArithmetic(Task):
    """The value of an expression without brackets, modulo 5."""

    name = "modular_arithmetic"
    answer_format = "label"
    definition = (
        "Independent uniform digits 0…4 at the 1st, 3rd, 5th … place, independent uniform operators + - * between "
        "them; the label is the value modulo 5, where * goes before + and -, which go from left to right. "
        "The symbol _ is in the vocabulary and never occurs."
    )
    worked = (("2 + 3 * 4", "4"), ("1 - 3 - 2", "1"), ("0 - 2 * 2 + 4", "0"))
    symmetry = Symmetry("none", "none")
    evidence_meaning = "none: all positions count"
    source = f"modular_arithmetic of {SUITE}"
    deviations = (
        "even lengths are refused (the published code takes l - 1 for an even l, so its lengths uniform over 1…40 are "
        f"uniform over the odd ones); {PROTOCOL}"
    )

    def __init__(self) -> None:
        self.symbols = (*(str(digit) for digit in range(MODULUS)), "+", "-", "*", "_")
        self.answer_symbols = self.symbols[:MODULUS]

    def legal_length(self, length: int) -> str | None:
        return None if length % 2 else "use odd lengths: digits with operators between them"

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        digits = generator.integers(0, MODULUS, size=real.shape)
        operators = generator.integers(_PLUS, _TIMES + 1, size=real.shape)
        inputs = np.where(np.arange(real.shape[1]) % 2, operators, digits) * real
        return label_examples(inputs, lengths, _value(inputs), None)

    def baselines(self, length: int) -> dict[str, float]:
        known = {"uniform": 1 / MODULUS, "position_only": float(_values(length // 2).max())}
        return self.beside_measured(known, length)


def _value(inputs: np.ndarray) -> np.ndarray:
    """(B,) values modulo 5 of expressions (B, n) of mixed lengths; the zeros behind them add nothing."""
    total = np.zeros(len(inputs), dtype=np.int64)
    term = inputs[:, 0]
    for place in range(2, inputs.shape[1], 2):
        operator, digit = inputs[:, place - 1], inputs[:, place]
        times = operator == _TIMES
        total = np.where(times, total, total + term)
        term = np.where(times, term * digit, np.where(operator == _MINUS, -digit, digit)) % MODULUS
    return (total + term) % MODULUS


def _values(operators: int) -> np.ndarray:
    """(5,) distribution of the value of an expression with so many operators."""
    digits = np.arange(MODULUS)
    state = np.zeros((MODULUS, MODULUS))  # of what is added up, and of the term that is still growing
    state[0] = 1 / MODULUS
    added = (digits[:, None] + digits[None, :]) % MODULUS
    for _ in range(operators):
        after = np.zeros_like(state)
        for term in range(MODULUS):
            for digit in range(MODULUS):
                after[:, term * digit % MODULUS] += state[:, term] / _OPERATORS / MODULUS
        closed = np.bincount(added.ravel(), state.ravel(), minlength=MODULUS)
        state = after + closed[:, None] * 2 / _OPERATORS / MODULUS  # + and -: a new uniform term
    return np.bincount(added.ravel(), state.ravel(), minlength=MODULUS)


class CycleNavigation(Task):
    """Where a walk on a circle of five places ends."""

    name = "cycle_navigation"
    answer_format = "label"
    definition = (
        "Independent uniform moves on a circle of places 0…4, from place 0: `left` is -1, `stay` is 0, `right` is +1. "
        "The label is the last place, the sum of the moves modulo 5."
    )
    worked = (("right stay right", "2"), ("left left stay left", "2"), ("left", "4"))
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count alike"
    source = f"cycle_navigation of {SUITE}"
    deviations = f"moves have names of their own (published: 0, 1, 2 for -1, 0, +1); {PROTOCOL}"

    def __init__(self) -> None:
        self.answer_symbols = tuple(str(place) for place in range(MODULUS))
        self.symbols = ("left", "stay", "right", *self.answer_symbols)
        self.neutral_symbols = ("stay",)

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        inputs = generator.integers(0, 3, size=real.shape) * real
        place = ((inputs - 1) * real).sum(axis=1) % MODULUS
        return label_examples(inputs, lengths, 3 + place, None)

    def baselines(self, length: int) -> dict[str, float]:
        known = {"uniform": 1 / MODULUS, "position_only": _likeliest_place(length), "bag_optimal": 1.0}
        if length > WINDOW:
            known["window"] = _likeliest_place(length - WINDOW)  # the moves in sight shift the rest's places
        return known


def _likeliest_place(moves: int) -> float:
    """The largest probability of a place after so many moves, from the characters of the circle."""
    spectrum = ((1 + 2 * np.cos(2 * np.pi * np.arange(MODULUS) / MODULUS)) / 3) ** moves
    return float(np.fft.ifft(spectrum).real.max())
