"""What the hooks of a position encoding return, before anything is built on it: types and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from lengthwise.evaluation.properties import PropertyError
from lengthwise.nn import Context, PositionEncoding, Sizes
from lengthwise.nn.init import keyed_rng

BATCH, QUERIES = 2, 3
"""Sequences, and positions of each: numbers that are no other size."""

Dimensions = tuple[tuple[str, int], ...]


def check_hooks(factory: Callable[..., Any], sizes: Sequence[Sizes]) -> str:
    """Call each hook that the encoding overrides; returns their names. Raises PropertyError for what is returned."""
    used: list[str] = []
    for one in sizes:
        try:
            with keyed_rng(0, "check"):
                encoding = factory(one)
        except ValueError:  # how it says that it cannot be had so; `builds` says more
            continue
        if not isinstance(encoding, PositionEncoding):
            raise PropertyError(
                f"{type(encoding).__name__} is no PositionEncoding (lengthwise.nn.position.contract)"
            )
        used += [hook for hook in _WANTED if encoding.uses(hook) and _check(encoding, hook)]
    return ", ".join(dict.fromkeys(used)) or "none that was called"


def _check(encoding: PositionEncoding, hook: str) -> bool:
    """Whether it could be asked: where a hook raises, the properties name the place."""
    sizes = encoding.sizes
    x = torch.zeros(BATCH, QUERIES, sizes.width)
    q = torch.zeros(BATCH, sizes.heads, QUERIES, sizes.query_width)
    square = torch.full((BATCH, sizes.heads, QUERIES, QUERIES), 1.0 / QUERIES)
    context = Context(QUERIES, QUERIES, sizes.causal, queries_input=x, keys_input=x)
    arguments: dict[str, tuple[Any, ...]] = {
        "embed": (x,), "rotate": (q, q), "bias": (), "by_distance": (), "score": (square, q, q), "read": (square,),
    }  # fmt: skip
    try:
        with torch.no_grad():
            found = getattr(encoding, hook)(*arguments[hook], context)
    except Exception:
        return False
    _WANTED[hook](hook, found, encoding)
    return True


def _refuse(hook: str, found: Any, wanted: str) -> None:
    what = str(tuple(found.shape)) if isinstance(found, Tensor) else f"one {type(found).__name__}"
    raise PropertyError(f"{hook} returned {what}, wanted {wanted}")


def _words(dimensions: Dimensions) -> str:
    names, numbers = zip(*dimensions, strict=True)
    return f"({', '.join(names)}) = ({', '.join(map(str, numbers))})"


def _exactly(hook: str, found: Any, dimensions: Dimensions) -> None:
    if not isinstance(found, Tensor) or tuple(found.shape) != tuple(size for _, size in dimensions):
        _refuse(hook, found, _words(dimensions))


def _embed(hook: str, found: Any, encoding: PositionEncoding) -> None:
    _exactly(hook, found, (("B", BATCH), ("N", QUERIES), ("output_width", encoding.output_width)))


def _rotate(hook: str, found: Any, encoding: PositionEncoding) -> None:
    sizes = encoding.sizes
    plain = (("B", BATCH), ("H", sizes.heads), ("N", QUERIES), ("K", sizes.query_width))
    wanted = f"two tensors, queries and keys, {_words(plain)} or wider"
    if not isinstance(found, tuple | list):
        raise PropertyError(f"{hook} returned one {type(found).__name__}, wanted {wanted}")
    if len(found) != 2 or not all(isinstance(one, Tensor) for one in found):
        kinds = ", ".join(type(one).__name__ for one in found)
        raise PropertyError(f"{hook} returned {len(found)} ({kinds}), wanted {wanted}")
    for one in found:
        *most, last = one.shape
        if most != [size for _, size in plain[:-1]] or last < sizes.query_width or last != found[0].shape[-1]:
            _refuse(hook, one, wanted)


def _square(hook: str, found: Any, encoding: PositionEncoding) -> None:
    """Broadcastable to the logits, with all four dimensions."""
    dimensions = (("B", BATCH), ("H", encoding.sizes.heads), ("Nq", QUERIES), ("Nk", QUERIES))
    if hook == "bias" and found is None:
        return
    fits = isinstance(found, Tensor) and found.ndim == 4
    if not fits or any(
        size not in (1, most) for size, (_, most) in zip(found.shape, dimensions, strict=True)
    ):
        most, *rest = dimensions
        _refuse(hook, found, f"broadcastable to {_words(((f'{most[0]} or 1', most[1]), *rest))}")


def _by_distance(hook: str, found: Any, encoding: PositionEncoding) -> None:
    if found is not None:
        _exactly(hook, found, (("H", encoding.sizes.heads), ("Nq+Nk-1", 2 * QUERIES - 1)))


def _score(hook: str, found: Any, encoding: PositionEncoding) -> None:
    _exactly(hook, found, (("B", BATCH), ("H", encoding.sizes.heads), ("Nq", QUERIES), ("Nk", QUERIES)))


def _read(hook: str, found: Any, encoding: PositionEncoding) -> None:
    sizes = encoding.sizes
    if found is not None:
        _exactly(hook, found, (("B", BATCH), ("H", sizes.heads), ("Nq", QUERIES), ("Dv", sizes.value_width)))


_WANTED: dict[str, Callable[[str, Any, PositionEncoding], None]] = {
    "embed": _embed,
    "rotate": _rotate,
    "bias": _square,
    "by_distance": _by_distance,
    "score": _score,
    "read": _read,
}
