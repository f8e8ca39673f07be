"""Rotation with decay."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .contract import TRANSLATION, Constant, Context, LengthError, PositionEncoding, Sizes
from .rotary import Layout, turn, turned_columns


class XPos(PositionEncoding):
    """The rotary encoding with pair i of a query at n stretched by ζ_i^{n/s}, and of a key at m by ζ_i^{-m/s}, s =
    `scale_base`, ζ_i = (2i/K + γ)/(1 + γ).

    The score then falls with distance, fastest in the pairs that turn fastest. It depends on the offset alone, so
    positions are counted from the middle of the sequence, which keeps the powers small. A key ahead of the query would
    count the more the farther it is: it needs a causal model.
    Raises LengthError where the powers would overflow.
    """

    needs_causal = True
    symmetries = frozenset({TRANSLATION})
    distinct_until = 2048
    paper = "Sun et al. 2023, A Length-Extrapolatable Transformer"

    def __init__(
        self,
        sizes: Sizes,
        *,
        base: float = 10000.0,
        scale_base: float = 512.0,
        gamma: float = 0.4,
        layout: Layout = "interleaved",
        share: bool = False,
    ) -> None:
        super().__init__(sizes, share=share)
        if scale_base <= 0 or gamma <= 0:
            raise ValueError(f"scale_base and gamma must be above 0, got {scale_base} and {gamma}")
        self.layout, width = layout, turned_columns(sizes, base, 1.0, layout)
        self.frequencies = Constant([base ** (-i / width) for i in range(0, width, 2)])
        self.decays = Constant(
            [math.log((i / width + gamma) / (1 + gamma)) / scale_base for i in range(0, width, 2)]
        )

        self.max_length = self._longest(torch.float32)

    def rotate(self, q: Tensor, k: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        queries, keys = context.query_numbers(), context.key_numbers()
        self._check(context.last_number() - context.first_number() + 1, q.dtype)
        middle = (keys.amin(dim=1, keepdim=True) + keys.amax(dim=1, keepdim=True)) // 2
        return self._turn(q, queries, queries - middle), self._turn(k, keys, middle - keys)

    def _longest(self, dtype: torch.dtype) -> int:
        room = (
            math.log(torch.finfo(dtype).max) - 4
        )  # a factor of e⁴ is left to the queries and keys themselves
        return int(2 * room / -min(self.decays.values))

    def _check(self, span: int, dtype: torch.dtype) -> None:
        if span > (longest := self._longest(dtype)):
            raise LengthError(
                f"xpos defines at most {longest} positions in {str(dtype).removeprefix('torch.')}, {span} were asked "
                f"for: a larger scale_base would define them"
            )

    def _turn(self, x: Tensor, numbers: Tensor, powers: Tensor) -> Tensor:
        """x (B, H, N, K); numbers give the angles, powers the stretch, both (B or 1, N)."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        phases, stretch = (
            given[:, None, :, None].to(dtype) * constant.like(x.device, dtype)
            for given, constant in ((numbers, self.frequencies), (powers, self.decays))
        )
        stretch = stretch.exp()
        return turn(x, phases.cos() * stretch, phases.sin() * stretch, self.layout)
