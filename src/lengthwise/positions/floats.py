"""Random real numbers, in order."""

from __future__ import annotations

import numpy as np

from .contract import Per
from .drawn import AtTest, Drawn


class Floats(Drawn):
    """N real numbers uniform over [0, range), sorted (random float sampling).

    For encodings that are functions of a real number: sinusoidal, rotary, ALiBi. Tables and counters are refused.

    range:   any length fits in it.
    per:     one draw a "sample", or one a "batch".
    at_test: "same" = drawn once for all; "sequential" = 0…N-1.
    """

    evenly_spaced = False
    whole = False

    def __init__(self, *, range: int = 1024, per: Per = "sample", at_test: AtTest = "same") -> None:
        super().__init__(range, per, at_test)

    def numbers(
        self, counts: np.ndarray, generator: np.random.Generator | None, given: np.ndarray | None = None
    ) -> np.ndarray:
        """(B, N) float32."""
        assert generator is not None
        width = int(counts.max())
        rows = len(counts) if self.per == "sample" else 1
        shares = generator.random((rows, width))
        real = np.arange(width) < counts[:, None]
        ordered = np.sort(np.where(real, shares, 1.0), axis=1)
        # Rounded to float32 a share just below 1 would be 1.
        return np.minimum(self.range * ordered, np.nextafter(np.float32(self.range), np.float32(0))).astype(
            np.float32
        )

    def check(self, count: int) -> None:
        """Any number of them fits."""
