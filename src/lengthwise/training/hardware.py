"""On what a run computes, and in which precision."""

from __future__ import annotations

import torch


def device_of(accelerator: str) -> torch.device:
    """The device that ``trainer.accelerator`` ("auto", "cpu" or "gpu") stands for on this machine."""
    return torch.device("cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu")


def device_name(accelerator: str) -> str:
    """The same in words, for the record: "cpu", or the GPU's own name."""
    device = device_of(accelerator)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def resolve_precision(precision: str, accelerator: str) -> str:
    """ "auto" is float32 on a CPU, where bf16 is slower, and bf16-mixed on a GPU."""
    if precision != "auto":
        return precision
    return "bf16-mixed" if device_of(accelerator).type == "cuda" else "32-true"
