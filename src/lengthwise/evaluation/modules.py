"""Anyone's module, seen as a model: vectors (B, N, D) in, vectors (B, N, ·) or one (B, ·) out."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.batch import IGNORE, Batch
from lengthwise.evaluation.sample import Sample
from lengthwise.keyed import philox
from lengthwise.nn.transformer import Inspection

_REAL = ("key_mask",)
_PADS = ("src_key_padding_mask", "key_padding_mask")


class OnFeatures(nn.Module):
    """`module` on a batch's features.

    Beside x it is handed, where its ``forward`` has an argument of that name: `key_mask` (B, N) True = real, or torch's
    `src_key_padding_mask` or `key_padding_mask`, True = pad; `positions` (B, N), or None for 0…N-1.

    Raises ValueError for a ``forward`` that needs more.
    """

    _kind: Tensor

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("_kind", torch.empty(0))  # the dtype of a module that has no parameters
        self.takes = _arguments(module)

    def forward(self, batch: Batch) -> Tensor:
        assert batch.features is not None
        given: dict[str, Any] = {}
        if (name := self._mask) is not None:
            given[name] = batch.key_mask if name in _REAL else ~batch.key_mask
        elif not bool(batch.key_mask.all()):
            raise ValueError("the module takes no key_mask, so that pads would be read")
        if "positions" in self.takes:
            given["positions"] = batch.positions
        elif batch.positions is not None:
            raise ValueError("the module takes no position numbers")
        found = self.module(batch.features.to(self._kind.dtype), **given)
        if not isinstance(found, Tensor) or found.ndim not in (2, 3) or len(found) != len(batch):
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ValueError(
                f"the module must map (B, N, D) to (B, N, ·) or (B, ·); {tuple(batch.features.shape)} gave {shape}"
            )
        return found.unsqueeze(1) if found.ndim == 2 else found

    def inspect(self, batch: Batch) -> Inspection:
        """Its outputs, its input, and what each item of its module lists gave that is (B, N, ·)."""
        assert batch.features is not None
        hidden: list[Tensor] = [batch.features]

        def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.ndim == 3 and output.shape[:2] == batch.tokens.shape:
                hidden.append(output)

        lists = [part for part in self.module.modules() if isinstance(part, (nn.ModuleList, nn.Sequential))]
        hooks = [item.register_forward_hook(keep) for part in lists for item in part]
        try:
            return Inspection(self(batch), [], hidden)
        finally:
            for hook in hooks:
                hook.remove()

    @property
    def _mask(self) -> str | None:
        return next((name for name in (*_REAL, *_PADS) if name in self.takes), None)


def _arguments(module: nn.Module) -> set[str]:
    first, *rest = inspect.signature(module.forward).parameters.values()
    known = {*_REAL, *_PADS, "positions"}
    needed = [
        p.name
        for p in rest
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in known
    ]
    if needed or first.kind is first.KEYWORD_ONLY:
        raise ValueError(
            f"{type(module).__name__}.forward needs {', '.join(needed) or first.name}; it is called with x (B, N, D), "
            f"and by name {', '.join(sorted(known))} where it takes them"
        )
    return {p.name for p in rest} & known


def feature_sample(module: OnFeatures, width: int, length: int, sequences: int) -> Sample:
    """Sequences of `length` normal vectors of `width` numbers; the answer is one where the module gives one.

    Raises ValueError where the module does not take them.
    """
    key = ("module", width, length)
    numbers = philox(*key).standard_normal((2 * sequences, length, width))
    shape = numbers.shape[:2]
    both = Batch(
        tokens=torch.zeros(shape, dtype=torch.int64),
        key_mask=torch.ones(shape, dtype=torch.bool),
        targets=torch.full(shape, IGNORE),
        lengths=torch.full(shape[:1], length),
        features=torch.from_numpy(numbers),
    )
    parameter = next(module.module.parameters(), None)
    with torch.no_grad():
        found = module(both.to("cpu" if parameter is None else parameter.device))
    if found.shape[1] == 1:
        both = replace(both, targets=torch.zeros((len(both), 1), dtype=torch.int64))
    elif found.shape[1] != length:
        raise ValueError(
            f"{length} positions in, {found.shape[1]} out: the module must keep them, or give one"
        )
    rows = slice(0, sequences), slice(sequences, None)
    return Sample(both.rows(rows[0]), both.rows(rows[1]), torch.arange(length), 2, key)
