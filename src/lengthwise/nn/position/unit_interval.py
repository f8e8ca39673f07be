"""A number in [0, 1]."""

from __future__ import annotations

import torch
from torch import Tensor

from .contract import Context
from .embedding import DirectionEncoding


class UnitInterval(DirectionEncoding):
    """r_n = (n/N)·u with N the sample's number of real positions (text before eq 25).

    Bounded, but a value does not name a position. It tells every position the length of the whole sequence,
    which a causal model must not know: refused there.
    """

    prefix_stable = False
    needs_bidirectional = True
    needs_counted = True
    paper = "Bishop & Bishop 2024, Deep Learning, ch. 12"

    def scalars(self, numbers: Tensor, context: Context, dtype: torch.dtype) -> Tensor:
        if context.key_mask is None:
            return numbers.to(dtype) / context.num_keys
        return numbers.to(dtype) / context.key_mask.sum(dim=1, keepdim=True)
