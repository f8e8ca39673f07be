"""The sinusoidal encoding."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .contract import Constant, Context, Sizes
from .embedding import EmbeddingEncoding


class Sinusoidal(EmbeddingEncoding):
    """r_{n,i} = sin(n/L^{i/D}) for even i, cos(n/L^{(i-1)/D}) for odd i (eq 25), L = `base`.

    Columns 2i and 2i+1 share the frequency ω_i = L^{-2i/D}; dimension 0 is the fastest, period 2π. For odd D
    the last column is a sine without its cosine: only the linearity of shifts is lost there.
    """

    paper = "Vaswani et al. 2017, Attention Is All You Need"

    def __init__(
        self,
        sizes: Sizes,
        *,
        base: float = 10000.0,
        combine: Literal["add", "concat"] = "add",
        dim: int | None = None,
        origin: int = 0,
    ) -> None:
        super().__init__(sizes, combine=combine, dim=dim, origin=origin)
        if base <= 1:
            raise ValueError(f"base must be greater than 1, got {base}")
        self.frequencies = Constant([base ** (-i / self.columns) for i in range(0, self.columns, 2)])

    def vectors(self, numbers: Tensor, context: Context, dtype: torch.dtype) -> Tensor:
        # An elementwise product: autocast lowers matrix products, and would round the phases to bfloat16.
        phases = numbers[..., None].to(dtype) * self.frequencies.like(numbers.device, dtype)
        pairs = torch.stack((phases.sin(), phases.cos()), dim=-1)
        return pairs.flatten(-2)[..., : self.columns]
