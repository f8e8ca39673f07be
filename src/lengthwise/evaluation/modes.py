"""The state of a model while it is measured, and its return to what it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Dropout off and no gradients inside; every submodule's own training flag restored after.

    ``no_grad`` rather than ``inference_mode``: a tensor that a component caches under the latter (a bias table,
    say) could not be used by the training step that follows.
    """
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in flags:
            module.training = training


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Neither TF32 (10-bit mantissa) nor autocast inside: rounding must not be mistaken for a broken symmetry."""
    switches = _tf32_switches()
    before = [getattr(owner, name) for owner, name, _ in switches]
    try:
        for owner, name, exact in switches:
            setattr(owner, name, exact)
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        for (owner, name, _), value in zip(switches, before, strict=True):
            setattr(owner, name, value)


def _tf32_switches() -> list[tuple[Any, str, Any]]:
    """(owner, attribute, value that turns it off). PyTorch 2.9 renamed them, and refuses a mixture of the two kinds."""
    backends: Any = torch.backends
    cuda, cudnn, cpu = backends.cuda.matmul, backends.cudnn, backends.mkldnn
    if not hasattr(cuda, "fp32_precision"):
        return [(cuda, "allow_tf32", False), (cudnn, "allow_tf32", False)]
    return [(owner, "fp32_precision", "ieee") for owner in (cuda, cudnn.conv, cpu.matmul)]


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters are (the CPU for a model that has none)."""
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device
