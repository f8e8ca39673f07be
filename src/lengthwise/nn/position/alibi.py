"""Attention with linear biases."""

from __future__ import annotations

from torch import Tensor

from .contract import REVERSAL, TRANSLATION, Constant, Context, PositionEncoding, Sizes


def slopes(heads: int) -> list[float]:
    """m_h = 2^{-8h/H}, h = 1…H, where H is a power of two; else those of the power below, followed by every
    other slope of the power above (the rule of the authors' code)."""
    power = 1 << (heads.bit_length() - 1)
    exact = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    return exact if power == heads else exact + slopes(2 * power)[0::2][: heads - power]


class ALiBi(PositionEncoding):
    """logit - m_h·|n - m|: far keys count less, with one fixed slope a head. Symmetric in the two
    directions."""

    symmetries = frozenset({TRANSLATION, REVERSAL})
    distinct_until = 257
    paper = "Press et al. 2022, Train Short, Test Long"

    def __init__(self, sizes: Sizes, *, share: bool = False, cross: bool = False) -> None:
        super().__init__(sizes, share=share, cross=cross)
        self.slopes = Constant(slopes(sizes.heads))

    def bias(self, context: Context) -> Tensor:
        distances = context.offsets().abs()[:, None].to(context.precision)
        return -self.slopes.like(context.device, context.precision)[:, None, None] * distances
