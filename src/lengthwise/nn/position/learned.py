"""The learned table."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from .contract import Context, LengthError, Sizes
from .embedding import EmbeddingEncoding


class Learned(EmbeddingEncoding):
    """One learned vector a position, up to `max_length`.

    beyond: what happens past the positions seen in training (`trained_length`; the table's end where that is
        unknown).
        "untrained": the rows as they were initialised, to the end of the table; results there carry a flag.
        "error": a LengthError.
        "clamp": every later position takes the last trained row.
        "interpolate": a sequence longer than the trained length L has its positions squeezed into 0…L-1 and
            rows mixed linearly. A prefix is then encoded differently in a longer sequence: not prefix-stable.
    Raises LengthError past the table, naming scheme, length and limit.
    """

    whole_numbers = True
    paper = "Gehring et al. 2017, Convolutional Sequence to Sequence Learning"

    def __init__(
        self,
        sizes: Sizes,
        *,
        max_length: int = 1024,
        beyond: Literal["untrained", "error", "clamp", "interpolate"] = "untrained",
        combine: Literal["add", "concat"] = "add",
        dim: int | None = None,
    ) -> None:
        super().__init__(sizes, combine=combine, dim=dim)
        trained = max_length if sizes.trained_length is None else sizes.trained_length
        if beyond not in ("untrained", "error", "clamp", "interpolate"):
            raise ValueError(f'beyond must be "untrained", "error", "clamp" or "interpolate", got {beyond!r}')
        if max_length < trained:
            raise ValueError(
                f"max_length={max_length} is less than the {trained} positions of the training sequences"
            )
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {max_length}")
        self.beyond, self.trained = beyond, trained
        self.max_length = {"untrained": max_length, "error": trained}.get(beyond)
        if beyond in ("clamp", "interpolate"):
            self.distinct_until = trained
        self.prefix_stable = beyond != "interpolate"
        self.table = nn.Embedding(max_length, self.columns)

    def flags(self, num_positions: int) -> tuple[str, ...]:
        flag = {"untrained": "untrained", "clamp": "clamped", "interpolate": "interpolated"}.get(self.beyond)
        return (f"{flag}_positions",) if flag and num_positions > self.trained else ()

    def vectors(self, numbers: Tensor, context: Context, dtype: torch.dtype) -> Tensor:
        if self.beyond == "interpolate":
            return self._interpolated(numbers, context, dtype)
        if self.beyond == "clamp":
            return self.table(numbers.clamp(max=self.trained - 1))
        last = context.last_number()
        if self.max_length is not None and last >= self.max_length:
            raise LengthError(
                f"learned (beyond={self.beyond}) defines {self.max_length} positions, position {last} was "
                f"asked for: a larger max_length, beyond=clamp or beyond=interpolate would define it"
            )
        return self.table(numbers)

    def _interpolated(self, numbers: Tensor, context: Context, dtype: torch.dtype) -> Tensor:
        if context.key_mask is None:
            last = numbers.amax(1, keepdim=True)
        else:  # the sample's own last position: padding must not change it
            last = numbers.masked_fill(~context.key_mask, 0).amax(1, keepdim=True)
        squeeze = (self.trained - 1) / last.clamp(min=max(self.trained - 1, 1)).to(dtype)
        exact = (numbers.to(dtype) * squeeze).clamp(max=self.trained - 1)
        below = exact.floor()
        above = (below + 1).clamp(max=self.trained - 1)
        return torch.lerp(
            self.table(below.long()),
            self.table(above.long()),
            (exact - below)[..., None].to(self.table.weight.dtype),
        )
