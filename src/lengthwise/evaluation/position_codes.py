"""What an untrained encoding says at each position: rows on the embedding, logits in the attention.

A model's stack is taken apart into what acts on the embedding and the first attention layer in which something acts,
both with their initial values. The content is the same at all positions, so that whatever differs comes from the
positions alone.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lengthwise.keyed import philox
from lengthwise.nn.attention import MultiHeadAttention, kernel
from lengthwise.nn.position import Context, LengthError, PositionEncoding, Sizes

LAST = 65_536
"""The largest position looked at."""

WHOLE = 2048
"""Positions looked at where an encoding can only answer for all queries at once."""

_NUMBERS = 8
"""At least so many logits are the code of a distance, so that none coincide by chance."""

_HOOKS = ("rotate", "bias", "score")


@dataclass(frozen=True)
class Subject:
    """What is measured: `position` acts on an embedding of width D, `attention` (with its own encoding) on that."""

    position: PositionEncoding | None
    attention: MultiHeadAttention
    sizes: Sizes

    @classmethod
    def of(cls, model: Any) -> Subject:
        """Of an `Encoder` or a `Decoder`. Raises ValueError for an attention without queries and keys."""
        stack = model.stack
        layers = [layer.attention for layer in stack.layers]
        if not layers or not layers[0].reads_queries:
            raise ValueError(
                "a scorecard compares scores of queries with keys, and this model has none: use attention=scaled, "
                "and at least one layer"
            )
        acting = [attention for attention in layers if attention.position is not None]
        sizes = Sizes(
            stack.layers[0].attention.width if stack.position is None else stack.position.sizes.width,
            layers[0].heads,
            causal=stack.causal,
            trained_length=stack.trained_length,
        )
        return cls(stack.position, (acting or layers)[0], sizes)

    def to(self, dtype: torch.dtype) -> Subject:
        """A copy with parameters of that type."""
        return replace(
            self,
            position=None if self.position is None else deepcopy(self.position).to(dtype),
            attention=deepcopy(self.attention).to(dtype),
        )

    @property
    def in_attention(self) -> PositionEncoding | None:
        """What acts on the logits, or None."""
        inside = self.attention.position
        return inside if inside is not None and any(inside.uses(hook) for hook in _HOOKS) else None

    def encodings(self) -> list[PositionEncoding]:
        return [e for e in (self.position, self.attention.position) if e is not None]


def fill_empty_tables(model: torch.nn.Module) -> list[str]:
    """Tables of encodings that start at zero get N(0, 1), keyed by their names: zeros would tell nothing apart.
    Returns the names."""
    filled = []
    for prefix, module in model.named_modules():
        if isinstance(module, PositionEncoding):
            for name, parameter in module.named_parameters():
                if parameter.ndim >= 2 and not parameter.any():
                    values = philox("scorecard", prefix, name).standard_normal(tuple(parameter.shape))
                    parameter.data.copy_(torch.from_numpy(values))
                    filled.append(name)
    return sorted(set(filled))


def table(subject: Subject, count: int, dtype: torch.dtype) -> Tensor | None:
    """r_0 … r_{count-1}, (count, columns), or None where nothing acts on the embedding.

    Raises LengthError where the encoding does.
    """
    position = subject.position
    if position is None:
        return None
    x = torch.zeros(1, count, subject.sizes.width, dtype=dtype)
    context = Context(count, count, subject.sizes.causal, queries_input=x, keys_input=x)
    rows = position.embed(x, context)[0]
    beside = rows[:, subject.sizes.width :]  # columns put beside the embedding, which is zero here
    return beside if beside.shape[1] and not rows[:, : subject.sizes.width].any() else rows


def scores(subject: Subject, x: Tensor, *, start: int = 0) -> Tensor:
    """Logits (H, N, N) through the layer's own random W_q and W_k, of the content x (1, N, D) at positions start …
    start+N-1."""
    count = x.shape[1]
    numbers = None if start == 0 else torch.arange(start, start + count)[None]
    context = Context(count, count, subject.sizes.causal, numbers, numbers, queries_input=x, keys_input=x)
    if subject.position is not None:
        x = subject.position.embed(x, context)
    context = replace(context, queries_input=x, keys_input=x, scale=subject.attention.scale)
    q, k, _ = subject.attention.project(x, x)
    return logits(subject.attention, q, k, context)[0]


def by_distance(subject: Subject, count: int, dtype: torch.dtype) -> Tensor | None:
    """What each distance 0 … count-1 behind the last query adds to its logits, (count, numbers), or None where nothing
    acts in the attention.

    Keys are zero, unless the encoding turns them: the logits are then those of a few random contents. Encodings that
    answer for all queries at once are asked for the first `WHOLE` distances. Raises LengthError where they do.
    """
    inside = subject.in_attention
    if inside is None:
        return None
    attention = subject.attention
    contents = -(-_NUMBERS // attention.heads)
    queries, keys = (content(contents, attention.width, dtype, name) for name in ("queries", "keys"))
    q, k, _ = attention.project(queries, keys)
    if not inside.uses("rotate"):
        k = torch.zeros_like(k)
    if _needs_all_queries(inside):
        count = min(count, WHOLE)
        context = Context(count, count, subject.sizes.causal)
        q = q.expand(-1, -1, count, -1)
        queries = queries.expand(-1, count, -1)
    else:
        context = Context(
            1,
            count,
            query_positions=torch.tensor([[count - 1]]),
            key_positions=torch.arange(count)[None],
            allowed=torch.ones(1, 1, 1, count, dtype=torch.bool),
        )
    context = replace(
        context, queries_input=queries, keys_input=keys.expand(-1, count, -1), scale=attention.scale
    )
    found = logits(attention, q, k.expand(-1, -1, count, -1), context)[:, :, -1]
    return found.flip(-1).flatten(0, 1).T


def logits(attention: MultiHeadAttention, q: Tensor, k: Tensor, context: Context) -> Tensor:
    """(B, H, Nq, Nk) before masking, as the layer computes them, in the type of its queries."""
    inside, bias = attention.position, None
    if inside is not None:
        q, k = inside.rotate(q, k, context)
        bias = inside.bias(context)
    found = kernel.logits(q, k, attention.scale, None if bias is None else bias.to(q.dtype))
    return found if inside is None else inside.score(found, q, k, context).to(q.dtype)


def reach(subject: Subject) -> tuple[int, str | None]:
    """For how many positions the encoding is defined, at most LAST + 1, and what it says past them.

    Found by trying: the first and the last position of a sequence are enough to be refused.
    """
    low, high, message = 0, LAST + 1, _refusal(subject, LAST + 1)
    if message is None:
        return high, None
    while high - low > 1:
        middle = (low + high) // 2
        said = _refusal(subject, middle)
        low, high, message = (middle, high, message) if said is None else (low, middle, said)
    return low, message


def _refusal(subject: Subject, count: int) -> str | None:
    """Why `count` positions are refused, or None."""
    numbers = torch.tensor([[0, count - 1]])
    x = torch.zeros(1, 2, subject.sizes.width)
    context = Context(2, 2, subject.sizes.causal, numbers, numbers, queries_input=x, keys_input=x)
    try:
        if subject.position is not None:
            x = subject.position.embed(x, context)
        q, k, _ = subject.attention.project(x, x)
        logits(subject.attention, q, k, replace(context, queries_input=x, keys_input=x))
    except LengthError as error:
        return str(error)
    except (IndexError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}".split("\n")[0]
    return None


def _needs_all_queries(encoding: PositionEncoding) -> bool:
    """Whether its bias comes for all queries whatever the context asks for (sums over the content do)."""
    if not encoding.uses("bias"):
        return False
    parameter = next(encoding.parameters(), torch.zeros(0))
    x = torch.zeros(1, 3, encoding.sizes.width, dtype=parameter.dtype)
    context = Context(
        1, 3, query_positions=torch.tensor([[2]]), key_positions=torch.arange(3)[None],
        queries_input=x[:, :1], keys_input=x,
    )  # fmt: skip
    bias = encoding.bias(context)
    return bias is not None and bias.shape[-2] != 1


def content(count: int, width: int, dtype: torch.dtype, name: str = "x") -> Tensor:
    """(count, 1, width) from N(0, 1), the same whenever it is asked for."""
    values = philox("scorecard", name, width).standard_normal((count, 1, width))
    return torch.from_numpy(values).to(dtype)


def distinct(codes: Tensor) -> tuple[int, int | None]:
    """How many different rows `codes` (N, C) has, and the first row that is equal to one before it, or None."""
    seen: set[bytes] = set()
    first = None
    for number, row in enumerate(_bytes(codes)):
        if row in seen and first is None:
            first = number
        seen.add(row)
    return len(seen), first


def shared_between_lengths(short: Tensor, long: Tensor) -> tuple[int, int] | None:
    """The first position of a short sequence whose row is that of *another* position of a longer one, and which."""
    where = {row: number for number, row in enumerate(_bytes(long))}
    for number, row in enumerate(_bytes(short)):
        if where.get(row, number) != number:
            return number, where[row]
    return None


def one_code_from(codes: Tensor) -> int | None:
    """The position or distance from which on all rows are equal, or None where that is less than half of them."""
    same = (codes == codes[-1]).all(dim=1)
    different = torch.nonzero(~same)
    first = int(different[-1]) + 1 if len(different) else 0
    return first if first <= len(codes) // 2 else None


def _bytes(codes: Tensor) -> list[bytes]:
    codes = codes.detach() + 0.0  # no −0
    array = codes.contiguous().view(torch.int16).numpy() if codes.dtype == torch.bfloat16 else codes.numpy()
    rows = np.ascontiguousarray(array)
    return [row.tobytes() for row in rows]
