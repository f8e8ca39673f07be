"""Attention with a bias by distance, without an array of all queries by all keys.

The bias is a vector over distances. With the queries in reverse order, row r of the mask is that vector from entry r
on: the whole mask is a view of the vector, in which a row begins one entry after the row above. A constant bias goes
into the fused kernel as that view. A learned one, and one beside pads, is taken a chunk of queries at a time; the
backward pass computes the chunk again, and adds the gradient of the bias up along the diagonals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

LONG = 1 << 22
"""Entries (heads × queries × keys) from which this is used, a mask of 16 MB in float32; below, one mask will do."""

CHUNK = 1 << 21
"""Entries of one chunk of a mask or its gradient."""

STAIRS = 8
"""Into how many parts a causal sequence is cut, so that few of the keys ahead are computed and thrown away."""


def worthwhile(q: Tensor, k: Tensor) -> bool:
    """Whether a dense mask of these queries and keys, (B, H, N, K) each, would be large."""
    return q.shape[1] * q.shape[2] * k.shape[2] >= LONG


def attend(
    q: Tensor, k: Tensor, v: Tensor, vector: Tensor, *, scale: float, causal: bool, allowed: Tensor | None
) -> Tensor:
    """Softmax[scale·Q Kᵀ + vector[h, m - n + Nq - 1]] V, (B, H, Nq, Dv).

    vector: (H, Nq+Nk-1), see `PositionEncoding.by_distance`.  allowed: (B or 1, 1, Nq or 1, Nk) bool, None = all.
    """
    if causal:  # entries past Nq-1 are keys ahead
        ahead = torch.arange(vector.shape[-1], device=vector.device) >= q.shape[2]
        vector = vector.masked_fill(ahead, float("-inf"))
    learned = vector.requires_grad and torch.is_grad_enabled()
    if learned or allowed is not None or q.device.type != "cpu":  # a GPU's kernel would copy the whole view
        y: Tensor = _Chunked.apply(q, k, v, vector, allowed, scale, causal)
        return y
    size = -(-q.shape[2] // STAIRS) if causal else q.shape[2]
    parts = [
        F.scaled_dot_product_attention(
            q[:, :, rows].flip(2), k[:, :, :end], v[:, :, :end], attn_mask=mask, scale=scale
        ).flip(2)
        for rows, end, mask in _masks(q, k, vector, None, causal, size)
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def _masks(
    q: Tensor, k: Tensor, vector: Tensor, allowed: Tensor | None, causal: bool, size: int
) -> Iterator[tuple[slice, int, Tensor]]:
    """Chunks of `size` queries: which rows, how many keys they can reach, and the mask of the rows in reverse order,
    (1 or B, H, rows, keys)."""
    queries, keys = q.shape[2], k.shape[2]
    vector = vector.detach().to(q.dtype)
    if allowed is not None:
        allowed = allowed.expand(-1, -1, queries, -1)
    for start in range(0, queries, size):
        stop = min(start + size, queries)
        end = min(stop, keys) if causal else keys
        mask = vector.unfold(-1, end, 1)[None, :, queries - stop : queries - start]
        if allowed is not None:
            mask = mask.masked_fill(~allowed[:, :, start:stop, :end].flip(2), float("-inf"))
        yield slice(start, stop), end, mask


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        vector: Tensor,
        allowed: Tensor | None,
        scale: float,
        causal: bool,
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, vector, allowed)
        ctx.scale, ctx.causal = scale, causal
        ctx.size = max(1, CHUNK // (q.shape[0] * q.shape[1] * k.shape[2]))
        y = q.new_empty(*q.shape[:3], v.shape[-1])
        for rows, end, mask in _masks(q, k, vector, allowed, causal, ctx.size):
            y[:, :, rows] = F.scaled_dot_product_attention(
                q[:, :, rows].flip(2), k[:, :, :end], v[:, :, :end], attn_mask=mask, scale=scale
            ).flip(2)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, vector, allowed = ctx.saved_tensors
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        dvector = torch.zeros_like(vector) if ctx.needs_input_grad[3] else None
        for rows, end, mask in _masks(q, k, vector, allowed, ctx.causal, ctx.size):
            chunk = (q[:, :, rows].flip(2), k[:, :, :end], v[:, :, :end])
            dq_chunk, dk_chunk, dv_chunk, dlogits = _gradients(
                *chunk, mask, dy[:, :, rows].flip(2), ctx.scale
            )
            dq[:, :, rows] = dq_chunk.flip(2)
            dk[:, :, :end] += dk_chunk
            dv[:, :, :end] += dv_chunk
            if dvector is not None:
                first = q.shape[2] - rows.stop
                sums = _diagonals(dlogits.sum(dim=0))
                dvector[:, first : first + sums.shape[-1]] += sums
        return dq, dk, dv, dvector, None, None, None


def _gradients(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, dy: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v and the logits, written out: the fused kernel does not give the last."""
    precise = torch.promote_types(q.dtype, torch.float32)
    q, k, v, dy = (x.to(precise) for x in (q, k, v, dy))
    weights = (q @ k.transpose(-2, -1)).mul_(scale).add_(mask).softmax(dim=-1)
    dv = weights.transpose(-2, -1) @ dy
    dweights = dy @ v.transpose(-2, -1)
    dlogits = dweights.sub_((dweights * weights).sum(dim=-1, keepdim=True)).mul_(weights)
    return scale * (dlogits @ k), scale * (dlogits.transpose(-2, -1) @ q), dv, dlogits


def _diagonals(x: Tensor) -> Tensor:
    """(H, R, C) -> (H, R+C-1): entry d is the sum over row + column = d."""
    heads, rows, columns = x.shape
    padded = F.pad(x, (0, rows)).flatten(1)  # row r is shifted right by r when read with one column less
    return padded[:, : rows * (rows + columns - 1)].view(heads, rows, -1).sum(dim=1)
