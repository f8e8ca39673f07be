"""Lengthwise: a laboratory for position in Transformers.

As a library: `compose` a configuration, `train` it, `load_model` the result; `load_runs` and `load_lengths` give the
record of all runs as pandas frames. The Transformer itself is `lengthwise.nn`, plain PyTorch, and
`assert_equivariant`, `assert_not_equivariant` check the symmetries of any torch module.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "assert_equivariant": "lengthwise.evaluation.equivariance",
    "assert_not_equivariant": "lengthwise.evaluation.equivariance",
    "compose": "lengthwise.composing",
    "train": "lengthwise.pipeline",
    "load_model": "lengthwise.load",
    "load_runs": "lengthwise.runs",
    "load_lengths": "lengthwise.runs",
}

__all__ = [
    "__version__",
    "assert_equivariant",
    "assert_not_equivariant",
    "compose",
    "load_lengths",
    "load_model",
    "load_runs",
    "train",
]


def __getattr__(name: str) -> Any:
    # On demand: the command line's --help must not wait for torch.
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'lengthwise' has no attribute {name!r}")
