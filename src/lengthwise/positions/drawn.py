"""Rules that draw from a range of numbers."""

from __future__ import annotations

from typing import Literal

from .contract import Per, Positions, one_of
from .sequential import Sequential

AtTest = Literal["same", "sequential"]


class Drawn(Positions):
    """What random rules share.

    range:   numbers that training shows, 0…range-1.
    per:     one draw a "sample", or one a "batch".
    at_test: "same" = drawn once for all, so that a test can be repeated; "sequential" = 0…N-1.
    Raises ValueError for options out of range.
    """

    draws = True
    most: int = 1 << 24
    """The longest range."""

    def __init__(self, range: int, per: Per, at_test: AtTest) -> None:
        if not 1 <= range <= self.most:
            raise ValueError(f"range={range} must be at least 1 and at most {self.most}")
        self.range = range
        self.per = one_of("per", per, ("sample", "batch"))
        self.at_test = one_of("at_test", at_test, ("same", "sequential"))

    def in_test(self) -> Positions:
        return self if self.at_test == "same" else Sequential()

    def span(self, count: int, highest: int | None = None) -> int:
        return self.range

    def check(self, count: int) -> None:
        if count > self.range:
            raise ValueError(
                f"range={self.range} has too few numbers for a sequence of {count} positions: set {count} or more"
            )
