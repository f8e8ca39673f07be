"""Numbers as rows of digits, so that none is too long for a machine's integer.

Letters in shapes: B numbers, w digits. Column t holds the digit of significance t (t = 0 the units); columns past a
number's own digits hold 0.
"""

from __future__ import annotations

import numpy as np

ORDERS = ("lsb", "msb")
"""How a number is written: lsb = from the units on, msb = as usual."""


def random_numerals(
    counts: np.ndarray, base: int, *, zero: bool, generator: np.random.Generator
) -> np.ndarray:
    """(B, w) uniform numbers of exactly `counts` (B,) digits; `zero`: one digit alone may be 0."""
    digits = generator.integers(0, base, size=(len(counts), counts.max()))
    leading = generator.integers(np.where((counts == 1) & zero, 0, 1), base)
    digits[np.arange(len(counts)), counts - 1] = leading
    digits[np.arange(counts.max())[None, :] >= counts[:, None]] = 0
    return digits


def add(first: np.ndarray, second: np.ndarray, base: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum (B, w + 1) of two numbers (B, w) each, and the carries into its places (B, w + 1)."""
    columns = first + second
    # A column of base - 1 hands on the carry it is given; any other makes one or none, whatever comes in.
    makes = np.where(columns == base - 1, 0, np.arange(1, columns.shape[1] + 1))
    maker = np.maximum.accumulate(makes, axis=1)  # place + 1 of the column that decides, 0 = nothing comes in
    carried, carries = np.zeros((2, len(columns), columns.shape[1] + 1), dtype=np.int64)
    carried[:, 1:] = columns >= base
    carries[:, 1:] = np.take_along_axis(carried, maker, axis=1)
    total = carries.copy()
    total[:, :-1] += columns - base * carries[:, 1:]
    return total, carries


def digit_counts(digits: np.ndarray) -> np.ndarray:
    """(B,) digits up to the leading one that is not 0; at least 1."""
    places = np.arange(1, digits.shape[1] + 1)
    return np.maximum(np.where(digits != 0, places, 0).max(axis=1), 1)


def written(digits: np.ndarray, counts: np.ndarray, order: str) -> np.ndarray:
    """(B, w) the first `counts` (B,) digits in the order in which they are read; behind them anything."""
    if order == "lsb":
        return digits
    places = np.maximum(counts[:, None] - 1 - np.arange(digits.shape[1])[None, :], 0)
    return np.take_along_axis(digits, places, axis=1)
