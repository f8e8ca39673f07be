"""How many test items a model may have been trained on: short lengths have few different inputs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lengthwise.keyed import philox
from lengthwise.tasks.contract import Examples


def seen_inputs(train: Iterable[Examples]) -> np.ndarray:
    """The different inputs among `train` (the batches really trained on), as sorted 64-bit hashes."""
    hashes = [_hashes(examples) for examples in train]
    return np.unique(np.concatenate(hashes)) if hashes else np.empty(0, dtype=np.uint64)


def shared_items(test: Examples, seen: np.ndarray) -> float:
    """Share of the rows of `test` whose input is among those `seen` (see `seen_inputs`).

    The answer follows from the input, so it is left out.
    """
    return float(np.isin(_hashes(test), seen).mean())


def _hashes(examples: Examples) -> np.ndarray:
    """(B,) uint64: sum of the input's numbers, each times a keyed random odd number, modulo 2^64.

    Unused places hold 0 and add nothing, so the hash does not depend on how wide a batch is.
    """
    hashes = _dot("length", examples.lengths[:, None]) + _dot("inputs", examples.inputs)
    if examples.features is not None:
        bits = np.ascontiguousarray(examples.features).view(np.uint32)
        hashes += _dot("features", bits.reshape(len(examples), -1))
    return hashes


def _dot(kind: str, values: np.ndarray) -> np.ndarray:
    weights = philox("overlap", "hash", kind).integers(0, 2**64, size=values.shape[1], dtype=np.uint64)
    return values.astype(np.uint64) @ (weights | np.uint64(1))
