"""The input's own tokens in another order: odds_first, bucket_sort."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.chomsky import NOT_REGULAR, PROTOCOL, SUITE
from lengthwise.tasks.combinatorics import log_factorial
from lengthwise.tasks.contract import Symmetry, real_places
from lengthwise.tasks.strings import Strings


class OddsFirst(Strings):
    """Every other token, then the rest."""

    name = "odds_first"
    definition = (
        "Independent uniform tokens x0 x1 … over `symbols` (2: bits, as published); the answer is x1 x3 x5 …, then "
        "x0 x2 x4 …: the odd places, counted from 0, come first."
    )
    worked = (("0 0 1 1 0 1 0 1", "0 1 1 1 0 1 0 0"), ("1 1 0", "1 1 0"), ("1 0 0 1 0", "0 1 1 0 0"))
    prediction = NOT_REGULAR
    symmetry = Symmetry("P", "QPQ⁻¹, Q the reordering itself")
    source = f"odds_first of {SUITE}"
    deviations = (
        "the order is that of the published code; the paper and the code's comment count places from 1, so that x0 "
        f"x2 x4 … come first; {PROTOCOL}"
    )
    number_kinds = ("index", "coupled")

    def __init__(self, *, symbols: int = 2) -> None:
        super().__init__(symbols)

    def coupled(self, places: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        odd = (lengths // 2)[:, None]
        return np.where(places < odd, 2 * places + 1, 2 * (places - odd)) * (places < lengths[:, None])

    def answer(self, inputs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        places = np.broadcast_to(np.arange(inputs.shape[1]), inputs.shape)
        return np.take_along_axis(inputs, self.coupled(places, lengths), axis=1)


class BucketSort(Strings):
    """Sorting few different symbols."""

    name = "bucket_sort"
    definition = (
        "Independent uniform tokens over `symbols` (5: 0…4, as published); the answer is the same tokens in ascending "
        "order."
    )
    worked = (("1 0 2 0 4 1", "0 0 1 1 2 4"), ("3 3 1", "1 3 3"), ("4 2", "2 4"))
    prediction = (
        "Beware: long sorted strings are alike, so the place in the answer alone scores 90.1 % over lengths 41…500 "
        "(position_only, exact); compare with it, and look at exact match."
    )
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "none: all positions count"
    source = f"bucket_sort of {SUITE}"
    deviations = PROTOCOL

    def __init__(self, *, symbols: int = 5) -> None:
        super().__init__(symbols)

    def answer(self, inputs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return np.sort(np.where(real_places(lengths), inputs, len(self.symbols)), axis=1)

    def baselines(self, length: int) -> dict[str, float]:
        count = len(self.symbols)
        at_place, after = _order_statistics(length, count)
        return {
            "uniform": 1.0 / count,
            "position_only": float(at_place.max(axis=1).mean()),
            "bag_optimal": 1.0,
            "remaining_bag": 1.0,
            "previous_only": float((at_place[0].max() + after.max(axis=2).sum()) / length),
        }


def _order_statistics(length: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """P(the t-th smallest is a), (n, a), and P(the t-th is b and the next one a), (n - 1, b, a), of uniform tokens."""
    tokens = np.arange(length + 1)[:, None]
    share = np.arange(count + 1) / count
    logs = log_factorial(length) - log_factorial(tokens) - log_factorial(length - tokens)
    with np.errstate(divide="ignore"):
        up_to, from_on = np.log(share), np.log(1 - share)  # of numbers below a, and from a on
    below = np.cumsum(np.exp(logs + _times(tokens, up_to) + _times(length - tokens, from_on)), axis=0)[:-1]
    at_place = below[:, :-1] - below[:, 1:]  # P(at most t tokens < a) - P(at most t tokens <= a)
    # b and then a > b: exactly t tokens up to b, at least one of them b; the others from a on, at least one a.
    inner = tokens[1:-1]
    front = _times(inner, up_to[1:]) + np.log1p(-np.exp(_times(inner, up_to[:-1]) - _times(inner, up_to[1:])))
    rest = length - inner
    behind = _times(rest, from_on[:-1]) + np.log1p(
        -np.exp(_times(rest, from_on[1:]) - _times(rest, from_on[:-1]))
    )
    upwards = np.triu(np.ones((count, count), dtype=bool), 1)
    steps = np.exp(np.where(upwards, (logs[1:-1] + front)[:, :, None] + behind[:, None, :], -np.inf))
    stays = at_place[:-1] - steps.sum(axis=2)
    return at_place, steps + stays[:, :, None] * np.eye(count)


def _times(number: np.ndarray, log: np.ndarray) -> np.ndarray:
    """number * log, where 0 of what is impossible is certain."""
    return np.where(number == 0, 0.0, number * np.where(number == 0, 0.0, log))
