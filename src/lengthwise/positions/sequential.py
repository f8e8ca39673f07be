"""0, 1, 2, …"""

from __future__ import annotations

import numpy as np

from .contract import Positions


class Sequential(Positions):
    """0…N-1, in training and in the test."""

    def numbers(
        self, counts: np.ndarray, generator: np.random.Generator | None, given: np.ndarray | None = None
    ) -> None:
        return None

    def span(self, count: int, highest: int | None = None) -> int:
        return count
