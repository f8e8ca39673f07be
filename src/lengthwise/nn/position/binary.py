"""The binary counter."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .contract import Context, LengthError, Sizes
from .embedding import EmbeddingEncoding


class Binary(EmbeddingEncoding):
    """The position's bits as ±1, lowest first, in the first b = ⌈log₂ range⌉ columns; 0 in the rest (table
    after eq 25).

    Raises ValueError where r_n has fewer than b columns or `origin` is negative, LengthError for a number
    outside 0…2^b-1.
    """

    whole_numbers = True
    paper = "Bishop & Bishop 2024, Deep Learning, ch. 12"

    def __init__(
        self,
        sizes: Sizes,
        *,
        range: int = 1024,
        combine: Literal["add", "concat"] = "add",
        dim: int | None = None,
        origin: int = 0,
    ) -> None:
        super().__init__(sizes, combine=combine, dim=dim, origin=origin)
        if range < 2:
            raise ValueError(f"range must be at least 2, got {range}")
        if origin < 0:
            raise ValueError(f"binary counts from 0, so origin must be at least 0, got {origin}")
        self.bits = (range - 1).bit_length()
        if self.bits > self.columns:
            raise ValueError(
                f"range={range} needs {self.bits} columns, there are {self.columns}: a range of at most "
                f"{2**self.columns} would do"
            )
        self.max_length = 2**self.bits - origin
        self.distinct_until = self.max_length

    def vectors(self, numbers: Tensor, context: Context, dtype: torch.dtype) -> Tensor:
        first, last = self.origin + context.first_number(), self.origin + context.last_number()
        if first < 0 or last >= 2**self.bits:
            cure = "negative numbers have no code" if first < 0 else "a larger range would name it"
            raise LengthError(
                f"binary counts from 0 to {2**self.bits - 1} with {self.bits} bits, number "
                f"{first if first < 0 else last} was asked for: {cure}"
            )
        powers = torch.arange(self.bits, device=numbers.device)
        bits = (numbers[..., None] >> powers) & 1
        return torch.nn.functional.pad(2 * bits - 1, (0, self.columns - self.bits)).to(dtype)
