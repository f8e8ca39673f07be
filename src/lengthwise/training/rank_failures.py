"""What is said of a rank that cannot go on, and whether that is a cause or only follows from another rank's end."""

from __future__ import annotations

import re
import signal

import torch.distributed as dist

from lengthwise.errors import LengthwiseError

LOST = "lost the connection to another rank"

_LOST = re.compile(r"gloo|nccl|connection (closed|reset|refused)|broken pipe", re.IGNORECASE)


def is_lost(error: BaseException) -> bool:
    """Whether it says no more than that another rank is gone."""
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError | OSError) and _LOST.search(str(error)) is not None
    )


def in_words(error: BaseException) -> str:
    if isinstance(error, LengthwiseError):
        return str(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")[:1000]


def exit_in_words(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code} before the run did"
