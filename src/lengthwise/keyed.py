"""Random streams named by a key.

Every draw in Lengthwise (initial values, batches, test items, permutations) comes from a stream that is a pure
function of *what it is for*, so that no draw depends on what happened to be drawn before it. The generator is
Philox with a 128-bit key: ``torch.Generator.manual_seed`` keeps 32 bits on CPU, where hashed seeds collide.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np

Key = str | int | float | bool | None | list | tuple | dict


def digest(*key: Key, size: int = 16) -> bytes:
    """`size` bytes of blake2b over the canonical JSON of `key`.

    Raises TypeError for anything JSON cannot hold.
    """
    text = json.dumps(key, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=size).digest()


def philox(*key: Key) -> np.random.Generator:
    """A numpy generator for the stream named `key`, e.g. ``philox("train", data_seed, step)``."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest(*key), "little")))


def seed63(*key: Key) -> int:
    """A non-negative 63-bit integer for libraries that take one (``torch.manual_seed``)."""
    return int.from_bytes(digest(*key, size=8), "little") >> 1
