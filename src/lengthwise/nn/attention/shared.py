"""One projection for queries, keys and values."""

from __future__ import annotations

from torch import Tensor, nn

from lengthwise.nn.position.contract import PositionEncoding

from .base import MultiHeadAttention, head_width, join_heads, output_map, split_heads


class SharedAttention(MultiHeadAttention):
    """Y = Softmax[XU UᵀXᵀ] XU, one U a head (eqs 7-9). The scores are symmetric: no directed relation fits.

    Values are as wide as keys. W^(o) follows unless `output_projection=False`, which gives the equation
    itself.
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
        key_dim = key_dim or value_dim or head_width(width, heads)
        if value_dim not in (None, key_dim):
            raise ValueError(
                f"shared attention has one projection: value_dim={value_dim} must equal key_dim={key_dim}"
            )
        if position is not None and position.uses("read") and position.sizes.value_width != key_dim:
            raise ValueError(
                f"{type(position).__name__} adds vectors of width {position.sizes.value_width} to values of width "
                f"{key_dim}: set value_dim to {key_dim}"
            )
        self.shared = nn.Linear(width, heads * key_dim, bias=bias)
        self.output = output_map(width, heads, key_dim, bias=bias, projection=output_projection)

    def project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q = split_heads(self.shared(x), self.heads)
        k = q if source is x else split_heads(self.shared(source), self.heads)
        return q, k, k

    def combine(self, heads: Tensor) -> Tensor:
        return self.output(join_heads(heads))
