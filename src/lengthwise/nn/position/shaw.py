"""Relative position representations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .contract import TRANSLATION, Context, PositionEncoding, Sizes


class Shaw(PositionEncoding):
    """logit = s·q_n·(k_m + a^K_{m-n}), y_n = Σ_m w_nm (v_m + a^V_{m-n}): a learned vector a distance, added to keys
    and to values; distances beyond ±`max_distance` share the last one. All heads use the same vectors.

    values: False leaves out a^V.  A causal model has vectors for distances behind alone.
    """

    symmetries = frozenset({TRANSLATION})
    whole_numbers = True
    paper = "Shaw et al. 2018, Self-Attention with Relative Position Representations, equations 3 and 4"

    def __init__(
        self,
        sizes: Sizes,
        *,
        max_distance: int = 16,
        values: bool = True,
        share: bool = False,
        cross: bool = False,
    ) -> None:
        super().__init__(sizes, share=share, cross=cross)
        if max_distance < 1:
            raise ValueError(f"max_distance must be at least 1, got {max_distance}")
        self.max_distance = max_distance
        self.distinct_until = max_distance
        rows = max_distance + 1 if sizes.causal else 2 * max_distance + 1
        self.keys = nn.Embedding(rows, sizes.query_width)
        self.values = nn.Embedding(rows, sizes.value_width) if values else None

    def uses(self, hook: str) -> bool:
        return super().uses(hook) and (hook != "read" or self.values is not None)

    def rows(self, context: Context) -> Tensor:
        """(B or 1, 1, Nq, Nk): the row of each pair, the farthest behind first."""
        ahead = 0 if self.sizes.causal else self.max_distance
        return (context.offsets().clamp(-self.max_distance, ahead) + self.max_distance)[:, None]

    def score(self, logits: Tensor, q: Tensor, k: Tensor, context: Context) -> Tensor:
        by_row = context.scale * (q @ self.keys.weight.to(q.dtype).T)  # (B, H, Nq, rows): no Nq×Nk×K array
        rows = self.rows(context).expand(*logits.shape[:2], -1, -1)
        return logits + by_row.gather(-1, rows)

    def read(self, weights: Tensor, context: Context) -> Tensor | None:
        if self.values is None:
            return None
        rows = self.rows(context).expand(*weights.shape[:2], -1, -1)
        summed = weights.new_zeros(*weights.shape[:3], self.values.num_embeddings)
        return torch.scatter_add(summed, -1, rows, weights) @ self.values.weight.to(weights.dtype)
