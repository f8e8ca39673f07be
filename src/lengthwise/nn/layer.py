"""One layer: attention, cross-attention in a decoder that has an encoder, MLP (algorithm 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor, nn

from .attention import MultiHeadAttention
from .norm import Placement
from .position import Context


@dataclass
class Trace:
    """What a stack is asked to show. hidden[0] is its input, hidden[l] what layer l returns (before any final
    norm)."""

    attention_maps: list[Tensor] = field(default_factory=list)
    cross_maps: list[Tensor] = field(default_factory=list)
    hidden: list[Tensor] = field(default_factory=list)


class Layer(nn.Module):
    """(B, N, D) -> (B, N, D). Each sublayer's output goes through dropout, then through its placement's
    residual."""

    def __init__(
        self,
        *,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention | None,
        mlp: nn.Module,
        placement: Callable[[], Placement],
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, placement()
        self.cross_attention = cross_attention
        self.cross_norm = None if cross_attention is None else placement()
        self.mlp, self.mlp_norm = mlp, placement()
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        context: Context,
        memory: Tensor | None = None,
        cross_context: Context | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        maps = None if trace is None else trace.attention_maps
        x = self.attention_norm(x, lambda h: self.dropout(self.attention(h, context, maps=maps)))
        if self.cross_attention is not None and self.cross_norm is not None:
            attend, cross_maps = self.cross_attention, None if trace is None else trace.cross_maps
            x = self.cross_norm(x, lambda h: self.dropout(attend(h, cross_context, memory, maps=cross_maps)))
        return self.mlp_norm(x, lambda h: self.dropout(self.mlp(h)))
