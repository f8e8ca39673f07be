"""Attention with linear biases."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .contract import REVERSAL, TRANSLATION, Constant, Context, Sizes
from .distance import DistanceBias


def slopes(heads: int) -> list[float]:
    """m_h = 2^{-8h/H}, h = 1…H, where H is a power of two; else those of the power below, followed by every
    other slope of the power above (the rule of the authors' code)."""
    power = 1 << (heads.bit_length() - 1)
    exact = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    return exact if power == heads else exact + slopes(2 * power)[0::2][: heads - power]


class ALiBi(DistanceBias):
    """logit - m_h·|n - m|: far keys count less, with one fixed slope a head.

    sides: "symmetric" = one slope in both directions. "separate" = the keys ahead get the heads' slopes in reverse
        order, so that a head which looks far back looks only a little ahead, and the other way round; for a
        bidirectional model of at least two heads.
    Raises ValueError where separate slopes would change nothing.
    """

    symmetries = frozenset({TRANSLATION, REVERSAL})
    distinct_until = 257
    paper = "Press et al. 2022, Train Short, Test Long: Attention with Linear Biases, section 3"

    def __init__(
        self,
        sizes: Sizes,
        *,
        sides: Literal["symmetric", "separate"] = "symmetric",
        share: bool = False,
        cross: bool = False,
    ) -> None:
        super().__init__(sizes, share=share, cross=cross)
        if sides not in ("symmetric", "separate"):
            raise ValueError(f'sides must be "symmetric" or "separate", got {sides!r}')
        if sides == "separate" and (sizes.causal or sizes.heads < 2):
            lacks = "keys ahead" if sizes.causal else "a second head to share the sides with"
            raise ValueError(f"sides=separate changes nothing without {lacks}: use sides=symmetric")
        self.sides = sides
        self.slopes = Constant(slopes(sizes.heads))
        if sides == "separate":
            self.symmetries = frozenset({TRANSLATION})

    def at(self, offsets: Tensor, context: Context) -> Tensor:
        distances = offsets.abs()[..., None, :, :].to(context.precision)
        behind = self.slopes.like(context.device, context.precision)[:, None, None]
        if self.sides == "symmetric":
            return -behind * distances
        return -torch.where(offsets[..., None, :, :] > 0, behind.flip(0), behind) * distances
