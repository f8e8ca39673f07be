"""What a rule of position numbers is: how the positions of a sequence are numbered, in training and in the test.

Letters in shapes: B sequences, N positions. Numbers are drawn for all the positions that a sequence of its input length
can come to, so that they do not depend on how long an answer turns out: decoding symbol by symbol sees the same numbers
as one pass over the whole.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

Per = Literal["sample", "batch"]


class Positions:
    """Base of all rules. A subclass overrides `numbers` and `span`.

    evenly_spaced: neighbours are always 1 apart, so that a sequence read backwards has the same distances.
    whole:         numbers are integers.
    supplied:      the task gives them; `kind` says which of those it has.
    draws:         numbers are random, and need a stream.
    """

    evenly_spaced: bool = True
    whole: bool = True
    supplied: bool = False
    draws: bool = False
    kind: str = ""

    def in_test(self) -> Positions:
        """The rule that the test goes by; one that draws does so once for all."""
        return self

    def numbers(
        self, counts: np.ndarray, generator: np.random.Generator | None, given: np.ndarray | None = None
    ) -> np.ndarray | None:
        """(B, N) numbers for sequences of `counts` (B,) positions, N the largest count; None for 0…N-1.

        What stands past a sequence's own count is legal and means nothing. Row i depends on the generator and on i,
        not on how many rows follow. generator: None where the rule does not draw. given: (B, N), the task's own
        numbers, where the rule is `supplied`.
        """
        raise NotImplementedError

    def span(self, count: int, highest: int | None = None) -> int:
        """Numbers of a sequence of `count` positions lie below this. highest: of the task's own numbers."""
        raise NotImplementedError

    def check(self, count: int) -> None:
        """Raises ValueError for a sequence of more positions than there are numbers."""


def one_of(option: str, value: str, known: tuple[str, ...]) -> str:
    """`value`. Raises ValueError where it is none of `known`."""
    if value not in known:
        raise ValueError(f"{option}={value} must be one of {', '.join(known)}")
    return value
