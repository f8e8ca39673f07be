"""Is this the k-th block yet? Prefixes of a word of k blocks, each labelled."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.combinatorics import choose_ratio
from lengthwise.tasks.contract import Examples, Symmetry, Task, real_places
from lengthwise.tasks.majority import place_ones


class PrefixBlocks(Task):
    """Task card: prefix_blocks."""

    name = "prefix_blocks"
    answer_format = "per_token"
    causal = True
    definition = (
        "A word of k = `blocks` blocks, of a, b, a, … in turn, each of at least one symbol: the k - 1 places "
        "where a new block begins are a uniform choice out of 1…n-1. The answer at each symbol is 1 if the "
        "prefix that it ends has k blocks (is in L_k), so inside the k-th block, and 0 before."
    )
    worked = (("a b a", "0 0 1"), ("a a b b b a a", "0 0 0 0 0 1 1"), ("a b b a a a a", "0 0 0 1 1 1 1"))
    symmetry = Symmetry("none", "none")
    evidence_meaning = "first position of the k-th block"
    source = "Yang et al. 2025, Knee-deep in C-RASP: a transformer depth hierarchy (L_k)"
    deviations = "shorter lengths by default (published: 201 to 250); lengths are mixed within a batch"
    prediction = (
        "C-RASP: the more blocks, the more depth is needed; layers too few for k should fail at new lengths"
    )

    def __init__(self, *, blocks: int = 3) -> None:
        self.blocks = self.min_length = self.integer_option("blocks", blocks, 2, 1024)
        self.symbols = ("a", "b", "0", "1")
        self.answer_symbols = ("0", "1")

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        switches = np.zeros(real.shape, dtype=np.int64)
        if lengths.max() > 1:
            behind = place_ones(np.full_like(lengths, self.blocks - 1), lengths - 1, generator)
            switches[:, 1:] = behind
        block = switches.cumsum(axis=1)
        inside = (block == self.blocks - 1) & real
        answers = np.where(real, 2 + inside, 0)
        return Examples(block % 2 * real, lengths, answers, lengths, inside.argmax(axis=1))

    def baselines(self, length: int) -> dict[str, float]:
        place, switches = np.arange(length)[:, None], np.arange(self.blocks)[None, :]
        last = self.blocks - 1
        # (t, j): P(j of the switches lie at or before place t)
        chance = choose_ratio(place, switches, length - 1 - place, last - switches, over=(length - 1, last))
        inside = chance[:, last]
        alike = chance[:, last % 2 : last : 2].sum(axis=1)  # earlier blocks of the same symbol
        return {
            "uniform": 0.5,
            "position_only": float(np.maximum(inside, 1 - inside).mean()),
            "token_only": float((1 - np.minimum(inside, alike)).mean()),
        }
