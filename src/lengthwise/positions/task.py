"""Numbers that the task gives."""

from __future__ import annotations

import numpy as np

from .contract import Per, Positions, one_of


class TaskSupplied(Positions):
    """The task's own numbers, from 1; BOS, SEP, and whatever has no number, are 0.

    kind:       "coupled" = symbols that belong together share a number (position coupling, Cho et al. 2024); "index" =
        the place within the own string or number (Abacus, McLeish et al. 2024). What a task has is on its card.
    max_offset: in training every number but 0 is raised by an offset uniform over 0…max_offset, so that larger numbers
        than a training sequence has are trained too; the test has none.
    per:        one offset a "batch", as McLeish et al. do, or one a "sample".
    """

    evenly_spaced = False
    supplied = True

    def __init__(self, *, kind: str = "coupled", max_offset: int = 0, per: Per = "batch") -> None:
        if max_offset < 0:
            raise ValueError(f"max_offset={max_offset} must be at least 0")
        self.kind, self.max_offset = kind, max_offset
        self.per = one_of("per", per, ("sample", "batch"))
        self.draws = max_offset > 0

    def in_test(self) -> Positions:
        return TaskSupplied(kind=self.kind)

    def numbers(
        self, counts: np.ndarray, generator: np.random.Generator | None, given: np.ndarray | None = None
    ) -> np.ndarray:
        assert given is not None
        if not self.max_offset:
            return given
        assert generator is not None
        rows = len(given) if self.per == "sample" else 1
        offsets = generator.integers(0, self.max_offset + 1, size=(rows, 1))
        return np.where(given > 0, given + offsets, 0)

    def span(self, count: int, highest: int | None = None) -> int:
        assert highest is not None
        return highest + 1 + self.max_offset
