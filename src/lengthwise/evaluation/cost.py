"""What a step of attention costs with an encoding and without: time side by side, memory counted tensor by tensor."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lengthwise.evaluation.position_codes import Subject
from lengthwise.nn.position import Context


class Cost(NamedTuple):
    """Ratios to the same step without an encoding.

    time: median of the paired ratios of CPU seconds; time_low, time_high their quartiles: the noise.
    memory: of the bytes alive at the peak, inputs and parameters left out; a count, without noise.
    """

    time: float
    time_low: float
    time_high: float
    memory: float


def compare(subject: Subject, baseline: Subject, length: int, repeats: int) -> Cost:
    """Forward and backward of one attention layer over `length` positions, in float32, in turn with `baseline`.

    repeats: pairs that are timed, at least 2, after one that is not.
    """
    ours, theirs = _step(subject, length), _step(baseline, length)
    memory = peak(ours) / peak(theirs)  # the first of each also warms up
    pairs = [(_seconds(ours), _seconds(theirs)) for _ in range(repeats)]
    ratios = [mine / other for mine, other in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Cost(middle, low, high, memory)


def _step(subject: Subject, length: int) -> Callable[[], None]:
    subject = subject.to(torch.float32)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, length, subject.sizes.width, generator=generator).requires_grad_()
    context = Context(length, length, subject.sizes.causal, queries_input=x, keys_input=x)

    def run() -> None:
        h = x if subject.position is None else subject.position.embed(x, context)
        subject.attention(h, context).square().sum().backward()
        x.grad = None
        for module in (subject.position, subject.attention):
            if module is not None:
                module.zero_grad()

    return run


def _seconds(step: Callable[[], None]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def peak(step: Callable[[], None]) -> int:
    """Most bytes that tensors made in `step` held at once (what a kernel uses inside itself is not seen)."""
    with _Alive() as alive:
        step()
    return alive.peak


class _Alive(TorchDispatchMode):
    """Counts the storages that operations return, as long as they live."""

    def __init__(self) -> None:
        super().__init__()
        self.peak, self._known = 0, {}  # type: ignore[var-annotated]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        found = func(*args, **(kwargs or {}))
        self._known = {key: entry for key, entry in self._known.items() if not entry[0].expired()}
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in given:  # a view of an input, or a change in place, is nothing new
                    self._known[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.peak = max(self.peak, sum(size for _, size in self._known.values()))
        return found
