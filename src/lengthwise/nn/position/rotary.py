"""The rotary encoding."""

from __future__ import annotations

import torch
from torch import Tensor

from .contract import TRANSLATION, Constant, Context, PositionEncoding, Sizes


class Rotary(PositionEncoding):
    """Turns the pair (q_{2i}, q_{2i+1}) of a query at n, and of a key, by the angle n·ω_i, ω_i =
    base^{-2i/K}.

    The score (R_n q)·(R_m k) = q·R_{m-n} k then depends on the offset alone; norms are kept. Raises
    ValueError for odd K.
    """

    symmetries = frozenset({TRANSLATION})
    paper = "Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding"

    def __init__(
        self, sizes: Sizes, *, base: float = 10000.0, share: bool = False, cross: bool = False
    ) -> None:
        super().__init__(sizes, share=share, cross=cross)
        width = sizes.query_width
        if width % 2:
            raise ValueError(
                f"rotary needs an even key width a head, got {width} (width {sizes.width}, {sizes.heads} "
                f"heads): set key_dim to {width + 1}, or change width or heads"
            )
        if base <= 1:
            raise ValueError(f"base must be greater than 1, got {base}")
        self.frequencies = Constant([base ** (-i / width) for i in range(0, width, 2)])

    def rotate(self, q: Tensor, k: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        return self._turn(q, context.query_numbers()), self._turn(k, context.key_numbers())

    def _turn(self, x: Tensor, numbers: Tensor) -> Tensor:
        """x (B, H, N, K), numbers (B or 1, N). In float32 at least; only the result is cast."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        phases = numbers[:, None, :, None].to(dtype) * self.frequencies.like(x.device, dtype)
        cos, sin = phases.cos(), phases.sin()
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return turned.flatten(-2).to(x.dtype)
