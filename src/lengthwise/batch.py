"""What a model is given: the one contract that the Transformer and the tasks share."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from torch import Tensor

IGNORE = -100
"""A target that is not scored."""


@dataclass(frozen=True)
class Batch:
    """B sequences of N positions, padded to the longest.

    tokens:    (B, N) int64 symbol ids; a position that holds a float feature has the vocabulary's `patch` id.
    key_mask:  (B, N) bool, True = a real position. Outputs at real positions must not depend on the others.
    targets:   (B, N) int64, or (B, 1) where one answer is read from the mean of all positions; IGNORE = not scored.
    lengths:   (B,) int64, number of *input symbols* (never slots, separators or BOS).
    features:  (B, N, D_in) float or None; added to the token embedding through a linear map.
    positions: (B, N) or (B, N, levels) position numbers, or None for 0…N-1.
    source:    the encoder's side of an encoder-decoder, or None.
    evidence:  (B,) int64 input position (from 0) that decides the answer, -1 = none, or None.
    """

    tokens: Tensor
    key_mask: Tensor
    targets: Tensor
    lengths: Tensor
    features: Tensor | None = None
    positions: Tensor | None = None
    source: Batch | None = None
    evidence: Tensor | None = None

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def _map(self, function: Any) -> Batch:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{k: function(v) for k, v in values.items() if v is not None})

    def to(self, device: Any) -> Batch:
        """All tensors on `device`."""
        return self._map(lambda value: value.to(device))

    def rows(self, index: slice | Tensor) -> Batch:
        """The sequences selected by `index`."""
        return self._map(lambda v: v.rows(index) if isinstance(v, Batch) else v[index])
