"""How many test items a model may have been trained on: short lengths have few different inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from lengthwise.keyed import philox
from lengthwise.tasks.contract import Examples

EXACT, AT_LEAST = "exact", "at_least"

LOOKED_AT = 100_000
"""Training sequences that are compared with the test, whatever the task."""

LOOKED_AT_IF_FEW = 1_000_000
"""As many where the test has few different inputs: with so small a space, what is left can still be found."""

_TOGETHER = 8192
"""Sequences compared at a time."""


def seen_inputs(train: Iterable[Examples]) -> np.ndarray:
    """The different inputs among `train` (the batches really trained on), as sorted 64-bit hashes."""
    hashes = [_hashes(examples) for examples in train]
    return np.unique(np.concatenate(hashes)) if hashes else np.empty(0, dtype=np.uint64)


def shared_items(test: Examples, seen: np.ndarray) -> float:
    """Share of the rows of `test` whose input is among those `seen` (see `seen_inputs`).

    The answer follows from the input, so it is left out.
    """
    return float(np.isin(_hashes(test), seen).mean())


def train_overlap(tests: Sequence[Examples], train: Iterable[Examples]) -> list[tuple[float, str]]:
    """For each of `tests` the share of its inputs that are among `train`, and whether that is `EXACT`.

    `train` are the batches really trained on, in order. They are all looked at where they hold up to `LOOKED_AT`
    sequences, and then the share is exact. It is exact as well once every input was found. Otherwise it is `AT_LEAST`
    so much; where no more than half of a test's inputs are different, up to `LOOKED_AT_IF_FEW` sequences are looked at.
    """
    if not tests:
        return []
    hashes = [_hashes(test) for test in tests]
    wanted, sizes = np.concatenate(hashes), [len(part) for part in hashes]
    found = np.zeros(len(wanted), dtype=bool)
    few = np.concatenate([np.full(len(part), 2 * len(np.unique(part)) <= len(part)) for part in hashes])
    stream, looked_at, ended = iter(train), 0, False
    while not (ended or found.all()):
        if looked_at > (LOOKED_AT_IF_FEW if (few & ~found).any() else LOOKED_AT):
            break
        some: list[np.ndarray] = []
        for examples in stream:
            some.append(_hashes(examples))
            looked_at += len(examples)
            if sum(map(len, some)) >= _TOGETHER:
                break
        else:
            ended = True
        if some:
            found |= np.isin(wanted, np.concatenate(some))
    return [
        (float(part.mean()) if len(part) else 0.0, EXACT if ended or part.all() else AT_LEAST)
        for part in np.split(found, np.cumsum(sizes)[:-1])
    ]


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
    return values.astype(np.uint64) @ _weights(kind, values.shape[1])


@lru_cache(maxsize=256)
def _weights(kind: str, width: int) -> np.ndarray:
    """(width,) odd uint64; more of them begin with the same ones."""
    stream = philox("overlap", "hash", kind)
    return stream.integers(0, 2**64, size=width, dtype=np.uint64) | np.uint64(1)
