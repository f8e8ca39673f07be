"""The transformations under which a model's outputs are compared.

Each turns a batch x into gx, with `index` (B, M): position j of gx holds what position index[b, j] of x held, so
that a model that keeps the symmetry has f(gx)[b, j] = f(x)[b, index[b, j]].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lengthwise.batch import IGNORE, Batch


@dataclass(frozen=True)
class Acted:
    """gx, and where its first M positions were in x; `source_index` likewise on the encoder's side.

    until: only positions of `batch` up to this one are compared; None = all. Such an action says nothing about the
        encoder's side, nor about one output for the whole sequence.
    """

    batch: Batch
    index: Tensor
    source_index: Tensor | None
    until: int | None = None


Permutation = Callable[[int, np.random.Generator], np.ndarray]


def adjacent_swap(n: int, generator: np.random.Generator) -> np.ndarray:
    """Two neighbours exchanged: the smallest step away from the order."""
    order, i = np.arange(n), generator.integers(n - 1)
    order[[i, i + 1]] = order[[i + 1, i]]
    return order


def reversal(n: int, generator: np.random.Generator) -> np.ndarray:
    """i → n − 1 − i."""
    return np.arange(n)[::-1].copy()


def cyclic_shift(n: int, generator: np.random.Generator) -> np.ndarray:
    """i → i + c mod n, 1 ≤ c < n."""
    return np.roll(np.arange(n), generator.integers(1, n))


def block(n: int, generator: np.random.Generator) -> np.ndarray:
    """Two neighbouring blocks exchanged, each kept in its inner order."""
    a, b, c = np.sort(generator.choice(n + 1, size=3, replace=False))
    order = np.arange(n)
    return np.concatenate([order[:a], order[b:c], order[a:b], order[c:]])


def uniform(n: int, generator: np.random.Generator) -> np.ndarray:
    """Any permutation but the identity, which would measure nothing."""
    while True:
        order = generator.permutation(n)
        if (order != np.arange(n)).any():
            return order


PERMUTATIONS: dict[str, Permutation] = {
    "adjacent_swap": adjacent_swap,
    "reversal": reversal,
    "cyclic_shift": cyclic_shift,
    "block": block,
    "uniform": uniform,
}


def permute_inputs(batch: Batch, columns: Tensor, order: np.ndarray) -> Acted:
    """The input symbols at `columns` (n,) in another order; slots, BOS, SEP and the answer stay where they are."""
    side = batch if batch.source is None else batch.source
    index = _identity(side)
    index[:, columns] = columns[torch.as_tensor(order, device=columns.device)]
    moved = _take(side, index, targets=False)
    if batch.source is None:
        return Acted(moved, index, None)
    return Acted(replace(batch, source=moved), _identity(batch), index)


def permute_real(batch: Batch, permutation: Permutation, generator: np.random.Generator) -> Acted:
    """All real positions of each sequence in an order of its own, slots and BOS included; of a source alone where there
    is one."""
    side = batch if batch.source is None else batch.source
    index = _identity(side)
    for row, real in enumerate(side.key_mask.cpu().numpy()):
        places = np.flatnonzero(real)
        if len(places) < 2:
            raise ValueError(f"sequence {row} has no two real positions to exchange")
        index[row, places] = torch.as_tensor(places[permutation(len(places), generator)], device=index.device)
    if batch.source is None:
        return Acted(_take(side, index, targets=side.targets.shape[1] == index.shape[1]), index, None)
    return Acted(replace(batch, source=_take(side, index, targets=False)), _identity(batch), index)


def reverse_sequence(batch: Batch) -> Acted:
    """All real positions in the opposite order, slots and BOS included: what a symmetric distance bias keeps.

    (With its slot held in place an encoder is not the same read backwards: the slot's distances change.)
    In an encoder-decoder the encoder's side is reversed.
    """
    side = batch if batch.source is None else batch.source
    index = _identity(side)
    real = side.key_mask.sum(1, keepdim=True)
    index = torch.where(index < real, real - 1 - index, index)
    if batch.source is None:
        return Acted(_take(side, index, targets=side.targets.shape[1] == index.shape[1]), index, None)
    return Acted(replace(batch, source=_take(side, index, targets=False)), _identity(batch), index)


def translate(batch: Batch, offset: int) -> Acted:
    """Every position number n becomes n + offset; the symbols stay."""
    source = batch.source
    return Acted(
        replace(_shifted(batch, offset), source=None if source is None else _shifted(source, offset)),
        _identity(batch),
        None if source is None else _identity(source),
    )


def pad(batch: Batch, count: int, symbols: int, generator: np.random.Generator) -> Acted:
    """`count` masked positions more on the right, holding any ids below `symbols` and any features."""
    source = batch.source
    return Acted(
        replace(
            _padded(batch, count, symbols, generator),
            source=None if source is None else _padded(source, count, symbols, generator),
        ),
        _identity(batch),
        None if source is None else _identity(source),
    )


def among(batch: Batch, longer: int, shorter: bool, symbols: int, generator: np.random.Generator) -> Acted:
    """All sequences between two neighbours, so that row b + 1 is what row b was.

    The neighbours hold any ids below `symbols` and any features.

    longer:  positions that the neighbour behind has more than `batch` has columns; the others are padded to its length.
    shorter: the neighbour in front has half the columns only; a mask that is taken from the first sequence shows then.
    """
    source = batch.source
    return Acted(
        _among(batch, longer, shorter, symbols, generator),
        _identity(batch),
        None if source is None else _identity(source),
    )


def change_after(batch: Batch, last: int, symbols: int, generator: np.random.Generator) -> Acted:
    """Every symbol and feature past position `last` becomes another one, below `symbols`; how many there are stays."""
    later = slice(last + 1, None)
    tokens, features = batch.tokens.clone(), batch.features
    shape = tokens[:, later].shape
    steps = torch.as_tensor(generator.integers(1, max(symbols, 2), size=shape), device=tokens.device)
    tokens[:, later] = (tokens[:, later] + steps) % symbols
    if features is not None:
        features = features.clone()
        noise = torch.as_tensor(generator.standard_normal((*shape, features.shape[2])))
        features[:, later] = noise.to(features)
    changed = replace(batch, tokens=tokens, features=features)
    return Acted(changed, _identity(batch), None, until=last)


def prefix(batch: Batch, last: int) -> Acted:
    """The positions up to `last`, as if no more had ever been there."""
    known = slice(None, last + 1)
    targets = batch.targets
    cut = replace(
        batch,
        tokens=batch.tokens[:, known],
        key_mask=batch.key_mask[:, known],
        targets=targets[:, known] if targets.shape[1] == batch.tokens.shape[1] else targets,
        features=None if batch.features is None else batch.features[:, known],
        positions=None if batch.positions is None else batch.positions[:, known],
    )
    return Acted(cut, _identity(cut), None, until=last)


def _identity(batch: Batch) -> Tensor:
    width = batch.tokens.shape[1]
    return torch.arange(width, device=batch.tokens.device).expand(len(batch), width).clone()


def _take(batch: Batch, index: Tensor, *, targets: bool) -> Batch:
    features = batch.features
    if features is not None:
        features = features.gather(1, index.unsqueeze(-1).expand_as(features))
    return replace(
        batch,
        tokens=batch.tokens.gather(1, index),
        features=features,
        targets=batch.targets.gather(1, index) if targets else batch.targets,
    )


def _shifted(batch: Batch, offset: int) -> Batch:
    positions = _identity(batch) if batch.positions is None else batch.positions
    return replace(batch, positions=positions + offset)


def _among(batch: Batch, longer: int, shorter: bool, symbols: int, generator: np.random.Generator) -> Batch:
    source = None if batch.source is None else _among(batch.source, longer, shorter, symbols, generator)
    own = replace(batch, source=None)
    padded = _padded(own, longer, symbols, generator) if longer else own
    width = padded.tokens.shape[1]
    halves = (max(1, batch.tokens.shape[1] // 2) if shorter else width, width)
    lengths = torch.tensor(halves, device=batch.tokens.device)
    beside = padded.rows(torch.zeros_like(lengths))  # under numbers that are there
    tokens, features = _anything(beside, width, symbols, generator)
    beside = replace(
        beside,
        tokens=tokens,
        features=features,
        key_mask=torch.arange(width, device=lengths.device) < lengths[:, None],
        targets=torch.full_like(beside.targets, IGNORE),
        lengths=lengths,
    )
    front, behind = beside.rows(slice(0, 1)), beside.rows(slice(1, 2))
    return replace(_stacked([front, padded, behind]), source=source)


def _stacked(parts: Sequence[Batch]) -> Batch:
    """One batch of equally wide ones without a source."""
    columns = {field.name: [getattr(part, field.name) for part in parts] for field in fields(Batch)}
    stacked: dict[str, Any] = {
        name: None if values[0] is None else torch.cat(values) for name, values in columns.items()
    }
    return Batch(**stacked)


def _anything(
    batch: Batch, count: int, symbols: int, generator: np.random.Generator
) -> tuple[Tensor, Tensor | None]:
    """(B, count) ids below `symbols`, and features where `batch` has any."""
    tokens = generator.integers(symbols, size=(len(batch), count))
    features = None
    if batch.features is not None:
        size = (len(batch), count, batch.features.shape[2])
        features = torch.as_tensor(generator.standard_normal(size)).to(batch.features)
    return torch.as_tensor(tokens, device=batch.tokens.device), features


def _padded(batch: Batch, count: int, symbols: int, generator: np.random.Generator) -> Batch:
    shape = (len(batch), count)
    tokens, noise = _anything(batch, count, symbols, generator)
    features, positions, targets = batch.features, batch.positions, batch.targets
    if features is not None and noise is not None:
        features = torch.cat([features, noise], 1)
    if positions is not None:
        positions = torch.cat([positions, positions[:, -1:].expand(-1, count, *positions.shape[2:])], 1)
    if targets.shape[1] == batch.tokens.shape[1]:  # else one answer is read from the mean
        targets = torch.cat([targets, targets.new_full(shape, IGNORE)], 1)
    return replace(
        batch,
        tokens=torch.cat([batch.tokens, tokens], 1),
        key_mask=torch.cat([batch.key_mask, batch.key_mask.new_zeros(shape)], 1),
        features=features,
        positions=positions,
        targets=targets,
    )
