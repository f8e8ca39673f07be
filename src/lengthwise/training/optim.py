"""Optimizers, and which parameters are decayed.

Groups go by the *type* of the module that owns a parameter, never by its name: a swapped component with other
names must not change group. Decayed are the matrices of linear maps; scales of norms, biases, embeddings and
position tables are not, and each parameter is in exactly one group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn import Parameter
from torch.optim import SGD, AdamW, Optimizer

from lengthwise.nn.attention.fixed import FixedAttention
from lengthwise.nn.position.contract import PositionEncoding

_TABLES = (nn.Embedding, nn.EmbeddingBag, FixedAttention)


def owners(model: nn.Module) -> Iterator[tuple[str, Parameter, nn.Module, bool]]:
    """(name, parameter, the module that holds it, whether that lies inside a position encoding), each once."""
    inside = {
        id(module)
        for encoding in model.modules()
        if isinstance(encoding, PositionEncoding)
        for module in encoding.modules()
    }
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield f"{prefix}.{name}" if prefix else name, parameter, module, id(module) in inside


def decays(parameter: Parameter, owner: nn.Module, in_position: bool) -> bool:
    """Whether weight decay applies: a matrix, in neither a table of vectors nor a position encoding."""
    return parameter.ndim >= 2 and not isinstance(owner, _TABLES) and not in_position


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups of trainable parameters, decayed and not; a group without members is left out."""
    groups: dict[bool, list[Parameter]] = {True: [], False: []}
    for _, parameter, owner, in_position in owners(model):
        if parameter.requires_grad:
            groups[decays(parameter, owner, in_position)].append(parameter)
    return [
        {"params": members, "weight_decay": weight_decay if decayed else 0.0}
        for decayed, members in groups.items()
        if members
    ]


def adamw(
    model: nn.Module,
    *,
    lr: float = 3e-3,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    fused: bool = True,
) -> Optimizer:
    """AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101). Raises ValueError for a setting out of range."""
    groups = parameter_groups(model, weight_decay)
    return AdamW(groups, lr=lr, betas=(betas[0], betas[1]), eps=eps, weight_decay=weight_decay, fused=fused)


def sgd(
    model: nn.Module,
    *,
    lr: float = 0.1,
    momentum: float = 0.9,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Stochastic gradient descent with momentum."""
    groups = parameter_groups(model, weight_decay)
    return SGD(groups, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay)
