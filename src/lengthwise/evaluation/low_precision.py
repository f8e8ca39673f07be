"""The tenth property: an encoding in bfloat16 is the same encoding, rounded.

Positions, phases and distances are large numbers that a format of eight significant bits cannot hold: what is computed
from them must be computed in float32 and rounded once. Parameters may be rounded, as any are when a model is cast.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from lengthwise.evaluation.properties import PropertyError
from lengthwise.nn import Context, PositionEncoding

COUNT = 4096
"""Positions looked at."""

_SQUARE = 256
"""Queries and keys where every pair counts."""

TOLERANCE = 2.0**-4
"""Of the largest number in a row, for biases and logits in a head: a learned map of the distance rounds more than once,
a wrong phase is far off."""

_BATCH = 1


def low_precision(encoding: PositionEncoding) -> None:
    """Cast as a whole to bfloat16, under autocast, each hook gives what it gives in float32; rows on the embedding are
    as distinct as declared (`distinct_until`).

    The encoding is left as it is. Raises PropertyError.
    """
    exact, cast = deepcopy(encoding).float(), deepcopy(encoding).bfloat16()
    with torch.no_grad():
        for parameter in exact.parameters():
            parameter.copy_(parameter.bfloat16())
        for hook, compute in _HOOKS.items():
            if encoding.uses(hook):
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(0)
                    reference = compute(exact, torch.float32)
                    torch.manual_seed(0)
                    with torch.autocast("cpu", dtype=torch.bfloat16):
                        rounded = compute(cast, torch.bfloat16)
                for one, other in zip(reference, rounded, strict=True):
                    _compare(hook, one, other.float())
        if encoding.uses("embed"):
            _check_distinct(cast, encoding.distinct_until)


def _compare(hook: str, exact: Tensor, rounded: Tensor) -> None:
    size = exact.abs().amax(-1, keepdim=True)
    if hook in ("bias", "score"):
        # Logits may nearly cancel: what counts is a head's largest, and nothing where that is small itself.
        size = size.amax(-2, keepdim=True).clamp(min=0.25)
    error = (rounded - exact).abs() - TOLERANCE * size
    if not bool((error <= 1e-6).all()):
        worst = ((rounded - exact).abs() / size.clamp(min=1e-6)).nan_to_num(nan=torch.inf).max()
        raise PropertyError(
            f"{hook}: in bfloat16 it is off by {float(worst):.1e} of the largest number, must be at most "
            f"{TOLERANCE:.1e}; compute positions, phases and distances in float32 (context.precision)"
        )


def _check_distinct(cast: PositionEncoding, declared: int | None) -> None:
    count = _count(cast)
    limit = min(declared or count, count)
    found = _distinct(cast, limit)
    if found < limit:
        raise PropertyError(
            f"embed: of the first {limit} rows only {found} differ in bfloat16, but distinct_until={declared}"
        )
    if limit < count and _distinct(cast, count) == count:
        raise PropertyError(f"embed: all {count} rows differ in bfloat16, but distinct_until={declared}")


def _distinct(cast: PositionEncoding, count: int) -> int:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (rows,) = _rows(cast, torch.bfloat16, count)
    return len(torch.unique(rows[0], dim=0))


def _count(encoding: PositionEncoding) -> int:
    return COUNT if encoding.max_length is None else min(COUNT, encoding.max_length)


def _rows(encoding: PositionEncoding, dtype: torch.dtype, count: int | None = None) -> list[Tensor]:
    """What is added to, or put beside, an embedding of zeros: (1, count, columns)."""
    count = count or _count(encoding)
    x = torch.zeros(_BATCH, count, encoding.sizes.width, dtype=dtype)
    return [
        encoding.embed(x, Context(count, count, causal=encoding.sizes.causal, queries_input=x, keys_input=x))
    ]


def _rotated(encoding: PositionEncoding, dtype: torch.dtype) -> list[Tensor]:
    """Queries and keys of ones, turned: (1, H, count, K) twice."""
    count, sizes = _count(encoding), encoding.sizes
    ones = torch.ones(_BATCH, sizes.heads, count, sizes.query_width, dtype=dtype)
    x = torch.zeros(_BATCH, count, sizes.width, dtype=dtype)
    context = Context(count, count, causal=sizes.causal, queries_input=x, keys_input=x)
    return list(encoding.rotate(ones, ones, context))


def _biases(encoding: PositionEncoding, dtype: torch.dtype) -> list[Tensor]:
    """Between positions spread over all that are looked at: (1, H, n, n)."""
    context, _, _, _ = _square(encoding, dtype)
    every = _count(encoding) // context.num_keys
    numbers = every * torch.arange(context.num_keys)[None]
    bias = encoding.bias(replace(context, query_positions=numbers, key_positions=numbers))
    if bias is None:
        return []
    readable = context.readable()
    return [bias if readable is None else bias.masked_fill(~readable, 0.0)]


def _square(encoding: PositionEncoding, dtype: torch.dtype) -> tuple[Context, Tensor, Tensor, Tensor]:
    """A context with random content, queries and keys (1, H, n, K), logits (1, H, n, n), the same for any dtype."""
    count, sizes = min(_SQUARE, _count(encoding)), encoding.sizes
    x = torch.randn(_BATCH, count, sizes.width).bfloat16().to(dtype)
    q, k = (torch.randn(_BATCH, sizes.heads, count, sizes.query_width).bfloat16().to(dtype) for _ in range(2))
    scale = sizes.query_width**-0.5
    context = Context(count, count, causal=sizes.causal, queries_input=x, keys_input=x, scale=scale)
    logits = (scale * q.float() @ k.float().transpose(-2, -1)).bfloat16().to(dtype)
    return context, q, k, logits


def _scores(encoding: PositionEncoding, dtype: torch.dtype) -> list[Tensor]:
    """The logits that a query may read, rewritten; zero elsewhere."""
    context, q, k, logits = _square(encoding, dtype)
    scores, readable = encoding.score(logits, q, k, context), context.readable()
    return [scores if readable is None else scores.masked_fill(~readable, 0.0)]


def _read(encoding: PositionEncoding, dtype: torch.dtype) -> list[Tensor]:
    context, _, _, logits = _square(encoding, dtype)
    readable = context.readable()
    if readable is not None:
        logits = logits.masked_fill(~readable, float("-inf"))
    found = encoding.read(logits.float().softmax(-1).to(dtype), context)
    return [] if found is None else [found]


_HOOKS: dict[str, Callable[[PositionEncoding, torch.dtype], list[Tensor]]] = {
    "embed": _rows,
    "rotate": _rotated,
    "bias": _biases,
    "score": _scores,
    "read": _read,
}
