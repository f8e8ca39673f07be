"""Encodings that act on the embedding: x̃_n = x_n + r_n (eq 24), or [x_n, r_n] side by side."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lengthwise.keyed import philox

from .contract import Constant, Context, PositionEncoding, Sizes, precision


class EmbeddingEncoding(PositionEncoding):
    """Gives every position n a vector r_n, through `vectors`.

    combine: "add" keeps the width D; "concat" appends `dim` columns, so that all later layers are wider.
    dim:     columns of r_n when concatenated; by default D (1 for a single number).
    origin:  the number of the first position: the textbooks count from 1, programs from 0.
    """

    acts_on = "embedding"
    default_columns: int | None = None

    def __init__(
        self,
        sizes: Sizes,
        *,
        combine: Literal["add", "concat"] = "add",
        dim: int | None = None,
        origin: int = 0,
    ) -> None:
        super().__init__(sizes)
        if combine not in ("add", "concat"):
            raise ValueError(f'combine must be "add" or "concat", got {combine!r}')
        if combine == "add" and dim not in (None, sizes.width):
            raise ValueError(
                f'dim={dim} has no effect with combine="add" (width {sizes.width}); use combine="concat"'
            )
        if dim is not None and dim < 1:
            raise ValueError(f"dim must be at least 1, got {dim}")
        self.combine, self.origin = combine, origin
        self.columns: int = sizes.width if combine == "add" else dim or self.default_columns or sizes.width

    @property
    def output_width(self) -> int:
        return self.sizes.width + (self.columns if self.combine == "concat" else 0)

    def vectors(self, numbers: Tensor, context: Context, dtype: torch.dtype) -> Tensor:
        """(B or 1, N) numbers, counted from `origin` -> r (B or 1, N, columns) of type `dtype`."""
        raise NotImplementedError

    def embed(self, x: Tensor, context: Context) -> Tensor:
        r = self.vectors(context.query_numbers() + self.origin, context, precision(x)).to(x.dtype)
        if self.combine == "add":
            return x + r
        return torch.cat((x, r.expand(*x.shape[:2], -1)), dim=-1)


class DirectionEncoding(EmbeddingEncoding):
    """r_n = (a number for n)·u along one fixed unit vector u.

    direction: "orthogonal" = u random, ⟂ (1, …, 1). "ones" = u ∝ (1, …, 1): a LayerNorm in front of every
        sublayer removes such a shift exactly, so the model is as blind to order as without an encoding.
    A single concatenated column has no direction: u = (1).
    """

    default_columns = 1
    distinct_until = 128  # n·u and (n+1)·u differ in bfloat16, whatever u, while 1/n > 2^-7

    def __init__(
        self,
        sizes: Sizes,
        *,
        direction: Literal["orthogonal", "ones"] = "orthogonal",
        combine: Literal["add", "concat"] = "add",
        dim: int | None = None,
        origin: int = 0,
    ) -> None:
        super().__init__(sizes, combine=combine, dim=dim, origin=origin)
        if direction not in ("orthogonal", "ones"):
            raise ValueError(f'direction must be "orthogonal" or "ones", got {direction!r}')
        self.uniform_shift = combine == "add" and (direction == "ones" or self.columns == 1)
        self.unit = Constant(_unit_vector(self.columns, direction))

    def scalars(self, numbers: Tensor, context: Context, dtype: torch.dtype) -> Tensor:
        """(B or 1, N) numbers -> (B or 1, N) of type `dtype`."""
        raise NotImplementedError

    def vectors(self, numbers: Tensor, context: Context, dtype: torch.dtype) -> Tensor:
        return self.scalars(numbers, context, dtype)[..., None] * self.unit.like(numbers.device, dtype)


def _unit_vector(columns: int, direction: str) -> list[float]:
    if direction == "ones" or columns == 1:
        return [columns**-0.5] * columns
    u = philox("direction", columns).standard_normal(columns)
    u -= u.mean()
    return (u / (u @ u) ** 0.5).tolist()
