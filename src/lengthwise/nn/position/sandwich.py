"""Sandwich: the dot product of two sinusoids as a bias."""

from __future__ import annotations

from torch import Tensor

from .contract import REVERSAL, TRANSLATION, Constant, Context, Sizes
from .distance import DistanceBias


class Sandwich(DistanceBias):
    """logit + (1/c_h)·Σ_i cos((n - m)·ω_i), ω_i = base^{-2i/W}, i = 0…W/2-1, with the fixed ratio c_h = 8h/H, h = 1…H.

    The sum is ⟨r_n, r_m⟩ of the sinusoidal encoding of width W = `dim`, without the cross terms with the content.
    NeMo counts i from 1 to W/2, so that it has ω = 1/base in place of ω = 1, and takes W/2 away, which no softmax
    sees. Which of the two the authors ran, and whether with W = 128, is not verified.
    """

    symmetries = frozenset({TRANSLATION, REVERSAL})
    distinct_until = 12
    paper = "Chi et al. 2023, Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis"

    def __init__(
        self,
        sizes: Sizes,
        *,
        dim: int = 128,
        base: float = 10000.0,
        share: bool = False,
        cross: bool = False,
    ) -> None:
        super().__init__(sizes, share=share, cross=cross)
        if dim < 2 or dim % 2:
            raise ValueError(f"dim must be even and at least 2, got {dim}")
        if base <= 1:
            raise ValueError(f"base must be greater than 1, got {base}")
        self.frequencies = Constant([base ** (-i / dim) for i in range(0, dim, 2)])
        self.scales = Constant([sizes.heads / (8 * h) for h in range(1, sizes.heads + 1)])

    def at(self, offsets: Tensor, context: Context) -> Tensor:
        frequencies = self.frequencies.like(context.device, context.precision)
        scales = self.scales.like(context.device, context.precision)
        found, index = offsets.unique(return_inverse=True)  # no array of all pairs by frequencies
        sums = (found.to(context.precision)[:, None] * frequencies).cos().sum(dim=-1)
        return scales[:, None, None] * sums[index][..., None, :, :]
