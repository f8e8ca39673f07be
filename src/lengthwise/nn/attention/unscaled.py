"""Dot-product attention without the scale."""

from .scaled import ScaledAttention


class UnscaledAttention(ScaledAttention):
    """Softmax[Q Kᵀ] V (eqs 10-13): the logits' variance grows with D_k."""

    def logit_scale(self, key_dim: int) -> float:
        return 1.0
