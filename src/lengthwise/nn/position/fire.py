"""Functional interpolation for relative positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lengthwise.nn.init import Distribution, Fixed

from .contract import Context, PositionEncoding, Sizes


class FIRE(PositionEncoding):
    """logit + f_h(ψ(|n - m|) / ψ(max(L, n))), ψ(x) = ln(c·x + 1), f a learned map 1 -> `hidden` -> H with ReLU.

    A distance is measured against the query's own position n, once that exceeds the learned threshold L; the bias is
    then no function of distance alone, and neither translations nor reversals are kept. c starts at `c`, L at
    `threshold` (the paper's 0.1 and 512); both are used by their magnitude. No package was found to compare it with;
    the constants, and the 1e-6 beside ψ(max(L, n)), are those of public copies of the paper's listing.
    """

    symmetries = frozenset()
    distinct_until = 16
    paper = (
        "Li et al. 2024, Functional Interpolation for Relative Positions Improves Long Context Transformers"
    )

    def __init__(
        self,
        sizes: Sizes,
        *,
        hidden: int = 32,
        c: float = 0.1,
        threshold: float = 512.0,
        share: bool = False,
        cross: bool = False,
    ) -> None:
        super().__init__(sizes, share=share, cross=cross)
        for option, value in (("hidden", hidden), ("c", c), ("threshold", threshold)):
            if value <= 0:
                raise ValueError(f"{option} must be above 0, got {value}")
        self.start, self.threshold = c, threshold
        self.c = nn.Parameter(torch.tensor(float(c)))
        self.multiplier = nn.Parameter(
            torch.tensor(1.0)
        )  # of the threshold, so that it learns at a sensible rate
        self.hidden = nn.Linear(1, hidden)
        self.output = nn.Linear(hidden, sizes.heads)

    def initial(self, name: str) -> Distribution | None:
        return {"c": Fixed(self.start), "multiplier": Fixed(1.0)}.get(name)

    def ratios(self, context: Context) -> Tensor:
        """ψ(|n - m|)/ψ(max(L, |n|)), (B or 1, Nq, Nk). The small number keeps a threshold of 0 from dividing by 0."""
        c, threshold = self.c.to(context.precision).abs(), self.multiplier.to(context.precision).abs()
        numbers = context.query_numbers().abs().to(context.precision)
        longest = torch.maximum(numbers, threshold * self.threshold)
        near = torch.log1p(c * context.offsets().abs().to(context.precision))
        return near / (torch.log1p(c * longest) + 1e-6)[..., None]

    def bias(self, context: Context) -> Tensor:
        ratios = self.ratios(context)[..., None].to(self.hidden.weight.dtype)
        return self.output(F.relu(self.hidden(ratios))).permute(0, 3, 1, 2)
