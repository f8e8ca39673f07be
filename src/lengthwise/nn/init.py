"""Initial values, keyed by (seed, parameter name).

Every parameter is drawn from its own stream, so two models that differ in one part are equal everywhere else.
Values are drawn in C order: a longer table starts with the rows of a shorter one.

A module may define ``initial(name)`` for the parameters below it and return a role, a distribution, or None
to leave the choice to the rules for PyTorch's own layers. A parameter that no rule covers keeps what its
constructor drew, which is why every component is built under `keyed_rng`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from lengthwise.keyed import philox, seed63


@dataclass(frozen=True)
class Normal:
    """N(0, std²)."""

    std: float

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return self.std * generator.standard_normal(shape)


@dataclass(frozen=True)
class Uniform:
    """U(-bound, bound)."""

    bound: float

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return generator.uniform(-self.bound, self.bound, shape)


@dataclass(frozen=True)
class Between:
    """U(low, high)."""

    low: float
    high: float

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return generator.uniform(self.low, self.high, shape)


@dataclass(frozen=True)
class Fixed:
    """One value everywhere."""

    value: float

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return np.full(shape, self.value)


@dataclass(frozen=True)
class Weight:
    """The matrix of a linear map with `fan_in` inputs; `residual` if its output is added to the residual
    stream."""

    fan_in: int
    residual: bool = False


@dataclass(frozen=True)
class Bias:
    """The bias of a linear map with `fan_in` inputs."""

    fan_in: int


@dataclass(frozen=True)
class Table:
    """Token embeddings and learned positions."""


Distribution = Normal | Uniform | Between | Fixed
Role = Weight | Bias | Table


@dataclass(frozen=True)
class DefaultInit:
    """PyTorch's own: linear maps U(±1/√fan_in), tables N(0, 1)."""

    def __call__(self, role: Role, num_layers: int) -> Distribution:
        return Normal(1.0) if isinstance(role, Table) else Uniform(role.fan_in**-0.5)


@dataclass(frozen=True)
class NormalInit:
    """N(0, std²) for matrices and tables, biases 0."""

    std: float = 0.02

    def __call__(self, role: Role, num_layers: int) -> Distribution:
        return Fixed(0.0) if isinstance(role, Bias) else Normal(self.std)


@dataclass(frozen=True)
class InverseSqrtInit:
    """N(0, 1/fan_in) for matrices (unit variance is kept), tables N(0, 1), biases 0."""

    def __call__(self, role: Role, num_layers: int) -> Distribution:
        if isinstance(role, Bias):
            return Fixed(0.0)
        return Normal(role.fan_in**-0.5 if isinstance(role, Weight) else 1.0)


@dataclass(frozen=True)
class DepthScaledInit(NormalInit):
    """As NormalInit, with what writes into the residual stream divided by √(2·layers) (Radford et al.
    2019)."""

    def __call__(self, role: Role, num_layers: int) -> Distribution:
        if isinstance(role, Weight) and role.residual:
            return Normal(self.std / (2 * num_layers) ** 0.5)
        return super().__call__(role, num_layers)


Scheme = DefaultInit | NormalInit | InverseSqrtInit | DepthScaledInit


@torch.no_grad()
def initialise(model: nn.Module, seed: int, scheme: Scheme) -> None:
    """Give every parameter that a rule covers its initial value. `model.num_layers` is the depth."""
    modules = dict(model.named_modules(remove_duplicate=False))
    num_layers: int = model.num_layers  # type: ignore[assignment]
    for name, parameter in model.named_parameters():
        rule = _rule(modules, name)
        if rule is None or parameter.is_meta:
            continue
        distribution = rule if isinstance(rule, Distribution) else scheme(rule, num_layers)
        values = distribution.draw(philox("init", seed, name), tuple(parameter.shape))
        parameter.copy_(torch.from_numpy(values))


def _rule(modules: dict[str, nn.Module], name: str) -> Distribution | Role | None:
    """The nearest enclosing module's `initial`, else what the owning layer's kind says."""
    parts = name.split(".")
    for depth in range(len(parts) - 1, -1, -1):
        initial = getattr(modules[".".join(parts[:depth])], "initial", None)
        if initial is not None and (rule := initial(".".join(parts[depth:]))) is not None:
            return rule
    owner = modules[".".join(parts[:-1])]
    if isinstance(owner, nn.Linear):
        return Weight(owner.in_features) if parts[-1] == "weight" else Bias(owner.in_features)
    if isinstance(owner, nn.Embedding):
        return Table()
    if isinstance(owner, nn.LayerNorm | nn.RMSNorm):
        return Fixed(1.0 if parts[-1] == "weight" else 0.0)
    return None


@contextmanager
def keyed_rng(seed: int, path: str) -> Iterator[None]:
    """PyTorch's CPU generator set to a function of (seed, path); afterwards as it was before."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed63("build", seed, path))
        yield
