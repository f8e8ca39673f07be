"""Biases that depend on the distance between query and key, and on nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

from .contract import TRANSLATION, Context, PositionEncoding


class DistanceBias(PositionEncoding):
    """logit + b_h(m - n), m the key's position and n the query's: a head's bias is one function, `at`."""

    symmetries = frozenset({TRANSLATION})

    def at(self, offsets: Tensor, context: Context) -> Tensor:
        """(..., R, C) int64 offsets, key minus query position -> (..., H, R, C)."""
        raise NotImplementedError

    def bias(self, context: Context) -> Tensor:
        return self.at(context.offsets(), context)

    def by_distance(self, context: Context) -> Tensor | None:
        if context.query_positions is not None or context.key_positions is not None:
            return None
        offsets = torch.arange(1 - context.num_queries, context.num_keys, device=context.device)
        return self.at(offsets[None], context)[:, 0]
