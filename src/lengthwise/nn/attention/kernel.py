"""Which keys a query may read, and the weighted sum over them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def allowed_keys(num_queries: int, num_keys: int, causal: bool, key_mask: Tensor | None) -> Tensor | None:
    """(B or 1, 1, Nq, Nk) bool, True = may be read. None where everything is allowed, or `causal` alone says
    it all.

    key_mask: (B, Nk) bool, True = real, at least one in each row. A query left without any key (a pad in
    front of a causal sequence) reads itself, so that every softmax has something to sum over.
    """
    if key_mask is None:
        return None
    allowed = key_mask[:, None, None, :]
    if causal:
        allowed = allowed & lower_triangle(num_queries, num_keys, key_mask.device)
        itself = torch.eye(num_queries, num_keys, dtype=torch.bool, device=key_mask.device)
        allowed = allowed | (itself & ~allowed.any(dim=-1, keepdim=True))
    return allowed


def lower_triangle(num_queries: int, num_keys: int, device: torch.device) -> Tensor:
    """(Nq, Nk) bool: key not after query."""
    return torch.ones(num_queries, num_keys, dtype=torch.bool, device=device).tril()


def masked(logits: Tensor, *, causal: bool, allowed: Tensor | None) -> Tensor:
    """(B, H, Nq, Nk) logits, -inf where a query may not read a key."""
    if allowed is None and causal:
        allowed = lower_triangle(logits.shape[-2], logits.shape[-1], logits.device)
    return logits if allowed is None else logits.masked_fill(~allowed, float("-inf"))


def logits(q: Tensor, k: Tensor, scale: float, bias: Tensor | None) -> Tensor:
    """scale·Q Kᵀ + bias, (B, H, Nq, Nk)."""
    scores = scale * (q @ k.transpose(-2, -1))
    return scores if bias is None else scores + bias


def fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    bias: Tensor | None,
    causal: bool,
    allowed: Tensor | None,
    dropout: float,
) -> Tensor:
    """Softmax[scale·Q Kᵀ + bias] V in one kernel: (B, H, Nq, Dv)."""
    if allowed is None and (bias is None or not causal):
        mask = None if bias is None else bias.to(q.dtype)
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale
        )
    if allowed is None:
        allowed = lower_triangle(q.shape[-2], k.shape[-2], q.device)
    mask = allowed if bias is None else bias.to(q.dtype).masked_fill(~allowed, float("-inf"))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale)
