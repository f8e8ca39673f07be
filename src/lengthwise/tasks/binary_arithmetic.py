"""Binary numbers of any length: sum, product, square root. All in digits, so that nothing overflows."""

from __future__ import annotations

from math import isqrt
from typing import ClassVar

import numpy as np

from lengthwise.tasks.chomsky import NOT_REGULAR, PROTOCOL, SUITE
from lengthwise.tasks.contract import Examples, Symmetry, Task, no_evidence, real_places

_OPERATOR = 2


class _BinaryOperation(Task):
    """Two numbers, lowest digit first, with an operator between them."""

    answer_format = "sequence"
    variable_answers = True
    prediction = NOT_REGULAR
    symmetry = Symmetry("exchange of the numbers", "identity")
    evidence_meaning = "none: all positions count"
    number_kinds: ClassVar[tuple[str, ...]] = ("index",)
    operator: str

    def __init__(self) -> None:
        self.symbols = ("0", "1", self.operator)
        self.answer_symbols = self.symbols[:2]

    def combine(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(B, n) digits of the result, lowest first, of numbers (B, n)."""
        raise NotImplementedError

    def position_numbers(
        self, examples: Examples, answer_width: int, kind: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """A digit's place in its own number, from 1 at the lowest, so equal digits of all numbers share theirs."""
        places = np.arange(examples.inputs.shape[1])
        is_operator = examples.inputs == _OPERATOR
        behind = np.where(is_operator.any(axis=1), is_operator.argmax(axis=1) + 1, len(places))[:, None]
        numbers = np.where(places < behind, places, places - behind) + 1
        answers = np.broadcast_to(np.arange(1, answer_width + 1), (len(examples), answer_width))
        return np.where(is_operator, 0, numbers), answers

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        rows, real, two = np.arange(len(lengths)), real_places(lengths), lengths >= 3
        places = np.arange(real.shape[1])
        first_length = np.where(two, generator.integers(1, np.maximum(lengths - 1, 2)), lengths)
        second_length = np.where(two, lengths - 1 - first_length, 1)
        first_top = first_length - 1 - leading_zeros(first_length, generator)
        second_top = np.where(two, lengths - 1 - leading_zeros(second_length, generator), first_top)
        bits = generator.integers(0, 2, size=real.shape)
        bits[rows, first_top] = bits[rows, second_top] = 1
        sign, first_top, second_top = (ends[:, None] for ends in (first_length, first_top, second_top))
        bits *= (places <= first_top) | ((places > sign) & (places <= second_top))
        bits ^= real & ~two[:, None]  # a number that stands alone is 0…2^l - 2
        shifted = np.minimum(places + sign + 1, real.shape[1] - 1)
        second = np.take_along_axis(bits, shifted, axis=1) * (places + sign + 1 < lengths[:, None])
        result = self.combine(bits * (places < sign), second)
        inputs = np.where(places == sign, _OPERATOR, bits) * real
        highest = np.maximum((result * (places + 1)).max(axis=1), 1)
        longest = lengths - 1 + self.answer_length(1)
        answers = result[:, : max(longest.max(), 1)]
        return Examples(inputs, lengths, answers, np.minimum(highest, longest), no_evidence(lengths))


class BinaryAddition(_BinaryOperation):
    """The sum of two binary numbers."""

    name = "binary_addition"
    operator = "+"
    definition = (
        "Two numbers in binary, lowest digit first, with + between them: the first has k digits, k uniform over "
        "1…l-2, the second the l-1-k that are left; each is uniform over 1…2^digits - 1, filled up with zeros. The "
        "answer is the sum, lowest digit first, without zeros at its end. Lengths 1 and 2 hold one number, uniform "
        "over 0…2^l - 2, which is its own sum; 0 is written as one digit."
    )
    worked = (("1 1 + 1", "0 0 1"), ("0 1 1 + 1 1", "1 0 0 1"), ("1 0 + 0 1 0", "1 1"))
    source = f"binary_addition of {SUITE}"
    deviations = PROTOCOL
    number_kinds = ("index", "coupled")

    def combine(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Equal digits stop the carry or start one, others hand it on: it is the last equal digit before a place."""
        places = np.arange(first.shape[1])
        last = np.maximum.accumulate(np.where(first == second, places, -1), axis=1)
        carry = np.take_along_axis(first, np.maximum(last, 0), axis=1) * (last >= 0)
        result = first ^ second
        result[:, 1:] ^= carry[:, :-1]
        return result


class BinaryMultiplication(_BinaryOperation):
    """The product of two binary numbers."""

    name = "binary_multiplication"
    operator = "*"
    definition = (
        "Two numbers in binary, lowest digit first, with * between them, drawn as in binary_addition. The answer is "
        "the product, lowest digit first, without zeros at its end. Lengths 1 and 2 hold one number, uniform over "
        "0…2^l - 2; their answers are empty and 0."
    )
    worked = (("1 1 * 1", "1 1"), ("1 0 1 * 1 1", "1 1 1 1"), ("0 1 * 0 1 1", "0 0 1 1"))
    source = f"binary_multiplication of {SUITE}"
    deviations = f"the operator is written * (published: the same symbol as in binary_addition); {PROTOCOL}"

    def answer_length(self, length: int) -> int:
        return length - 1

    def combine(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Sums of products of digits by a Fourier transform (at most n/2 each, so exact), then the carry."""
        places = first.shape[1]
        size = 1 << (places - 1).bit_length()  # the numbers' digits are fewer, so nothing wraps around
        spectrum = np.fft.rfft(first, n=size) * np.fft.rfft(second, n=size)
        sums = np.rint(np.fft.irfft(spectrum, n=size)[:, :places]).astype(np.int64).T.copy()
        for place in range(1, places):
            sums[place] += sums[place - 1] >> 1
        return (sums & 1).T


class ComputeSqrt(Task):
    """The square root of a binary number, rounded down."""

    name = "compute_sqrt"
    answer_format = "sequence"
    definition = (
        "A number N in binary, highest digit first, uniform over 1…2^l - 1 and filled up with zeros to l digits; the "
        "answer is the largest integer whose square is at most N, in ceil(l/2) digits, highest first."
    )
    worked = (("1 0 0 1 0 1", "1 1 0"), ("1 1 1", "1 0"), ("0 1 0 0", "1 0"))
    prediction = NOT_REGULAR
    symmetry = Symmetry("none", "none")
    evidence_meaning = "none: all positions count"
    source = f"compute_sqrt of {SUITE}"
    deviations = (
        f"none in the task (a comment of the published code writes the root 6 of 37 as 101); {PROTOCOL}"
    )

    def __init__(self) -> None:
        self.symbols = ("0", "1")
        self.answer_symbols = self.symbols

    def answer_length(self, length: int) -> int:
        return (length + 1) // 2

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        top = leading_zeros(lengths, generator)
        inputs = generator.integers(0, 2, size=real.shape)
        inputs[np.arange(len(lengths)), top] = 1
        inputs *= real & (np.arange(real.shape[1]) >= top[:, None])
        width, counts = (real.shape[1] + 1) // 2, (lengths + 1) // 2
        aligned = np.arange(2 * width) - (2 * width - lengths)[:, None]  # lowest digits below each other
        number = np.take_along_axis(inputs, np.maximum(aligned, 0), axis=1) * (aligned >= 0)
        root = square_root(number)
        places = np.arange(width)
        from_right = np.minimum(places + (width - counts)[:, None], width - 1)
        answers = np.take_along_axis(root, from_right, axis=1) * (places < counts[:, None])
        return Examples(inputs, lengths, answers, counts, no_evidence(lengths))

    def baselines(self, length: int) -> dict[str, float]:
        one, two = (
            np.array([_digits_before(length, place, digits) for place in range(self.answer_length(length))])
            for digits in (1, 2)
        )
        follow = two[1:].reshape(-1, 2, 2).max(axis=2).sum(axis=1)
        known = {
            "position_only": float(one.max(axis=1).mean()),
            "previous_only": float((one[0].max() + follow.sum()) / len(one)),
        }
        return self.beside_measured(known, length)


def _digits_before(length: int, place: int, digits: int) -> list[float]:
    """P(the root's last `digits` digits up to `place` are c), c = 0…2^digits - 1, in whole numbers until the end.

    A root that begins with the number j (its digits up to `place`) has (2j + 1) 4^k numbers N, k digits being left.
    """
    left = (length + 1) // 2 - 1 - place
    total = 2 ** (length - 2 * left)  # in units of 4^k
    whole, classes = isqrt(total), 2**digits
    counts = []
    for c in range(classes):
        many = (whole - c + classes - 1) // classes  # j < whole with these last digits
        ways = classes * many * (many - 1) + (2 * c + 1) * many
        ways += (total - whole**2) * (whole % classes == c)
        counts.append((ways * 4**left - (c == 0)) / (2**length - 1))  # without N = 0
    return counts


_AT_ONCE = 24
"""Digits of a root that floating-point numbers give exactly: those of a number below 2^48."""


def square_root(number: np.ndarray) -> np.ndarray:
    """(B, m) digits of the square roots, rounded down, of numbers (B, 2m), highest digit first: by long hand.

    With the root r so far, the next digit is 1 if 4r + 1 can be taken from the rest, which stays where it stands.
    """
    rest, width = number.astype(np.int16), number.shape[1] // 2  # small numbers only: four times as fast
    root = np.zeros((len(number), width), dtype=np.int16)
    known = min(width, _AT_ONCE)
    head = from_digits(number[:, : 2 * known])
    whole = np.sqrt(head).astype(np.int64)
    root[:, :known] = to_digits(whole, known)
    rest[:, : 2 * known] = to_digits(head - whole**2, 2 * known)
    for digit in range(known, width):
        part = rest[:, digit - 1 : 2 * digit + 2]
        taken = np.zeros_like(part)
        taken[:, 1 : digit + 1] = root[:, :digit]
        taken[:, -1] = 1
        difference = (part - taken)[:, ::-1]
        # A borrow comes from the nearest lower place that differs; a place's mark is even without one, odd with one.
        places = np.arange(2, 2 * part.shape[1] + 2, 2, dtype=np.int16)
        marks = (places + (difference < 0)) * (difference != 0)
        borrow = np.maximum.accumulate(marks, axis=1) & 1
        difference[:, 1:] -= borrow[:, :-1]
        fits = borrow[:, -1] == 0
        root[:, digit] = fits
        rest[:, digit - 1 : 2 * digit + 2] = np.where(fits[:, None], difference[:, ::-1] & 1, part)
    return root.astype(np.int64)


def from_digits(digits: np.ndarray) -> np.ndarray:
    """(B,) numbers of at most 62 binary digits (B, k), the highest first."""
    return digits @ (1 << np.arange(digits.shape[1])[::-1])


def to_digits(numbers: np.ndarray, count: int) -> np.ndarray:
    """(B, count) binary digits of numbers (B,), the highest first."""
    return numbers[:, None] >> np.arange(count)[::-1] & 1


def leading_zeros(digits: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(B,) number of zeros in front of the first 1 of numbers uniform over 1…2^digits - 1; the bits behind it are free.

    P(at least k zeros) = (2^-k - 2^-digits) / (1 - 2^-digits), inverted. (Of more than 52 zeros there is no chance.)
    """
    chance = 1 - generator.random(len(digits)) * (1 - 0.5**digits)
    return np.minimum(np.floor(-np.log2(chance)).astype(np.int64), digits - 1)
