"""Arithmetic with brackets, modulo 5: evaluate an expression, or find the digit that is missing in an equation."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lengthwise.tasks.chomsky import NOT_REGULAR, PROTOCOL, SUITE
from lengthwise.tasks.contract import Examples, Symmetry, Task, label_examples, real_places

MODULUS = 5
_DIGITS = tuple(str(digit) for digit in range(MODULUS))

_GRAMMAR = (
    "an expression of length l is d (l = 1), -d (2), (d) (3) or (-d) (4) with a uniform digit d from 0…4; from 5 on "
    "it is ( L op R ) with expressions L of length k and R of length l-3-k, k uniform over 1…l-4, and a uniform "
    "operator op"
)


class ModularArithmeticBrackets(Task):
    """The value of an expression with brackets, modulo 5."""

    name = "modular_arithmetic_brackets"
    answer_format = "label"
    definition = (
        f"With + - * as operators, {_GRAMMAR}. The label is the value modulo 5. The symbol x is in the vocabulary and "
        "never occurs."
    )
    worked = (("( 3 * - 2 )", "4"), ("( ( 4 ) - ( - 3 ) )", "2"), ("- 1", "4"))
    prediction = NOT_REGULAR
    symmetry = Symmetry("none", "none")
    evidence_meaning = "none: all digits count"
    source = f"modular_arithmetic_brackets of {SUITE} (with multiplication)"
    deviations = PROTOCOL

    def __init__(self) -> None:
        self.symbols = (*_DIGITS, "+", "-", "*", "(", ")", "x")
        self.answer_symbols = _DIGITS

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        inputs, values = expressions(lengths, generator, self.symbols, operators="+-*")
        return label_examples(inputs, lengths, values, None)

    def baselines(self, length: int) -> dict[str, float]:
        known = {"uniform": 1 / MODULUS, "position_only": float(_value_distribution(length).max())}
        return self.beside_measured(known, length)


class SolveEquation(Task):
    """The digit that solves an equation in one unknown, modulo 5."""

    name = "solve_equation"
    answer_format = "label"
    definition = (
        f"With + - as operators, {_GRAMMAR}. In an expression of length l-2 a place is drawn uniformly, and the first "
        "digit from there on (around the end) becomes x; behind it stand = and the value modulo 5. The label is the "
        "digit under x, the only solution. Lengths 1 and 2 are 0 and 0 0 with the label 0."
    )
    worked = (("( 3 - x ) = 4", "4"), ("( - x ) = 2", "3"), ("( ( 1 + x ) - - 2 ) = 0", "2"))
    prediction = NOT_REGULAR
    symmetry = Symmetry("none", "none")
    evidence_meaning = "position of x (where the equation is to be solved; all digits count)"
    source = f"solve_equation of {SUITE}"
    deviations = PROTOCOL

    def __init__(self) -> None:
        self.symbols = (*_DIGITS, "+", "-", "(", ")", "x", "=")
        self.answer_symbols = _DIGITS

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        rows, long = np.arange(len(lengths)), lengths >= 3
        spans = np.maximum(lengths - 2, 1)
        written, values = expressions(spans, generator, self.symbols, operators="+-")
        places = np.arange(written.shape[1])
        start = generator.integers(0, spans)
        ahead = (places - start[:, None]) % spans[:, None]
        digits = (written < MODULUS) & (places < spans[:, None])
        unknown = np.where(digits, ahead, len(places)).argmin(axis=1)
        label = written[rows, unknown] * long
        inputs = np.zeros(real_places(lengths).shape, dtype=np.int64)
        inputs[:, : len(places)] = written
        inputs[rows, unknown] = self.symbols.index("x")
        inputs[rows[long], spans[long]] = self.symbols.index("=")
        inputs[rows[long], spans[long] + 1] = values[long]
        inputs[~long] = 0
        return label_examples(inputs, lengths, label, np.where(long, unknown, -1))

    def baselines(self, length: int) -> dict[str, float]:
        # The brackets say nothing about the digits, so each digit under x is as likely as any other.
        known = {"uniform": 1 / MODULUS, "position_only": 1.0 if length < 3 else 1 / MODULUS}
        return self.beside_measured(known, length)


def expressions(
    lengths: np.ndarray, generator: np.random.Generator, symbols: tuple[str, ...], operators: str
) -> tuple[np.ndarray, np.ndarray]:
    """Random expressions (B, n) of the grammar above as ids of `symbols`, and their values (B,) modulo 5.

    All expressions of one nesting depth are split at once, from the outside in, and evaluated from the inside out.
    """
    ids = {symbol: index for index, symbol in enumerate(symbols)}
    width = int(lengths.max())
    tokens = np.zeros((len(lengths), width), dtype=np.int64)
    flat = tokens.reshape(-1)
    starts, spans = np.arange(len(lengths)) * width, lengths
    levels = [(starts, spans)]  # of each depth: where its expressions begin in `flat`, and their lengths
    split, between = [], []  # which of them have parts, and where the operators between these stand
    while len(inner := np.flatnonzero(spans >= 5)):
        start, span = starts[inner], spans[inner]
        left = generator.integers(1, span - 3)
        split.append(inner)
        between.append(start + 1 + left)
        starts = np.concatenate([start + 1, start + 2 + left])
        spans = np.concatenate([left, span - 3 - left])
        levels.append((starts, spans))
    chosen = np.array([ids[operator] for operator in operators])
    for places in between:
        flat[places] = chosen[generator.integers(0, len(chosen), size=len(places))]
    starts, spans = (np.concatenate(part) for part in zip(*levels, strict=True))
    digits = _write(flat, starts, spans, generator, ids)

    below = len(digits) - len(levels[-1][0])
    values = digits[below:]
    for (outer, _), inner, places in zip(levels[-2::-1], split[::-1], between[::-1], strict=True):
        left, right, operator = values[: len(inner)], values[len(inner) :], flat[places]
        sums = np.where(operator == ids["-"], left - right, left + right)
        below -= len(outer)
        values = digits[below : below + len(outer)]
        values[inner] = np.where(operator == ids.get("*"), left * right, sums) % MODULUS
    return tokens, values


def _write(
    flat: np.ndarray,
    starts: np.ndarray,
    spans: np.ndarray,
    generator: np.random.Generator,
    ids: dict[str, int],
) -> np.ndarray:
    """Writes the brackets of K expressions, and d or -d where they have no parts.

    The values (K,) of d or -d modulo 5; of those with parts, anything.
    """
    digit = generator.integers(0, MODULUS, size=len(starts))
    bracketed = spans >= 3
    flat[starts[bracketed]] = ids["("]
    flat[(starts + spans - 1)[bracketed]] = ids[")"]
    place = starts + spans // 2  # behind a bracket, a sign, or both
    short, negative = spans < 5, spans % 2 == 0
    flat[place[short]] = digit[short]
    flat[place[short & negative] - 1] = ids["-"]
    return np.where(negative, -digit, digit) % MODULUS


def _value_distribution(length: int) -> np.ndarray:
    """(5,) of the value of an expression with + - *."""
    return _value_table(1 << max(10, length.bit_length()))[length]


@lru_cache(maxsize=1)
def _value_table(longest: int) -> np.ndarray:
    """(longest + 1, 5): the distribution at each length, from those of the shorter parts."""
    left, right = np.indices((MODULUS, MODULUS))
    table = np.full((longest + 1, MODULUS), 1 / MODULUS)  # up to 4: a digit, or minus a digit
    for length in range(5, longest + 1):
        parts = table[1 : length - 3]
        joint = (parts.T @ parts[::-1]) / len(parts)
        table[length] = sum(
            np.bincount((value % MODULUS).ravel(), joint.ravel(), minlength=MODULUS) / 3
            for value in (left + right, left - right, left * right)
        )
    return table
