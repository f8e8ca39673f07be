"""Attention weights that do not depend on the data."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lengthwise.nn.init import Distribution, Normal, Role
from lengthwise.nn.position.contract import Context, LengthError, PositionEncoding

from . import kernel
from .base import MultiHeadAttention, head_width, join_heads, output_map, split_heads


class FixedAttention(MultiHeadAttention):
    """Y = Softmax[S] V with S a learned N×N matrix a head, indexed by position (for comparison, text after
    eq 13).

    max_length: rows and columns of S. An encoding's bias adds to S; there are no queries and keys to rotate.
    Raises LengthError past the table, ValueError with an encoding that needs queries and keys.
    """

    symmetries = frozenset()
    reads_queries = False

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = False,
        output_projection: bool = True,
        max_length: int = 128,
        dropout: float = 0.0,
        position: PositionEncoding | None = None,
    ) -> None:
        super().__init__(width, heads, value_dim=value_dim, dropout=dropout, position=position)
        if key_dim is not None:
            raise ValueError(f"fixed attention has no keys: key_dim={key_dim} does not apply")
        for hook in ("rotate", "score", "read"):
            if self.position is not None and self.position.uses(hook):
                raise ValueError(
                    f"fixed attention has no queries and keys for {type(self.position).__name__} to act on: "
                    f"use an encoding that acts on the embedding, or a bias"
                )
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {max_length}")
        value_dim = value_dim or head_width(width, heads)
        self.max_length = max_length
        self.table = nn.Parameter(torch.empty(heads, max_length, max_length).normal_())
        self.value = nn.Linear(width, heads * value_dim, bias=bias)
        self.output = output_map(width, heads, value_dim, bias=bias, projection=output_projection)

    def initial(self, name: str) -> Distribution | Role | None:  # type: ignore[override]
        return Normal(1.0) if name == "table" else super().initial(name)

    def forward(
        self,
        x: Tensor,
        context: Context | None = None,
        source: Tensor | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        source = x if source is None else source
        context = Context(x.shape[1], source.shape[1]) if context is None else context
        context = replace(context, queries_input=x, keys_input=source)
        logits = self._logits(context)
        if self.position is not None and (bias := self.position.bias(context)) is not None:
            logits = logits + bias
        weights = kernel.masked(logits, causal=context.causal, allowed=context.allowed).softmax(dim=-1)
        weights = weights.expand(x.shape[0], -1, -1, -1)
        if maps is not None:
            maps.append(weights)
        values = split_heads(self.value(source), self.heads)
        weights = F.dropout(weights, self.dropout, self.training).to(values.dtype)
        return self.output(join_heads(weights @ values))

    def _logits(self, context: Context) -> Tensor:
        """(B or 1, H, Nq, Nk)."""
        last = context.last_number()
        if last >= self.max_length:  # type: ignore[operator]
            raise LengthError(
                f"fixed attention has weights for {self.max_length} positions, position {last} was asked "
                f"for: a larger max_length would define it"
            )
        if context.query_positions is None and context.key_positions is None:
            return self.table[None, :, : context.num_queries, : context.num_keys]
        queries, keys = context.query_numbers(), context.key_numbers()
        return self.table[:, queries[:, :, None], keys[:, None, :]].transpose(0, 1)
