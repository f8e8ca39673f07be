"""Assertions of symmetry for anyone's tests: ``lengthwise.assert_equivariant(module, shape=(4, 10, 32))``.

Needs torch and numpy alone. For a whole certificate of a module see ``lengthwise certify``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lengthwise.batch import Batch
from lengthwise.evaluation.actions import PERMUTATIONS, permute_real, translate
from lengthwise.evaluation.modes import device_of, evaluation_mode, full_precision
from lengthwise.evaluation.verdict import FAILS, HOLDS
from lengthwise.keyed import philox

GROUPS = {"permutation": "uniform"} | {name: name for name in PERMUTATIONS}
"""Name of a group -> the class of permutations that it stands for."""

TOLERANCES = {"float64": HOLDS, "float32": 1e-4}

Input = Any  # a Tensor or a Batch
Group = str | Callable[..., Any]


class Measured(NamedTuple):
    """The largest error over draws in one precision.

    error:      ‖f(gx) − g f(x)‖ / ‖f(x)‖
    difference: the same / ‖f(x) − f(x′)‖ with an independent x′; None where f is constant ("collapsed")
    draw:       which draw of g it was
    """

    dtype: str
    error: float
    difference: float | None
    draw: int

    def __str__(self) -> str:
        if self.difference is None:
            return f"{self.dtype}: collapsed, ‖f(x) − f(x′)‖ is rounding"
        return (
            f"{self.dtype}: ‖f(gx) − g f(x)‖ is {self.error:.1e} of ‖f(x)‖ and {self.difference:.1e} of "
            f"‖f(x) − f(x′)‖ (draw {self.draw})"
        )


def assert_equivariant(
    module: nn.Module,
    example: Input = None,
    *,
    shape: Sequence[int] | None = None,
    group: Group = "permutation",
    output: str | Callable[..., Tensor] = "same",
    holds: bool = True,
    tolerance: float | Mapping[str, float] | None = None,
    dtypes: Sequence[str] = ("float32", "float64"),
    draws: int = 8,
    seed: int = 0,
    other: Input = None,
    call: Callable[[Any, Any], Tensor] | None = None,
) -> Measured:
    """f(gx) = g f(x) for `draws` random g, in evaluation mode, in copies of `module` of each dtype.

    example:   x, a tensor (B, N, …) or a `lengthwise.batch.Batch` for a Transformer of ours; or `shape`, for normal
               numbers of that shape.
    group:     "permutation" (any), "adjacent_swap", "cyclic_shift", "block", "reversal": of axis 1, in a Batch of all
               real positions (of its source, where it has one); "translation": of a Batch's position numbers; or
               g(x, generator) -> gx, which draws from the numpy generator alone.
    output:    "same", g acts on the output as on the input; "invariant", not at all; or g(y, generator) -> gy, whose
               generator draws what that of the group drew.
    holds:     False asserts the contrary, see `assert_not_equivariant`.
    tolerance: of both relative errors, one number or one a dtype; by default 1e-9 in float64, 1e-4 in float32.
    other:     x′, another input, for the second division; by default one is drawn like x.
    call:      (module, x) -> output, for modules that are not called with x alone.

    Returns what was measured in the last dtype. Raises AssertionError with both errors where f does not follow g, and
    where f is constant, for which every symmetry holds and none means anything; ValueError for arguments that do not
    fit each other.
    """
    if not holds:
        return assert_not_equivariant(
            module,
            example,
            shape=shape,
            group=group,
            output=output,
            dtypes=dtypes[-1:],
            draws=draws,
            seed=seed,
            other=other,
            call=call,
        )
    found = None
    for dtype in dtypes:
        found = measure(
            module,
            example,
            shape=shape,
            group=group,
            output=output,
            dtype=dtype,
            draws=draws,
            seed=seed,
            other=other,
            call=call,
        )
        _refuse_collapsed(module, found)
        allowed = _tolerance(tolerance, dtype)
        assert found.difference is not None
        if not (found.error <= allowed and found.difference <= allowed):
            raise AssertionError(
                f"{type(module).__name__} is not equivariant under {_name(group)} (output: {_name(output)}); "
                f"{found}, tolerance {allowed:.0e}, seed {seed}"
            )
    assert found is not None
    return found


def assert_not_equivariant(
    module: nn.Module,
    example: Input = None,
    *,
    shape: Sequence[int] | None = None,
    group: Group = "permutation",
    output: str | Callable[..., Tensor] = "same",
    dtypes: Sequence[str] = ("float64",),
    draws: int = 8,
    seed: int = 0,
    other: Input = None,
    call: Callable[[Any, Any], Tensor] | None = None,
) -> Measured:
    """The negative control: some g breaks f(gx) = g f(x) by more than 1e-4 of ‖f(x) − f(x′)‖.

    Arguments, result and errors as of `assert_equivariant`; a test of a symmetry that cannot fail proves nothing.
    """
    found = measure(
        module,
        example,
        shape=shape,
        group=group,
        output=output,
        dtype=dtypes[-1],
        draws=draws,
        seed=seed,
        other=other,
        call=call,
    )
    _refuse_collapsed(module, found)
    assert found.difference is not None
    if not found.difference > FAILS:
        raise AssertionError(
            f"{type(module).__name__} does not break {_name(group)} (output: {_name(output)}); {found}, "
            f"which is not more than {FAILS:.0e}, seed {seed}"
        )
    return found


def measure(
    module: nn.Module,
    example: Input = None,
    *,
    shape: Sequence[int] | None = None,
    group: Group = "permutation",
    output: str | Callable[..., Tensor] = "same",
    dtype: str = "float64",
    draws: int = 8,
    seed: int = 0,
    other: Input = None,
    call: Callable[[Any, Any], Tensor] | None = None,
) -> Measured:
    """The figures of `assert_equivariant` in one dtype, without a verdict."""
    if dtype not in TOLERANCES:
        raise ValueError(f"dtype {dtype!r} is unknown; use {' or '.join(TOLERANCES)}")
    if draws < 1:
        raise ValueError(f"draws={draws} must be at least 1")
    x = _example(example, shape, seed)
    other = _like(x, seed) if other is None else other
    device, kind = device_of(module), getattr(torch, dtype)
    copy = deepcopy(module).to(kind)

    def f(z: Input) -> Tensor:
        # A module that draws, even in evaluation mode, draws the same at each call.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            y = (call or (lambda m, v: m(v)))(copy, _cast(z, kind).to(device))
        if not isinstance(y, Tensor):
            raise ValueError(f"the module returns a {type(y).__name__}: say which tensor is meant with call=")
        return y.double()

    with evaluation_mode(copy), full_precision(device):
        f_x, f_other = f(x), f(other)
        if f_x.shape != f_other.shape:
            raise ValueError(
                f"f(x) is {tuple(f_x.shape)}, f(x′) is {tuple(f_other.shape)}: they must be alike"
            )
        real = _real(x, f_x)
        size, spread = _norm(f_x, real), _norm(f_x - f_other, real)
        if spread <= 100 * torch.finfo(kind).eps * size:
            return Measured(dtype, 0.0, None, 0)
        errors = []
        for draw in range(draws):
            gx, g_of = _acted(x, group, output, ("equivariance", seed, draw))
            got, expected = f(gx), g_of(f_x)
            if got.shape != expected.shape:
                raise ValueError(f"f(gx) is {tuple(got.shape)}, g f(x) is {tuple(expected.shape)}")
            errors.append(_norm(got - expected, real))
    worst = max(range(draws), key=lambda draw: (errors[draw] != errors[draw], errors[draw]))  # NaN is worst
    return Measured(dtype, errors[worst] / size, errors[worst] / spread, worst)


def _acted(
    x: Input, group: Group, output: str | Callable[..., Tensor], key: tuple[Any, ...]
) -> tuple[Input, Callable[[Tensor], Tensor]]:
    """gx, and how g acts on an output."""

    def move(y: Tensor) -> Tensor:
        return y

    if callable(group):
        gx = group(x, philox(*key))
        if output == "same" and isinstance(x, Batch):
            raise ValueError('a group of your own on a Batch needs output="invariant" or a function')

        def move(y: Tensor) -> Tensor:
            return group(y, philox(*key))

    elif group == "translation" and isinstance(x, Batch):
        gx = translate(x, int(philox(*key).integers(1, 100))).batch
    elif group not in GROUPS:
        known = f"{', '.join(GROUPS)}, and translation of a Batch's positions"
        raise ValueError(f"group {group!r} is unknown; known are {known}; or give a function")
    else:
        gx, index = _permuted(x, PERMUTATIONS[GROUPS[group]], philox(*key))

        def move(y: Tensor) -> Tensor:
            if y.ndim < 2 or y.shape[:2] != index.shape:
                raise ValueError(
                    f'output="same" moves axis 1 of the output as that of the input, {tuple(index.shape)}; the output '
                    f'is {tuple(y.shape)}: use output="invariant" or a function'
                )
            return y[torch.arange(len(y))[:, None], index.to(y.device)]

    if output == "same":
        return gx, move
    if output == "invariant":
        return gx, lambda y: y
    if not callable(output):
        raise ValueError(f'output {output!r} is unknown; use "same", "invariant" or a function')
    return gx, lambda y: output(y, philox(*key))


def _permuted(x: Input, permutation: Any, generator: Any) -> tuple[Input, Tensor]:
    if isinstance(x, Batch):
        acted = permute_real(x, permutation, generator)
        return acted.batch, acted.index
    if x.ndim < 2 or x.shape[1] < 2:
        raise ValueError(f"x is {tuple(x.shape)}: it needs an axis 1 of at least two entries to permute")
    order = torch.as_tensor(permutation(x.shape[1], generator))
    return x[:, order], order.expand(len(x), -1)


def _example(example: Input, shape: Sequence[int] | None, seed: int) -> Input:
    if (example is None) == (shape is None):
        raise ValueError("give either an example input or the shape of one")
    if shape is not None:
        return torch.from_numpy(philox("example", seed).standard_normal(tuple(shape)))
    return example.to("cpu")


def _like(x: Input, seed: int) -> Input:
    """Another input of the same kind: normal numbers of the same mean and spread, or symbols among those of x."""
    generator = philox("other", seed)
    if isinstance(x, Batch):
        tokens = torch.where(
            x.key_mask, _like(x.tokens[x.key_mask][None], seed)[0][_rank(x.key_mask)], x.tokens
        )
        return replace(
            x,
            tokens=tokens,
            features=None if x.features is None else _like(x.features, seed),
            source=None if x.source is None else _like(x.source, seed),
        )
    if x.is_floating_point():
        noise = torch.from_numpy(generator.standard_normal(tuple(x.shape)))
        spread = x.std() if x.numel() > 1 else x.abs().mean()
        return noise * spread + x.mean()
    symbols = x.unique()
    return symbols[torch.from_numpy(generator.integers(len(symbols), size=tuple(x.shape)))]


def _rank(mask: Tensor) -> Tensor:
    """(B, N): how many True stand before, over the whole mask; any legal index where it is False."""
    return (mask.flatten().cumsum(0) - 1).clamp(min=0).view(mask.shape)


def _cast(x: Input, kind: torch.dtype) -> Input:
    return x.to(kind) if isinstance(x, Tensor) and x.is_floating_point() else x


def _real(x: Input, y: Tensor) -> Tensor | None:
    """(B, N) which outputs count, None = all: those at pads do not."""
    whole = not isinstance(x, Batch) or y.ndim < 2 or y.shape[:2] != x.key_mask.shape
    return None if whole else x.key_mask.to(y.device)


def _norm(values: Tensor, real: Tensor | None) -> float:
    return float(torch.linalg.vector_norm(values if real is None else values[real]))


def _refuse_collapsed(module: nn.Module, found: Measured) -> None:
    if found.difference is None:
        raise AssertionError(
            f"{type(module).__name__} is collapsed: f(x) = f(x′) up to rounding in {found.dtype}. A constant keeps "
            "every symmetry, so none can be asserted of it"
        )


def _tolerance(given: float | Mapping[str, float] | None, dtype: str) -> float:
    if given is None:
        return TOLERANCES[dtype]
    return float(given[dtype] if isinstance(given, Mapping) else given)


def _name(what: Any) -> str:
    return what if isinstance(what, str) else getattr(what, "__name__", repr(what))
