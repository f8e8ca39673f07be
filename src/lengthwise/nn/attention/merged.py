"""The redundancy-free form of multi-head attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lengthwise.nn.init import Bias, Role, Weight
from lengthwise.nn.position.contract import PositionEncoding

from .base import MultiHeadAttention, head_width, split_heads


class MergedAttention(MultiHeadAttention):
    """Y = Σ_h Softmax[Q_h K_hᵀ/√D_k] X W_h, with W_h^(v) W_h^(o) merged into one D×D matrix W_h (text after
    algorithm 2).

    Equal to ScaledAttention for W_h = W_h^(v) W_h^(o); (W^(v) G, G⁻¹ W^(o)) gives the same W_h for every
    invertible G.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = False,
        output_projection: bool = True,
        dropout: float = 0.0,
        position: PositionEncoding | None = None,
    ) -> None:
        super().__init__(width, heads, key_dim=key_dim, dropout=dropout, position=position)
        if value_dim is not None or not output_projection:
            raise ValueError(
                f"merged attention has neither values nor an output projection of its own: leave out "
                f"value_dim and output_projection (got {value_dim}, {output_projection})"
            )
        if position is not None and position.uses("read"):
            raise ValueError(
                f"merged attention has no values for {type(position).__name__} to add to: use an encoding that acts "
                f"on queries and keys alone (pe=shaw has pe.values=false)"
            )
        key_dim = key_dim or head_width(width, heads)
        self.scale = key_dim**-0.5
        self.query = nn.Linear(width, heads * key_dim, bias=bias)
        self.key = nn.Linear(width, heads * key_dim, bias=bias)
        self.merged = nn.Parameter(torch.empty(heads, width, width).normal_(std=(heads * width) ** -0.5))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def initial(self, name: str) -> Role | None:
        fan_in = self.heads * self.width
        if name == "merged":
            return Weight(fan_in, residual=True)
        return Bias(fan_in) if name == "bias" else None

    def project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k = split_heads(self.query(x), self.heads), split_heads(self.key(source), self.heads)
        return q, k, torch.einsum("bnd,hde->bhne", source, self.merged)

    def combine(self, heads: Tensor) -> Tensor:
        y = heads.sum(dim=1)
        return y if self.bias is None else y + self.bias
