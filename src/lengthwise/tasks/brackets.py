"""Uniform balanced strings of brackets, and which bracket belongs to which: no loop over samples.

A string of brackets without its kinds is a path: +1 for an opening, -1 for a closing one; its height is the number of
brackets that are open. A bracket's *level* is the height that an opening one leads to and a closing one comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lengthwise.tasks.contract import real_places
from lengthwise.tasks.majority import place_ones


@dataclass(frozen=True)
class Brackets:
    """Balanced strings; what stands past a string's own length means nothing.

    steps:   (B, n) +1 opening, -1 closing, 0 past the length.
    levels:  (B, n) from 1.
    kinds:   (B, n) from 0; a bracket and its partner are of one kind.
    partner: (B, n) the place of the bracket that belongs to it.
    """

    steps: np.ndarray
    levels: np.ndarray
    kinds: np.ndarray
    partner: np.ndarray

    @property
    def heights(self) -> np.ndarray:
        """(B, n) brackets that are open after each symbol."""
        return self.steps.cumsum(axis=1)

    def enclosing(self) -> np.ndarray:
        """(B, n) place of the innermost bracket that is open after each symbol; anything where none is."""
        rows, width = self.steps.shape
        # The bracket sought is the last one of its level (the height) that is not behind the symbol itself.
        stride = width + 2  # levels of a row, so that keys of different rows and levels never mix
        row = np.arange(rows)[:, None] * stride
        place = np.arange(width)[None, :]
        keys = np.sort(((row + self.levels) * stride + place).ravel())
        asked = (row + self.heights) * stride + place
        return keys[np.searchsorted(keys, asked, side="right") - 1] % stride


def balanced_brackets(
    lengths: np.ndarray, kinds: int, depth: int | None, generator: np.random.Generator
) -> Brackets:
    """Uniform over all balanced strings of each of the even `lengths` (B,) that nest at most `depth` deep (None = any).

    Each pair's kind is uniform over 0…kinds-1, independently.
    """
    steps = _paths(lengths, generator) if depth is None else _bounded_paths(lengths, depth, generator)
    levels = steps.cumsum(axis=1) + (steps < 0)
    levels[steps == 0] = steps.shape[1] + 1  # behind every real one
    # Within a level brackets open and close in turn, so neighbours in this order belong together.
    order = levels.argsort(axis=1, kind="stable")
    partner, kind = np.empty_like(order), np.empty_like(order)
    drawn = generator.integers(0, kinds, size=(len(lengths), steps.shape[1] // 2))
    opening, closing = order[:, 0::2], order[:, 1::2]
    for mine, other in ((opening, closing), (closing, opening)):
        np.put_along_axis(partner, mine, other, axis=1)
        np.put_along_axis(kind, mine, drawn, axis=1)
    return Brackets(steps, levels, kind, partner)


def _paths(lengths: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(B, n) steps, by the cycle lemma (Dvoretzky & Motzkin 1947).

    Of the n+1 rotations of any order of n/2 rises and n/2 + 1 falls, exactly one stays at 0 or above until its last
    step, a fall, which is dropped.
    """
    steps = 2 * place_ones(lengths // 2, lengths + 1, generator) - 1
    heights = steps.cumsum(axis=1)
    heights[~real_places(lengths + 1)] = 1
    start = heights.argmin(axis=1) + 1  # behind the first of the lowest places
    places = (start[:, None] + np.arange(lengths.max())[None, :]) % (lengths + 1)[:, None]
    return np.take_along_axis(steps, places, axis=1) * real_places(lengths)


def _bounded_paths(lengths: np.ndarray, depth: int, generator: np.random.Generator) -> np.ndarray:
    """(B, n) steps, one after the other: each rises with the share of the completions that begin so."""
    width = int(lengths.max())
    rises, chances = _rises(width, depth), generator.random((len(lengths), width))
    steps = np.zeros((len(lengths), width), dtype=np.int64)
    height = np.zeros_like(lengths)
    for place in range(width):
        left = lengths - place
        step = np.where(chances[:, place] < rises[np.maximum(left, 0), height], 1, -1) * (left > 0)
        steps[:, place] = step
        height += step
    return steps


@lru_cache(maxsize=64)
def _rises(steps: int, depth: int) -> np.ndarray:
    """(steps + 1, depth + 2): the share of the paths from height h to 0 in r steps, below `depth`, that rise first.

    Counts are kept as shares of the largest, so that no power of 2 overflows.
    """
    ways = np.zeros(depth + 2)  # of r - 1 steps; no path goes above `depth`
    ways[0] = 1.0
    rises = np.zeros((steps + 1, depth + 2))
    for left in range(1, steps + 1):
        up = np.append(ways[1:], 0.0)
        up[depth:] = 0.0
        down = np.append(0.0, ways[:-1])
        down[depth + 1 :] = 0.0
        ways = up + down
        np.divide(up, ways, out=rises[left], where=ways > 0)
        ways /= ways.max()
    return rises
