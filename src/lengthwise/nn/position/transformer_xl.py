"""The relative encoding of Transformer-XL."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lengthwise.nn.init import Distribution, Normal

from .contract import TRANSLATION, Constant, Context, PositionEncoding, Sizes


class TransformerXL(PositionEncoding):
    """logit = s·[(q_n + u)·k_m + (q_n + v)·W R_{n-m}], R the sinusoid of width D, W learned, u and v learned vectors a
    head: (a) content, (b) content and distance, (c) which keys matter, (d) which distances matter.

    Bidirectional models use distances of both signs. u and v start from N(0, 0.02²) under every scheme.
    """

    symmetries = frozenset({TRANSLATION})
    whole_numbers = True
    paper = "Dai et al. 2019, Transformer-XL: Attentive Language Models beyond a Fixed-Length Context, section 3.3"

    def __init__(
        self, sizes: Sizes, *, base: float = 10000.0, share: bool = False, cross: bool = False
    ) -> None:
        super().__init__(sizes, share=share, cross=cross)
        if base <= 1:
            raise ValueError(f"base must be greater than 1, got {base}")
        heads, width = sizes.heads, sizes.query_width
        self.frequencies = Constant([base ** (-i / sizes.width) for i in range(0, sizes.width, 2)])
        self.distance = nn.Linear(sizes.width, heads * width, bias=False)
        self.u = nn.Parameter(torch.zeros(heads, width))
        self.v = nn.Parameter(torch.zeros(heads, width))

    def initial(self, name: str) -> Distribution | None:
        return Normal(0.02) if name in ("u", "v") else None

    def distances(self, context: Context) -> tuple[Tensor, Tensor]:
        """Every distance n - m that occurs, (R,), and for each pair which one it is, (B or 1, 1, Nq, Nk)."""
        offsets = -context.offsets()
        if context.query_positions is None and context.key_positions is None:
            low = 1 - context.num_keys
            return torch.arange(low, context.num_queries, device=offsets.device), (offsets - low)[:, None]
        found, index = offsets.unique(return_inverse=True)
        return found, index[:, None]

    def vectors(self, distances: Tensor, dtype: torch.dtype) -> Tensor:
        """(R,) -> W R of each head, (H, R, K)."""
        precise = torch.promote_types(dtype, torch.float32)
        phases = distances[:, None].to(precise) * self.frequencies.like(distances.device, precise)
        sinusoid = torch.stack((phases.sin(), phases.cos()), dim=-1).flatten(-2)[:, : self.sizes.width]
        projected = self.distance(sinusoid.to(self.distance.weight.dtype))
        return projected.unflatten(-1, self.u.shape).transpose(0, 1).to(dtype)

    def score(self, logits: Tensor, q: Tensor, k: Tensor, context: Context) -> Tensor:
        found, index = self.distances(context)
        u, v = (vector[:, None, :].to(q.dtype) for vector in (self.u, self.v))
        by_distance = (q + v) @ self.vectors(found, q.dtype).transpose(-2, -1)  # (B, H, Nq, R)
        by_key = u @ k.transpose(-2, -1)  # (B, H, 1, Nk)
        index = index.expand(*logits.shape[:2], -1, -1)
        return logits + context.scale * (by_key + by_distance.gather(-1, index))
