"""A plain integer."""

from __future__ import annotations

import torch
from torch import Tensor

from .contract import Context
from .embedding import DirectionEncoding


class Integer(DirectionEncoding):
    """r_n = n·u (text before eq 25): unbounded, so that far positions swamp the embedding."""

    paper = "Bishop & Bishop 2024, Deep Learning, ch. 12"

    def scalars(self, numbers: Tensor, context: Context, dtype: torch.dtype) -> Tensor:
        return numbers.to(dtype)
