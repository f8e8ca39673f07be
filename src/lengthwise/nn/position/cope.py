"""Contextual position: counting what the query asks for."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lengthwise.nn.init import Distribution, Fixed

from .contract import TRANSLATION, Context, PositionEncoding, Sizes


class CoPE(PositionEncoding):
    """logit + q_n·e[p_nm], p_nm = Σ_{t=m…n} σ(logit_nt): a key's position is how many keys from it to the query
    opened the query's gate.

    p is clamped to `max_position` - 1, and e mixed linearly between whole numbers. As in the authors' listing gates are
    of the scaled logits, q·e is not scaled, all heads share e, and e starts at 0. Position numbers play no part; keys
    that may not be read open no gate. It counts backwards from the query, so it needs a causal model.
    """

    needs_causal = True
    reads_positions = False
    symmetries = frozenset({TRANSLATION})
    paper = "Golovneva et al. 2024, Contextual Position Encoding: Learning to Count What's Important"

    def __init__(self, sizes: Sizes, *, max_position: int = 64, share: bool = False) -> None:
        super().__init__(sizes, share=share)
        if max_position < 2:
            raise ValueError(f"max_position must be at least 2, got {max_position}")
        self.distinct_until = max_position
        self.table = nn.Embedding(max_position, sizes.query_width)

    def initial(self, name: str) -> Distribution:
        return Fixed(0.0)

    def positions(self, logits: Tensor, context: Context) -> Tensor:
        """p, (B, H, Nq, Nk)."""
        gates = logits.to(torch.promote_types(logits.dtype, torch.float32)).sigmoid()
        readable = context.readable()
        if readable is not None:
            gates = gates.masked_fill(~readable, 0.0)
        return gates.flip(-1).cumsum(-1).flip(-1).clamp(max=self.table.num_embeddings - 1)

    def score(self, logits: Tensor, q: Tensor, k: Tensor, context: Context) -> Tensor:
        at_whole = (q @ self.table.weight.to(q.dtype).T).to(logits.dtype)  # (B, H, Nq, max_position)
        p = self.positions(logits, context)
        below, above = p.floor().long(), p.ceil().long()
        share = (p - below).to(logits.dtype)
        return logits + torch.lerp(at_whole.gather(-1, below), at_whole.gather(-1, above), share)
