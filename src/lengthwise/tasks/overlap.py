"""How many test items a model may have been trained on: short lengths have few different inputs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lengthwise.keyed import philox
from lengthwise.tasks.contract import Examples


def shared_items(test: Examples, train: Iterable[Examples]) -> float:
    """Share of the rows of `test` whose input is among the inputs of `train` (the batches really trained on).

    Inputs are compared by 64-bit hashes; the answer follows from the input, so it is left out.
    """
    keys = _hashes(test)
    found = np.zeros(len(test), dtype=bool)
    for examples in train:
        found |= np.isin(keys, _hashes(examples))
    return float(found.mean())


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
