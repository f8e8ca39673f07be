"""On what a run computes, and in which precision."""

from __future__ import annotations

import torch

from lengthwise.errors import ConfigError
from lengthwise.training.place import Place


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


def rank_device(place: Place, accelerator: str) -> torch.device:
    """The device of one rank: the GPU of its local number, or the only one it is shown (as Slurm may do).

    Raises ConfigError where the machine shows too few.
    """
    device = device_of(accelerator)
    if device.type == "cpu":
        return device
    visible = torch.cuda.device_count()
    if place.starter == "leader" and visible < place.world:
        raise ConfigError(
            f"trainer.devices={place.world}: this machine shows {visible} GPU{'' if visible == 1 else 's'}; lower it, "
            "or look at CUDA_VISIBLE_DEVICES"
        )
    if place.local_rank >= visible > 1:
        raise ConfigError(
            f"rank {place.rank} has local rank {place.local_rank} and is shown {visible} GPUs: give it one of its own "
            "(--gpus-per-task=1) or all of the node's"
        )
    return torch.device("cuda", place.local_rank if place.local_rank < visible else 0)
