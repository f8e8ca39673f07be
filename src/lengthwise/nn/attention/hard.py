"""Hard attention."""

from __future__ import annotations

from torch import Tensor

from .scaled import ScaledAttention


class HardAttention(ScaledAttention):
    """The single best-matching value (text before eq 5): weight 1 at the largest logit, the first one of
    equals.

    Not differentiable in queries and keys; in training the gradient is that of Softmax (straight-through), at
    evaluation there is none.
    """

    reads_every_key = False

    def normalise(self, logits: Tensor) -> Tensor:
        best = logits.argmax(dim=-1, keepdim=True)
        hard = logits.new_zeros(logits.shape).scatter_(-1, best, 1.0)
        if not self.training:
            return hard
        soft = logits.softmax(dim=-1)
        return hard + (soft - soft.detach())
