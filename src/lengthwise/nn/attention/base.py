"""What all attention layers share: heads, position, masks, dropout, maps on request."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn
from torch.nn import functional as F

from lengthwise.nn.init import Role, Weight
from lengthwise.nn.position.contract import ALL_SYMMETRIES, Context, PositionEncoding, head_width

from . import chunked, kernel


class MultiHeadAttention(nn.Module):
    """An attention layer maps (B, N, D) to (B, N, D) for any N; every output is a weighted sum over the
    inputs (eqs 1-4).

    A variant says how queries, keys and values arise (`project`), their `scale`, and how heads are put
    together (`combine`); one that replaces softmax overrides `normalise`.

    width: D.  heads: H.  key_dim, value_dim: K and Dv, by default D/H, which must then be whole.
    bias: biases in the projections (text after eq 13).
    output_projection: W^(o), eq 18; without it H·Dv must be D.
    dropout: of the attention weights, in training only.
    position: an encoding that acts on attention, or None.
    Raises ValueError for sizes that do not fit.
    """

    symmetries: frozenset[str] = ALL_SYMMETRIES
    prefix_stable: bool = True
    max_length: int | None = None
    reads_queries: bool = True
    """What is read depends on who reads. Otherwise it cannot stand between a decoder and its encoder."""
    reads_every_key: bool = True
    """Every key that a query may read has some weight; False where one key takes all."""
    scale: float = 1.0

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
        super().__init__()
        for option, value in (("heads", heads), ("key_dim", key_dim), ("value_dim", value_dim)):
            if value is not None and value < 1:
                raise ValueError(f"{option} must be at least 1, got {value}")
        self.width, self.heads, self.dropout, self.position = width, heads, dropout, position

    def project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, Nq, D), (B, Nk, D) -> queries (B, H, Nq, K), keys (B, H, Nk, K), values (B, H, Nk, Dv)."""
        raise NotImplementedError

    def combine(self, heads: Tensor) -> Tensor:
        """(B, H, N, Dv) -> (B, N, D)."""
        raise NotImplementedError

    def normalise(self, logits: Tensor) -> Tensor:
        """(B, H, Nq, Nk) masked logits -> weights, non-negative, each row summing to 1 (eqs 3-4)."""
        return logits.softmax(dim=-1)

    def initial(self, name: str) -> Role | None:
        if name == "output.weight":
            return Weight(self.output.in_features, residual=True)  # type: ignore[union-attr,arg-type]
        return None

    def forward(
        self,
        x: Tensor,
        context: Context | None = None,
        source: Tensor | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """x (B, Nq, D) reads from `source` (B, Nk, D), by default from itself.

        The weights (B, H, Nq, Nk), before dropout, are appended to `maps`. They are computed beside the
        output, which is therefore the same to the bit whether they are asked for or not.
        """
        source = x if source is None else source
        context = Context(x.shape[1], source.shape[1]) if context is None else context
        context = replace(context, queries_input=x, keys_input=source, scale=self.scale)
        q, k, v = self.project(x, source)
        bias, by_distance, explicit = None, None, type(self).normalise is not MultiHeadAttention.normalise
        position, dropout = self.position, self.dropout if self.training else 0.0
        if position is not None:
            q, k = position.rotate(q, k, context)
            explicit = explicit or position.uses("score") or position.uses("read")
            if not explicit and not dropout and chunked.worthwhile(q, k):
                by_distance = position.by_distance(context)
            if by_distance is None or maps is not None:
                bias = position.bias(context)
        causal, allowed = context.causal, context.allowed

        if explicit or maps is not None:
            logits = kernel.logits(q, k, self.scale, bias)
            if position is not None:
                logits = position.score(logits, q, k, context)
            weights = self.normalise(kernel.masked(logits, causal=causal, allowed=allowed))
            if maps is not None:
                maps.append(weights)
        if explicit:
            weights = F.dropout(weights, dropout)
            read = None if position is None else position.read(weights, context)
            y = weights.to(v.dtype) @ v
            return self.combine(y if read is None else y + read.to(v.dtype))
        if by_distance is not None:
            y = chunked.attend(q, k, v, by_distance, scale=self.scale, causal=causal, allowed=allowed)
            return self.combine(y)
        y = kernel.fused(
            q, k, v, scale=self.scale, bias=bias, causal=causal, allowed=allowed, dropout=dropout
        )
        return self.combine(y)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, N, H·K) -> (B, H, N, K): head h owns columns h·K … (h+1)·K-1 of every token."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(heads: Tensor) -> Tensor:
    """(B, H, N, Dv) -> (B, N, H·Dv), Concat[H_1, …, H_H] (eq 17)."""
    return heads.transpose(1, 2).flatten(2)


def output_map(
    width: int, heads: int, value_dim: int, *, bias: bool, projection: bool
) -> nn.Linear | nn.Identity:
    """W^(o) (H·Dv -> D), or the identity. Raises ValueError where H·Dv ≠ D and there is no W^(o)."""
    if projection:
        return nn.Linear(heads * value_dim, width, bias=bias)
    if heads * value_dim != width:
        raise ValueError(
            f"without an output projection the heads must fill the width: {heads} heads of value_dim "
            f"{value_dim} give {heads * value_dim}, the width is {width}"
        )
    return nn.Identity()


__all__ = ["MultiHeadAttention", "head_width", "join_heads", "output_map", "split_heads"]
