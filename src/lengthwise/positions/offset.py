"""A random start."""

from __future__ import annotations

import numpy as np

from .contract import Per
from .drawn import AtTest, Drawn


class Offset(Drawn):
    """s…s+N-1 with s uniform over 0…range-N (shifted absolute positions, Kiyono et al. 2021).

    range:   numbers that training shows; must cover the longest sequence (of the test too where its rule is the same).
    per:     one start a "sample", or one a "batch" (the same share of each sequence's own room).
    at_test: "sequential" = the test counts from 0, as published; "same" = from starts that are drawn once for all.
    """

    def __init__(self, *, range: int = 1024, per: Per = "sample", at_test: AtTest = "sequential") -> None:
        super().__init__(range, per, at_test)

    def numbers(
        self, counts: np.ndarray, generator: np.random.Generator | None, given: np.ndarray | None = None
    ) -> np.ndarray:
        assert generator is not None
        places = np.arange(counts.max())
        shares = generator.random(len(counts) if self.per == "sample" else 1)
        starts = (shares * (self.range - counts + 1)).astype(np.int64)
        return np.minimum(starts[:, None] + places, self.range - 1)
