"""Sums modulo ten: of digits, and of the terms of a polynomial."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.contract import WINDOW, Examples, Symmetry, Task, label_examples, real_places

_PAPER = "Kazemnejad et al. 2023, The impact of positional encoding on length generalization"


class Summation(Task):
    """The sum of digits modulo ten."""

    name = "summation"
    answer_format = "label"
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count alike"
    definition = (
        "n digits, independent and uniform over 1 … 9. Answer: their sum modulo 10, the last digit of the "
        "sum."
    )
    worked = (("1 2", "3"), ("9 8 7", "4"), ("5", "5"))
    source = f"s2s_sum of {_PAPER}"
    deviations = (
        "symbols instead of a T5 prompt ('Compute: 1 + 2 .'): words and plus signs are left out, length "
        "counts digits; no end symbol. The paper prints '% 10' in the prompt, its code does not; "
        "shorter training lengths by default (published: 2 to 20, tested on 21 to 40)"
    )
    prediction = (
        "odd or even is a parity of the inputs, which C-RASP cannot express: predicted not to generalise"
    )

    def __init__(self) -> None:
        self.symbols = tuple("0123456789")
        self.answer_symbols = self.symbols

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        inputs = generator.integers(1, 10, size=real.shape) * real
        return label_examples(inputs, lengths, inputs.sum(axis=1) % 10, None)

    def baselines(self, length: int) -> dict[str, float]:
        known = {"uniform": 0.1, "position_only": _likeliest_sum(length), "bag_optimal": 1.0}
        if length > WINDOW:
            known["window"] = _likeliest_sum(length - WINDOW)
        return known


def _likeliest_sum(digits: int) -> float:
    """The chance of the likeliest sum of that many digits from 1 … 9, modulo 10."""
    spectrum = np.fft.rfft(np.where(np.arange(10) > 0, 1 / 9, 0.0)) ** digits
    return float(np.fft.irfft(spectrum, n=10).max())


class Polynomial(Task):
    """The value of a polynomial modulo ten."""

    name = "polynomial"
    answer_format = "label"
    symmetry = Symmetry("permutations of the terms", "identity")
    evidence_meaning = "none: all terms count"
    definition = (
        "Input: v : c x d + c x d + …, k terms, so its length is n = 4k + 1; v is uniform over -2 … 2, each "
        "coefficient c over -3 … 3, each exponent d over 0 … 3 (degrees may repeat). Answer: the sum of c * "
        "v**d modulo 10, from 0 to 9, with 0**0 = 1."
    )
    worked = (("2 : 3 x 2", "2"), ("-1 : -3 x 0 + 2 x 3", "5"), ("0 : 1 x 0 + 3 x 2 + -2 x 0", "9"))
    source = f"s2s_poly of {_PAPER}"
    deviations = (
        "symbols instead of a T5 prompt ('Evaluate at x = v in c * x ** d + ... ?'): a signed number is one "
        "symbol, c x d is c * x ** d; no end symbol; "
        "fewer terms by default (published: 2 to 20, tested on 21 to 40)"
    )
    prediction = (
        "odd or even is a parity of the terms, which C-RASP cannot express: predicted not to generalise"
    )
    min_length = 5

    def __init__(self) -> None:
        self._zero = 3  # the id of 0: ids are numbers raised by 3
        numbers = tuple(str(number) for number in range(-3, 10))
        self.symbols = (*numbers, "x", ":", "+")
        self.answer_symbols = numbers[self._zero :]

    def legal_length(self, length: int) -> str | None:
        return None if length % 4 == 1 else "use lengths 4k + 1: a value, ':', and k terms of four symbols"

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        terms = (lengths - 1) // 4
        shape, real = (len(lengths), terms.max()), real_places(terms)
        value = generator.integers(-2, 3, size=(len(lengths), 1))
        coefficients = generator.integers(-3, 4, size=shape)
        exponents = generator.integers(0, 4, size=shape)
        x, colon, plus = (self.symbols.index(symbol) for symbol in "x:+")
        inputs = np.empty((len(lengths), lengths.max()), dtype=np.int64)
        inputs[:, 0] = value[:, 0] + self._zero
        inputs[:, 1::4] = plus
        inputs[:, 1] = colon
        inputs[:, 2::4] = coefficients + self._zero
        inputs[:, 3::4] = x
        inputs[:, 4::4] = exponents + self._zero
        total = (coefficients * value**exponents * real).sum(axis=1) % 10
        return label_examples(inputs * real_places(lengths), lengths, total + self._zero, None)
