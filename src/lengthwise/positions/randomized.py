"""A random subset of a longer range, in order."""

from __future__ import annotations

import numpy as np

from .contract import Per
from .drawn import AtTest, Drawn

_AT_ONCE = 1 << 22
"""Random keys held at a time."""


class Randomized(Drawn):
    """N numbers drawn without replacement from 0…range-1, sorted (Ruoss et al. 2023).

    Every distance up to `range` is met in training, at the cost that none means the same twice.

    range:   must cover the longest sequence of training and test (published: 2048).
    per:     one draw a "sample", or one a "batch": sequences of one length then share their numbers, and shorter ones
        take a subset of them.
    at_test: "same" = drawn once for all, so that a test can be repeated; "sequential" = 0…N-1.
    Known deviation: the published code draws anew in each layer for relative encodings, here all layers share one draw.
    """

    evenly_spaced = False
    most = 1 << 16  # each number of the range gets a random key

    def __init__(self, *, range: int = 1024, per: Per = "sample", at_test: AtTest = "same") -> None:
        super().__init__(range, per, at_test)

    def numbers(
        self, counts: np.ndarray, generator: np.random.Generator | None, given: np.ndarray | None = None
    ) -> np.ndarray:
        assert generator is not None
        width = int(counts.max())
        drawn = [  # by a random key for each number: the first n of a random order are a random subset
            np.argsort(generator.random((rows, self.range)), axis=1)[:, :width]
            for rows in self._chunks(counts)
        ]
        real = np.arange(width) < counts[:, None]
        numbers = np.where(real, np.concatenate(drawn), self.range)
        return np.minimum(np.sort(numbers, axis=1), self.range - 1)

    def _chunks(self, counts: np.ndarray) -> list[int]:
        """Numbers of rows that are drawn at a time."""
        if self.per == "batch":
            return [1]
        most = max(1, _AT_ONCE // self.range)
        return [min(most, len(counts) - start) for start in range(0, len(counts), most)]
