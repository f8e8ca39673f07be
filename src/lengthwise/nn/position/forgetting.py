"""The forget gate of the Forgetting Transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lengthwise.nn.init import Distribution, Fixed

from .contract import TRANSLATION, Context, PositionEncoding, Sizes


class Forgetting(PositionEncoding):
    """logit + Σ_{l=m+1…n} ln f_l, f_l = σ(w_h·x_l + b_h): what stands between key and query decides how much of the key
    is forgotten. ALiBi is the case of a constant gate.

    gate_bias: where b starts, under every scheme: σ(5) forgets 0.7 % a step, σ(0) half.
    Gates are computed in float32 at least. Position numbers play no part; pads forget nothing. A key is forgotten on
    the way to a later query, so it needs a causal model.
    """

    needs_causal = True
    reads_positions = False
    distinct_until = 128
    symmetries = frozenset({TRANSLATION})
    paper = "Lin et al. 2025, Forgetting Transformer: Softmax Attention with a Forget Gate"

    def __init__(self, sizes: Sizes, *, gate_bias: float = 5.0, share: bool = False) -> None:
        super().__init__(sizes, share=share)
        self.gate_bias = gate_bias
        self.gate = nn.Linear(sizes.width, sizes.heads)

    def initial(self, name: str) -> Distribution | None:
        return Fixed(self.gate_bias) if name == "gate.bias" else None

    def forgotten(self, context: Context) -> Tensor:
        """Σ_{l ≤ n} ln f_l, (B, H, N)."""
        x = context.keys_input
        if x is None:
            raise ValueError("forgetting reads the layer's input: give the context its keys_input")
        with torch.autocast(x.device.type, enabled=False):
            weight, bias = (p.to(context.precision) for p in (self.gate.weight, self.gate.bias))
            logs = F.logsigmoid(F.linear(x.to(context.precision), weight, bias))
        if context.key_mask is not None:
            logs = logs.masked_fill(~context.key_mask[..., None], 0.0)
        return logs.cumsum(dim=1).transpose(1, 2)

    def bias(self, context: Context) -> Tensor:
        sums = self.forgotten(context)
        return sums[..., :, None] - sums[..., None, :]
