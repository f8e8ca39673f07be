"""Attention without parameters."""

from __future__ import annotations

from torch import Tensor

from lengthwise.nn.position.contract import PositionEncoding

from .base import MultiHeadAttention, head_width, join_heads, split_heads


class ParameterFreeAttention(MultiHeadAttention):
    """Y = Softmax[X Xᵀ] X (eqs 5-6); with several heads, each on its own D/H columns of X. There is no
    W^(o)."""

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
        super().__init__(width, heads, dropout=dropout, position=position)
        columns = head_width(width, heads)
        if bias or key_dim not in (None, columns) or value_dim not in (None, columns):
            raise ValueError(
                f"parameter-free attention has no projections: bias, key_dim and value_dim do not apply "
                f"(got bias={bias}, key_dim={key_dim}, value_dim={value_dim}; a head has {columns} columns)"
            )
        if not output_projection:
            raise ValueError(
                "parameter-free attention has no output projection to leave out: output_projection=false does "
                "not apply"
            )

    def project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k = split_heads(source, self.heads)
        return split_heads(x, self.heads), k, k

    def combine(self, heads: Tensor) -> Tensor:
        return join_heads(heads)
