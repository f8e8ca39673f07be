"""Adding two numbers digit by digit, in each published format."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from lengthwise.tasks.contract import Examples, Symmetry, Task, is_integer, no_evidence
from lengthwise.tasks.numerals import ORDERS, add, digit_counts, random_numerals, written
from lengthwise.tasks.rows import place

Order = Literal["lsb", "msb"]

FORMAT = (
    "Input: the digits of one number, '+', those of the other, '='; its length n is the number of these "
    "symbols, so two numbers of i and j digits have n = i + j + 2, and given n every pair (i, j) is as "
    "likely. "
)
SCRATCHPAD = (
    " With scratchpad=true the answer begins with a step for each place from the units on, missing digits "
    "being 0: both digits, the carry that comes in and the digit of the sum, then ',' or, after the last "
    "place, '='; the sum follows (a variant: a format of our own)."
)


class _Addition(Task):
    """What all formats share. A format sets `base`, `operands`, `answer`, `zero`, `padded` and `most_digits`."""

    answer_format = "sequence"
    symmetry = Symmetry("exchange of the two numbers", "identity")
    evidence_meaning = "none: a carry may come from every place below"
    variable_answers = True

    base: int = 10
    operands: Order = "lsb"
    answer: Order = "lsb"
    zero: bool = True
    padded: bool = False
    most_digits: int | None = None
    min_length = 4

    def __init__(self, *, scratchpad: bool = False) -> None:
        if not isinstance(scratchpad, bool):
            raise ValueError(
                f"task {self.name}: scratchpad={scratchpad!r} is not possible; use true or false"
            )
        self.scratchpad = scratchpad
        digits = tuple(str(digit) for digit in range(self.base))
        self._plus, self._equals, self._comma = self.base, self.base + 1, self.base + 2
        self.symbols = (*digits, "+", "=", *((",",) if scratchpad else ()))
        self.answer_symbols = (*digits, ",", "=") if scratchpad else digits
        # Where the sum's digits stand is not known beforehand if its highest comes first, or behind a scratchpad.
        known = self.answer == "lsb" or self.padded
        kinds = () if scratchpad else ("index", "coupled") if known else ("index",)
        self.number_kinds = kinds  # type: ignore[misc]

    def answer_length(self, length: int) -> int:
        digits = self._most(length)
        return digits + 1 + 5 * digits * self.scratchpad

    def _most(self, length: int) -> int:
        """Digits of the longest number that an input of `length` symbols can hold, drawn or asked for as a `cell`."""
        return length - 3

    def _pairs(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(B,) fewest and most digits of the first number."""
        fewest, most = np.ones_like(lengths), lengths - 3
        if self.most_digits is not None:
            square = lengths <= 2 * self.most_digits + 2
            most = np.where(square, np.minimum(most, self.most_digits), most)
            fewest = lengths - 2 - most
        return fewest, most

    def draw_pairs(
        self, lengths: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """(B,) digits of each of the two numbers."""
        fewest, most = self._pairs(lengths)
        first = generator.integers(fewest, most + 1)
        return first, lengths - 2 - first

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        return self.cell(*self.draw_pairs(lengths, generator), generator)

    def cell(self, first: np.ndarray, second: np.ndarray, generator: np.random.Generator) -> Examples:
        """Examples with numbers of `first` and `second` (B,) digits: a cell of the published grids, or many."""
        width, both = np.maximum(first, second), np.concatenate([first, second])
        drawn = random_numerals(both, self.base, zero=self.zero, generator=generator)
        numbers = drawn[: len(first)], drawn[len(first) :]
        counts = (width, width) if self.padded else (first, second)
        lengths = counts[0] + counts[1] + 2
        inputs = np.zeros((len(lengths), lengths.max()), dtype=np.int64)
        rows = np.arange(len(lengths))
        inputs[rows, counts[0]], inputs[rows, lengths - 1] = self._plus, self._equals
        for start, number, count in zip((0 * first, counts[0] + 1), numbers, counts, strict=True):
            place(inputs, start, written(number, count, self.operands), count)

        total, carries = add(*numbers, self.base)
        digits = width + 1 if self.padded else digit_counts(total)
        steps = 5 * width * self.scratchpad
        room = max(self.answer_length(int(lengths.max())), int((steps + digits).max()))
        answers = np.zeros((len(lengths), room), dtype=np.int64)  # equally wide at each drawing of a length
        if self.scratchpad:
            closing = np.where(np.arange(width.max()) == width[:, None] - 1, self._equals, self._comma)
            worked = np.stack([*numbers, carries[:, :-1], total[:, :-1], closing], axis=2)
            place(answers, 0 * steps, worked.reshape(len(lengths), -1), steps)
        place(answers, steps, written(total, digits, self.answer), digits)
        return Examples(inputs, lengths, answers, steps + digits, no_evidence(lengths))

    def position_numbers(
        self, examples: Examples, answer_width: int, kind: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """index: the k-th digit of its number, as written, has k; signs have none (0).

        coupled: '+' and '=' have 1; the digit of significance t (1 = units) has 1 + t, in both numbers and in the sum.
        """
        lengths = examples.lengths[:, None]
        first = (examples.inputs == self._plus).argmax(axis=1)[:, None]
        places = np.arange(examples.inputs.shape[1])[None, :]
        second = places > first
        index = np.where(second, places - first, places + 1)
        sign = (places == first) | (places == lengths - 1)
        of_answer = np.broadcast_to(np.arange(1, answer_width + 1), (len(lengths), answer_width))
        if kind == "index":
            return np.where(sign, 0, index), of_answer
        count = np.where(second, lengths - 2 - first, first)
        if self.operands == "msb":
            index = count + 1 - index
        if self.answer == "msb":  # padded: one digit more than the numbers have
            of_answer = np.maximum(first + 2 - of_answer, 0)
        return np.where(sign, 1, 1 + index), 1 + of_answer

    def highest_number(self, length: int, kind: str) -> int:
        return self._most(length) + 1 + (kind == "coupled")


class Addition(_Addition):
    """Reversed-digit addition without padding; its options give other formats too."""

    name = "addition"
    definition = (
        FORMAT + "A number of k digits is uniform among those (in base `base`) whose highest digit is "
        "not 0; zero=true lets one digit alone be 0. `operands` and `answer` say from which "
        "end numbers are written: lsb, the units first (default), or msb. With most_digits=m "
        "no number is longer than m up to length 2m + 2 (the square i, j <= m); beyond, "
        "every pair is drawn. Answer: the sum, no leading zeros." + SCRATCHPAD
    )
    worked = (
        ("9 8 2 8 2 + 3 8 5 9 1 7 2 =", "2 7 8 7 4 7 2"),
        ("5 + 7 =", "2 1"),
        ("9 9 9 + 1 =", "0 0 0 1"),
    )
    source = "McLeish et al. 2024, Transformers can do arithmetic with the right embeddings"
    deviations = (
        "lengths are drawn evenly, and pairs (i, j) evenly within a length, instead of pairs evenly over a "
        "square (100 x 100 in the test: `cell(i, j, generator)` gives one of it); a separator stands "
        "between '=' and the answer; numbers of kind index: a digit's place in its number from 1, signs, "
        "separator and end none"
    )
    prediction = (
        "with abacus embeddings (numbers of kind index and an offset of up to 99 in training) trained on i, "
        "j <= 20, 92.9 % exact on longer numbers up to 100 digits, 99.1 % with looped layers (as reported)"
    )

    def __init__(
        self,
        *,
        base: int = 10,
        operands: Order = "lsb",
        answer: Order = "lsb",
        zero: bool = False,
        most_digits: int | None = None,
        scratchpad: bool = False,
    ) -> None:
        self.base = self.integer_option("base", base, 2, 10)
        for option, value in (("operands", operands), ("answer", answer)):
            if value not in ORDERS:
                raise ValueError(f"task addition: {option}={value!r} is not possible; use lsb or msb")
        if not isinstance(zero, bool):
            raise ValueError(f"task addition: zero={zero!r} is not possible; use true or false")
        if most_digits is not None and not (is_integer(most_digits) and most_digits >= 1):
            raise ValueError(
                f"task addition: most_digits={most_digits!r} is not possible; use an integer from 1, or null"
            )
        self.operands, self.answer, self.zero, self.most_digits = operands, answer, zero, most_digits
        super().__init__(scratchpad=scratchpad)


class AdditionForward(_Addition):
    """Decimal addition as numbers are usually written."""

    name = "addition_forward"
    operands = answer = "msb"
    definition = (
        FORMAT + "A decimal number of k digits is uniform among those of exactly k digits (one digit: "
        "0 to 9), the highest digit first. Answer: the sum, likewise." + SCRATCHPAD
    )
    worked = (("5 3 7 + 1 9 =", "5 5 6"), ("0 + 8 =", "8"), ("9 9 + 1 =", "1 0 0"))
    source = (
        "s2s_addition of Kazemnejad et al. 2023, The impact of positional encoding on length generalization"
    )
    deviations = (
        "symbols instead of a T5 prompt ('Compute 5 3 7 + 1 9 ?' -> 'The answer is 5 5 6.'): the words are "
        "left out and '?' is '='; lengths are drawn evenly, and pairs (i, j) evenly within a length, "
        "instead of pairs evenly (training i, j <= 8, test with at least one number of 9 to 16 digits)"
    )
    prediction = "no short RASP-L program is known: predicted not to generalise (Zhou et al. 2023)"


class AdditionBinary(_Addition):
    """Binary addition as numbers are usually written."""

    name = "addition_binary"
    base = 2
    operands = answer = "msb"
    definition = (
        FORMAT + "Binary numbers, the highest digit first and 1 (one digit alone: 0 or 1), the other "
        "digits uniform. Answer: the sum, no leading zeros." + SCRATCHPAD
    )
    worked = (("1 0 1 + 1 1 =", "1 0 0 0"), ("0 + 0 =", "0"), ("1 0 + 1 0 1 1 =", "1 1 0 1"))
    source = (
        "addition of Huang et al. 2025, A formal framework for understanding length generalization in "
        "transformers"
    )
    deviations = (
        "a separator stands between '=' and the answer; shorter training lengths by default (published: 4 "
        "to 50, tested on 51-100 and 101-150)"
    )
    prediction = (
        "not in C-RASP: predicted not to generalise; measured 99.7 % exact up to length 50, 26.8 % on "
        "51-100, 0 beyond (learned positions)"
    )


class AdditionPadded(_Addition):
    """Decimal addition with zeros up to equal length and a reversed sum: the format of position coupling."""

    name = "addition_padded"
    operands: Order = "msb"
    padded = True
    variable_answers: ClassVar[bool] = False
    definition = (
        "Two decimal numbers, the highest digit first, filled with zeros in front up to w "
        "digits, the digits of the longer one; input: one, '+', the other, '=', so the length "
        "is n = 2w + 2. Given w, every pair of digit counts (i, j) whose larger one is w is as "
        "likely; a number is uniform among those of exactly that many digits (one digit: 0 to "
        "9). Answer: w + 1 digits of the sum, the units first." + SCRATCHPAD
    )
    worked = (("6 5 3 + 0 4 9 =", "2 0 7 0"), ("5 + 5 =", "0 1"), ("0 1 + 2 8 =", "9 2 0"))
    source = "Cho et al. 2024, Position coupling: improving length generalization of arithmetic transformers"
    deviations = (
        "w is drawn evenly; published: both digit counts, so that w is drawn in proportion to 2w - 1. "
        "Numbers of kind coupled: '+' and '=' have s, the digit of significance t (1 = units) s + t in both "
        "numbers and the sum, with s = 1 plus the offset of training (positions.max_offset); separator, "
        "start and end have none. The published code counts the same groups from the other end ('+' and '=' "
        "highest)"
    )
    prediction = (
        "with coupled numbers, one layer trained on up to 30 digits keeps a median of at least 95 % exact "
        "up to 200 digits (as reported)"
    )

    def legal_length(self, length: int) -> str | None:
        return None if length % 2 == 0 else "use even lengths 2w + 2: two numbers of w digits, '+' and '='"

    def _most(self, length: int) -> int:
        return (length - 2) // 2

    def draw_pairs(
        self, lengths: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        width = (lengths - 2) // 2
        draw = generator.integers(0, 2 * width - 1)  # w pairs (w, 1…w), then w - 1 pairs (1…w-1, w)
        longer = draw < width
        return np.where(longer, width, draw - width + 1), np.where(longer, draw + 1, width)
