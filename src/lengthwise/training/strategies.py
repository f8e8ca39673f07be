"""How a run's ranks share the work: each a whole copy of the model (DDP), or each a slice of it (FSDP)."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from pytorch_lightning.core.optimizer import LightningOptimizer
from pytorch_lightning.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from lengthwise.nn.layer import Layer
from lengthwise.nn.position.contract import PositionEncoding
from lengthwise.training.hardware import rank_device
from lengthwise.training.place import Place, Surroundings

_HOOKS = ("embed", "rotate", "bias", "by_distance", "score", "read")
"""What is called on an encoding instead of its `forward`."""


def make_strategy(strategy: str, place: Place, accelerator: str, devices: int) -> Strategy:
    """Lightning's strategy for this rank of several, `devices` on each node."""
    kind = FullyShard if strategy == "fsdp" else Copies
    here = rank_device(place, accelerator)
    made = kind(place)
    # One entry for each rank of this node; a rank only ever looks at its own.
    made.parallel_devices = [here] * devices if here.index is None else [
        here if index == place.local_rank else torch.device(here.type, index) for index in range(devices)
    ]  # fmt: skip
    return made


class Copies(DDPStrategy):
    """Every rank holds the model; gradients are averaged.

    Buffers are not copied from rank 0 at every step: nothing learns in them, and a cache may be longer on the rank
    that has seen the longer sequences.
    """

    def __init__(self, place: Place) -> None:
        known = inspect.signature(DistributedDataParallel).parameters
        buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        options: dict[str, Any] = {"gradient_as_bucket_view": True, buffers: False}
        super().__init__(cluster_environment=Surroundings(place), **options)

    def _configure_launcher(self) -> None:
        pass  # ours are the ranks; Lightning's launcher would also set the number of threads


class FullyShard(ModelParallelStrategy):
    """Every rank holds a slice of each parameter, its gradient and its optimizer state (FSDP2).

    Checkpoints are those of one device: whole tensors, written by rank 0, optimizer states in torch's own form. A run
    may thus go on with another strategy or number of devices.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(
            data_parallel_size=place.world, tensor_parallel_size=1, save_distributed_checkpoint=False
        )
        self.cluster_environment = Surroundings(place)

    def shard(self, model: nn.Module) -> None:
        """Slice `model` in place: a layer at a time, then what is left."""
        mesh = self.device_mesh["data_parallel"]
        layers = [module for module in model.modules() if isinstance(module, Layer)]
        users = Counter(id(module) for layer in layers for module in layer.modules())
        for module in model.modules():
            # Encodings that several layers share belong to none of them, and are not entered by `forward`.
            if isinstance(module, PositionEncoding) and users[id(module)] > 1 and any(module.parameters()):
                fully_shard(module, mesh=mesh)
                for hook in _HOOKS:
                    register_fsdp_forward_method(module, hook)
        for layer in layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """As ``optimizer.state_dict()`` on one device: states under numbers, in the order of the groups."""
        named: dict[str, Any] = get_optimizer_state_dict(_model(self), _plain(optimizer), options=_WHOLE)
        if not named:  # not rank 0
            return {}
        numbers = {name: number for number, name in enumerate(_names(named))}
        return {
            "state": {numbers[name]: state for name, state in named["state"].items()},
            "param_groups": [
                {**group, "params": [numbers[name] for name in group["params"]]}
                for group in named["param_groups"]
            ],
        }

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        checkpoint = self.checkpoint_io.load_checkpoint(checkpoint_path, weights_only=True)
        set_model_state_dict(_model(self), checkpoint["state_dict"], options=_WHOLE)
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            self._load_optimizer(_plain(optimizer), state)
        return checkpoint

    def _load_optimizer(self, optimizer: Optimizer, state: Mapping[str, Any]) -> None:
        of_parameter = {id(value): name for name, value in _model(self).named_parameters()}
        groups = [[of_parameter[id(p)] for p in group["params"]] for group in optimizer.param_groups]
        names = dict(
            zip(
                [number for group in state["param_groups"] for number in group["params"]],
                [name for group in groups for name in group],
                strict=True,
            )
        )
        named: dict[str, Any] = {
            "state": {names[number]: values for number, values in state["state"].items()},
            "param_groups": [
                {**group, "params": members}
                for group, members in zip(state["param_groups"], groups, strict=True)
            ],
        }
        set_optimizer_state_dict(_model(self), optimizer, named, options=_WHOLE)


_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


def _model(strategy: Strategy) -> nn.Module:
    assert strategy.model is not None
    return strategy.model


def _plain(optimizer: Any) -> Optimizer:
    return optimizer.optimizer if isinstance(optimizer, LightningOptimizer) else optimizer


def _names(named: Mapping[str, Any]) -> list[str]:
    return [name for group in named["param_groups"] for name in group["params"]]
