"""Kernelized relative position: learned decay."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from lengthwise.nn.init import Between, Distribution

from .contract import REVERSAL, TRANSLATION, Context, Sizes
from .distance import DistanceBias

SMALLEST = 0.01
"""No parameter is used below this value, so that the kernel stays conditionally positive definite."""


class Kerple(DistanceBias):
    """A decay with two learned positive numbers r₁, r₂ a head, d = |n - m|.

    kernel: "log": logit - r₁·ln(1 + r₂·d).  "power": logit - r₁·d^{r₂}, r₂ ≤ 2 (ALiBi is r₂ = 1).
    They start as in the authors' code, from U(0, 2) and U(0, 1) ("log"), U(0, 1) and U(0, 2) ("power"), and are held
    inside their range when used, while gradients pass as if they were not. (Their code has the same range, and writes
    the values held into the parameters at each pass.)
    """

    symmetries = frozenset({TRANSLATION, REVERSAL})
    paper = "Chi et al. 2022, KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation"

    def __init__(
        self,
        sizes: Sizes,
        *,
        kernel: Literal["log", "power"] = "log",
        share: bool = False,
        cross: bool = False,
    ) -> None:
        super().__init__(sizes, share=share, cross=cross)
        if kernel not in ("log", "power"):
            raise ValueError(f'kernel must be "log" or "power", got {kernel!r}')
        self.kernel = kernel
        self.distinct_until = 56 if kernel == "log" else 257  # with both numbers 1
        self.strength = nn.Parameter(torch.ones(sizes.heads))  # r₁
        self.shape = nn.Parameter(torch.ones(sizes.heads))  # r₂

    def initial(self, name: str) -> Distribution:
        twice = "strength" if self.kernel == "log" else "shape"
        return Between(0.0, 2.0 if name == twice else 1.0)

    def at(self, offsets: Tensor, context: Context) -> Tensor:
        distances = offsets.abs()[..., None, :, :].to(context.precision)
        strength = _held(self.strength.to(context.precision), None)[:, None, None]
        if self.kernel == "log":
            shape = _held(self.shape.to(context.precision), None)[:, None, None]
            return -strength * torch.log1p(shape * distances)
        shape = _held(self.shape.to(context.precision), 2.0)[:, None, None]
        return -strength * distances**shape


def _held(values: Tensor, largest: float | None) -> Tensor:
    """Clamped to [SMALLEST, largest], with the gradient of the identity."""
    return values + (values.clamp(min=SMALLEST, max=largest) - values).detach()
