"""Pictures of digits as short sequences of patches."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lengthwise.keyed import philox
from lengthwise.tasks.contract import Examples, Symmetry, Task, no_evidence

SIDE = 8
SIZES = {"train": 1000, "val": 297, "test": 500}


@lru_cache(maxsize=1)
def _pictures() -> tuple[np.ndarray, np.ndarray]:
    """(1797, 8, 8) float32 from 0 to 1, and (1797,) labels, in the collection's order."""
    from sklearn.datasets import load_digits  # a slow import that only this task needs

    images, labels = load_digits(return_X_y=True)
    return (images.reshape(-1, SIDE, SIDE) / 16).astype(np.float32), labels.astype(np.int64)


def split_indices(split: str) -> np.ndarray:
    """Indices of the pictures of one split: the same for every run, no picture in two splits."""
    order = philox("digits", "split").permutation(sum(SIZES.values()))
    ends = np.cumsum(list(SIZES.values()))[:-1]
    return dict(zip(SIZES, np.split(order, ends), strict=True))[split]


class Digits(Task):
    """Pictures of digits as short sequences of patches."""

    name = "digits"
    answer_format = "label"
    definition = (
        "A handwritten digit of 8 x 8 grey values (0 to 1) is cut into patches of `patch` x `patch` (1, 2, 4), row by "
        "row; each patch is one token of patch^2 numbers; the label is the digit. 64, 16 or 4 tokens: one length. "
        "1000 / 297 / 500 pictures for train / val / test by a fixed draw; training draws with replacement, held-out "
        "items are the pictures themselves, each once."
    )
    symmetry = Symmetry("none", "none")
    evidence_meaning = "none: spread over the picture"
    source = (
        "load_digits of scikit-learn; Alpaydin & Kaynak 1998, Optical recognition of handwritten digits (UCI)"
    )
    deviations = "no normalisation; writers are shared between the splits"

    def __init__(self, *, patch: int = 2) -> None:
        if patch not in (1, 2, 4):
            raise ValueError(
                f"task digits: patch={patch!r} is not possible; use 1, 2 or 4, which divide the 8 x 8 picture"
            )
        self.patch = int(patch)
        self.feature_dim = self.patch**2
        self.tokens = (SIDE // self.patch) ** 2
        self.min_length = self.max_length = self.tokens
        self.symbols = tuple(str(digit) for digit in range(10))
        self.answer_symbols = self.symbols

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        pool = split_indices(split)
        return self._examples(pool[generator.integers(0, len(pool), size=len(lengths))])

    def fixed_items(self, split: str) -> Examples | None:
        return self._examples(split_indices(split))

    def _examples(self, index: np.ndarray) -> Examples:
        images, labels = _pictures()
        side = SIDE // self.patch
        patches = (
            images[index].reshape(len(index), side, self.patch, side, self.patch).transpose(0, 1, 3, 2, 4)
        )
        lengths = np.full(len(index), self.tokens)
        return Examples(
            inputs=np.zeros((len(index), self.tokens), dtype=np.int64),
            lengths=lengths,
            answers=labels[index][:, None],
            answer_lengths=np.ones_like(lengths),
            evidence=no_evidence(lengths),
            features=patches.reshape(len(index), self.tokens, self.feature_dim),
        )

    def baselines(self, length: int) -> dict[str, float]:
        labels = _pictures()[1]
        commonest = np.bincount(labels[split_indices("train")]).argmax()
        return {"uniform": 0.1, "position_only": float((labels[split_indices("test")] == commonest).mean())}
