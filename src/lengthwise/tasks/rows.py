"""Rows of different lengths in one array."""

from __future__ import annotations

import numpy as np


def first(counts: np.ndarray, width: int) -> np.ndarray:
    """(B, width) bool, True at the first counts[b] places of row b."""
    return np.arange(width)[None, :] < counts[:, None]


def place(rows: np.ndarray, starts: np.ndarray, values: np.ndarray, counts: np.ndarray) -> None:
    """rows[b, starts[b] + k] = values[b, k] for k < counts[b]."""
    b, k = np.nonzero(first(counts, values.shape[1]))
    rows[b, starts[b] + k] = values[b, k]
