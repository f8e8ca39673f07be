"""Scaled dot-product attention, the default."""

from __future__ import annotations

from torch import Tensor, nn

from lengthwise.nn.position.contract import PositionEncoding

from .base import MultiHeadAttention, head_width, join_heads, output_map, split_heads


class ScaledAttention(MultiHeadAttention):
    """H_h = Softmax[Q_h K_hᵀ/√D_k] V_h (eq 14, algorithm 1); Y = Concat[H_1, …, H_H] W^(o) (eqs 15-19,
    algorithm 2).

    (Algorithm 1 gives V as N×D, meaning N×D_v; algorithm 2 concatenates up to H_N, meaning H_H.)
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
        super().__init__(
            width, heads, key_dim=key_dim, value_dim=value_dim, dropout=dropout, position=position
        )
        key_dim = key_dim or head_width(width, heads)
        value_dim = value_dim or head_width(width, heads)
        self.scale = self.logit_scale(key_dim)
        self.query = nn.Linear(width, heads * key_dim, bias=bias)
        self.key = nn.Linear(width, heads * key_dim, bias=bias)
        self.value = nn.Linear(width, heads * value_dim, bias=bias)
        self.output = output_map(width, heads, value_dim, bias=bias, projection=output_projection)

    def logit_scale(self, key_dim: int) -> float:
        return key_dim**-0.5

    def project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.query(x), self.key(source), self.value(source)
        return split_heads(q, self.heads), split_heads(k, self.heads), split_heads(v, self.heads)

    def combine(self, heads: Tensor) -> Tensor:
        return self.output(join_heads(heads))
