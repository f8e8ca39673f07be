"""T5's relative bias."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lengthwise.nn.init import Distribution, Normal

from .contract import Context, Sizes
from .distance import DistanceBias


def bucket_starts(num_buckets: int, max_distance: int) -> list[int]:
    """The smallest distance of bucket 1, 2, …: one bucket a distance for the first half of them, then
    logarithmic, E + ⌊E·ln(r/E)/ln(max_distance/E)⌋ with E = num_buckets/2. In whole numbers, so that no
    rounding of a logarithm moves a border."""
    exact = num_buckets // 2
    logarithmic = num_buckets - exact
    starts = list(range(1, exact + 1))
    for step in range(1, logarithmic):  # smallest r with (r/E)^logarithmic ≥ (max_distance/E)^step
        r = starts[-1]
        while r**logarithmic * exact**step < max_distance**step * exact**logarithmic:
            r += 1
        starts.append(r)
    return starts


class T5Bias(DistanceBias):
    """logit + b_h[bucket(m - n)], a learned table over buckets of distances; all distances ≥ `max_distance`
    share one.

    Bidirectional: half of the buckets for keys behind, half for keys ahead. The table starts from N(0, 1)
    under every scheme: from 0.02 it barely learns in a short training.
    """

    whole_numbers = True
    paper = "Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified Transformer, section 2.1"

    starts: Tensor

    def __init__(
        self,
        sizes: Sizes,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        share: bool = False,
        cross: bool = False,
    ) -> None:
        super().__init__(sizes, share=share, cross=cross)
        self.buckets_behind = num_buckets if sizes.causal else num_buckets // 2
        if self.buckets_behind < 2 or (not sizes.causal and num_buckets % 2):
            raise ValueError(
                f"num_buckets must be at least 2 (even, and at least 4, if not causal), got {num_buckets}"
            )
        if max_distance <= self.buckets_behind // 2:
            raise ValueError(
                f"max_distance={max_distance} must exceed the {self.buckets_behind // 2} distances told apart"
            )
        self.distinct_until = self.buckets_behind // 2
        starts = torch.tensor(bucket_starts(self.buckets_behind, max_distance))
        self.register_buffer("starts", starts, persistent=False)
        self.table = nn.Embedding(num_buckets, sizes.heads)

    def initial(self, name: str) -> Distribution:
        return Normal(1.0)

    def buckets(self, offsets: Tensor) -> Tensor:
        """Key minus query position, any shape -> bucket."""
        distances = -offsets.clamp(max=0) if self.sizes.causal else offsets.abs()
        near_to_far = torch.bucketize(distances, self.starts, right=True)
        return near_to_far if self.sizes.causal else near_to_far + self.buckets_behind * (offsets > 0)

    def at(self, offsets: Tensor, context: Context) -> Tensor:
        return self.table(self.buckets(offsets)).movedim(-1, -3)
