"""Configurations for tests, composed as a command line composes them, and one step of training with them."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.build import build, build_parts
from lengthwise.composing import compose
from lengthwise.training import LengthData
from lengthwise.training.metrics import summed_loss

_composed = cache(lambda *overrides: compose(overrides))


def composed(*overrides: str) -> dict[str, Any]:
    """`compose`, which takes a fifth of a second, done once for each list of overrides."""
    return deepcopy(_composed(*overrides))


def with_option(config: dict[str, Any], slot: str, option: str) -> dict[str, Any]:
    """`config` with another option in one slot, as ``slot=option`` would have it."""
    return {**config, slot: composed(f"{slot}={option}")[slot]}


def parts(config: dict[str, Any]) -> tuple[nn.Module, LengthData]:
    """The model and the data of a configuration."""
    task, layout, model = build_parts(config)
    return model, LengthData(task, layout, data_seed=config["data_seed"], **config["data"])


def one_step(config: dict[str, Any]) -> tuple[nn.Module, Tensor, list[str]]:
    """Build and take one optimizer step: the model, the loss before it, the names of parameters that it changed."""
    model, data = parts(config)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    batch = data.train_batch(0)
    model.train()
    loss = summed_loss(model(batch), batch.targets) / max(1, int((batch.targets >= 0).sum()))
    loss.backward()
    optimizer = build("optimizer", config["optimizer"])(model)
    schedule = build("schedule", {**config["schedule"], "steps": 10})
    for group in optimizer.param_groups:
        group["lr"] *= schedule(1)
    optimizer.step()
    changed = [name for name, value in model.named_parameters() if not torch.equal(value, before[name])]
    return model.eval(), loss.detach(), changed
