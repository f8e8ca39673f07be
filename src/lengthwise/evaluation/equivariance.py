"""Assertions of symmetry for anyone's tests: ``lengthwise.assert_equivariant(module, shape=(4, 10, 32))``.

Needs torch and numpy alone. For a whole certificate of a module see ``lengthwise certify``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
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

TOLERANCES = {"float32": 1e-4, "float64": HOLDS}

Input = Any  # a Tensor or a Batch
Group = str | Callable[..., Any]
Output = str | Callable[..., Tensor]
Function = Callable[[Any], Any]


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
    module: nn.Module | Function,
    example: Input = None,
    *,
    shape: Sequence[int] | None = None,
    group: Group = "permutation",
    output: Output = "same",
    holds: bool = True,
    tolerance: float | Mapping[str, float] | None = None,
    dtypes: str | Sequence[str] | None = None,
    draws: int = 8,
    seed: int = 0,
    other: Input = None,
    call: Callable[[Any, Any], Tensor] | None = None,
) -> Measured:
    """f(gx) = g f(x) for `draws` random g, in evaluation mode, in copies of `module` of each dtype.

    module:    f, a torch module, or a plain function of tensors.
    example:   x, a tensor (B, N, …) or a `lengthwise.batch.Batch` for a Transformer of ours; or `shape`, for normal
               numbers of that shape.
    group:     "permutation" (any), "adjacent_swap", "cyclic_shift", "block", "reversal": of axis 1, in a Batch of all
               real positions (of its source, where it has one); "translation": of a Batch's position numbers; or
               g(x, generator) -> gx, which draws from the numpy generator alone.
    output:    "same", g acts on the output as on the input; "invariant", not at all; or g(y, generator) -> gy, whose
               generator draws what that of the group drew.
    holds:     False asserts the contrary: in each dtype some g breaks f(gx) = g f(x) by more than the tolerance,
               relative to ‖f(x) − f(x′)‖. See `assert_not_equivariant`.
    tolerance: of both relative errors, one number, or one for some dtypes; where none is given 1e-9 in float64 and 1e-4
               in float32, and of holds=False 1e-4 in both.
    dtypes:    one or several of "float32", "float64"; by default both, and of holds=False float64.
    other:     x′, another input, for the second division; by default one is drawn like x.
    call:      (module, x) -> output, for modules that are not called with x alone.

    Returns what was measured in the last dtype. Raises AssertionError with both errors where f does not follow g, and
    where f is constant, for which every symmetry holds and none means anything; ValueError for arguments that do not
    fit each other, and where no g that was drawn changes x: any f passes such a test.
    """
    if dtypes is None:
        dtypes = tuple(TOLERANCES) if holds else ("float64",)
    chosen = (dtypes,) if isinstance(dtypes, str) else tuple(dtypes)
    allowed = _tolerances(tolerance, chosen, holds)
    if draws < 1:
        raise ValueError(f"draws={draws} must be at least 1")
    f = _Subject.of(module, call, seed)
    x = _example(example, shape, seed)
    moves = [partial(_acted, x, group, output, ("equivariance", seed, draw)) for draw in range(draws)]
    found = None
    for dtype, limit in allowed.items():
        found = _measure(f, x, _like(x, seed) if other is None else other, moves, dtype)
        _judge(found, limit, holds, f.name, f"{_name(group)} (output: {_name(output)}, seed {seed})")
    assert found is not None
    return found


def assert_not_equivariant(module: nn.Module | Function, example: Input = None, **options: Any) -> Measured:
    """The negative control: some g breaks f(gx) = g f(x) by more than 1e-4 of ‖f(x) − f(x′)‖, in float64.

    `assert_equivariant` with holds=False, and the same options; a test of a symmetry that cannot fail proves nothing.
    """
    return assert_equivariant(module, example, holds=False, **options)


class _Subject(NamedTuple):
    """f: a module, how it is called, what it is called, and the seed of what it draws itself."""

    module: nn.Module
    call: Callable[[Any, Any], Any]
    name: str
    seed: int

    @classmethod
    def of(
        cls, given: nn.Module | Function, call: Callable[[Any, Any], Tensor] | None, seed: int
    ) -> _Subject:
        """Raises ValueError for what cannot be called."""
        name = type(given).__name__ if isinstance(given, nn.Module) else _name(given)
        call = call or (lambda f, x: f(x))
        if isinstance(given, nn.Module):
            return cls(given, call, name, seed)
        if not callable(given):
            raise ValueError(f"{given!r} is neither a module nor a function")
        owner = getattr(given, "__self__", None)
        if isinstance(owner, nn.Module):  # model.encode: what is copied and cast is the model
            method = given.__func__  # type: ignore[attr-defined]
            return cls(owner, lambda copy, x: call(partial(method, copy), x), name, seed)
        return cls(nn.Module(), lambda _, x: call(given, x), name, seed)

    def cast(self, kind: torch.dtype) -> _Subject:
        """A copy with parameters of that precision; complex ones stay complex."""
        copy = deepcopy(self.module)
        copy._apply(lambda values: _cast(values, kind))
        return self._replace(module=copy)

    def __call__(self, x: Input, kind: torch.dtype) -> Tensor:
        """f(x) in float64, or complex128. A module that draws, even in evaluation mode, draws the same each time."""
        device = device_of(self.module)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self.seed)
            y = self.call(self.module, _cast(x, kind).to(device))
        if not isinstance(y, Tensor):
            raise ValueError(f"the module returns a {type(y).__name__}: say which tensor is meant with call=")
        return y.to(torch.complex128 if y.is_complex() else torch.float64)


def _measure(
    f: _Subject,
    x: Input,
    other: Input,
    moves: Sequence[Callable[[], tuple[Input, Callable[[Tensor], Tensor]]]],
    dtype: str,
) -> Measured:
    """moves: each draws gx, and how g acts on an output."""
    kind = getattr(torch, dtype)
    f = f.cast(kind)
    with evaluation_mode(f.module), full_precision(device_of(f.module)):
        f_x, f_other = f(x, kind), f(other, kind)
        if f_x.shape != f_other.shape:
            raise ValueError(
                f"f(x) is {tuple(f_x.shape)}, f(x′) is {tuple(f_other.shape)}: they must be alike"
            )
        real = _real(x, f_x)
        size, spread = _norm(f_x, real), _norm(f_x - f_other, real)
        errors, moved = [], False
        for move in moves:
            gx, g_of = move()
            moved = moved or not _equal(gx, x)
            got, expected = f(gx, kind), g_of(f_x)
            if got.shape != expected.shape:
                raise ValueError(f"f(gx) is {tuple(got.shape)}, g f(x) is {tuple(expected.shape)}")
            errors.append(_norm(got - expected, real))
    if not moved:
        raise ValueError(
            f"g leaves this x as it is in each of {len(moves)} draws, so that any f passes: use another group, or an x "
            "whose entries differ"
        )
    if spread <= 100 * torch.finfo(kind).eps * size:
        return Measured(dtype, 0.0, None, 0)
    worst = max(
        range(len(errors)), key=lambda draw: (errors[draw] != errors[draw], errors[draw])
    )  # NaN is worst
    relative = errors[worst] / size if size else math.inf
    return Measured(dtype, relative if errors[worst] else 0.0, errors[worst] / spread, worst)


def _judge(found: Measured, limit: float, holds: bool, name: str, group: str) -> None:
    """Raises AssertionError where the figures say other than `holds`, and for a constant."""
    if found.difference is None:
        raise AssertionError(
            f"{name} is collapsed: f(x) = f(x′) up to rounding in {found.dtype}. A constant keeps every symmetry, so "
            "none can be asserted of it"
        )
    if holds and not (found.error <= limit and found.difference <= limit):
        raise AssertionError(f"{name} is not equivariant under {group}; {found}, tolerance {limit:.0e}")
    if not holds and not found.difference > limit:
        raise AssertionError(f"{name} does not break {group}; {found}, which is not more than {limit:.0e}")


def _tolerances(
    given: float | Mapping[str, float] | None, dtypes: Sequence[str], holds: bool
) -> dict[str, float]:
    """dtype -> tolerance. Raises ValueError for unknown dtypes, none at all, and what is no tolerance."""
    named = dict(given) if isinstance(given, Mapping) else dict.fromkeys(dtypes, given)
    if not dtypes:
        raise ValueError(f"dtypes={dtypes!r} names none; use {' or '.join(TOLERANCES)}")
    for dtype in (*dtypes, *named):
        if dtype not in TOLERANCES:
            raise ValueError(f"dtype {dtype!r} is unknown; use {' or '.join(TOLERANCES)}")
    usual = TOLERANCES if holds else dict.fromkeys(TOLERANCES, FAILS)
    own = {dtype: float(limit) for dtype, limit in named.items() if limit is not None}
    allowed = {dtype: own.get(dtype, usual[dtype]) for dtype in dtypes}
    for dtype, limit in allowed.items():
        if not limit >= 0:
            raise ValueError(f"tolerance={limit} for {dtype} must be at least 0")
    return allowed


def _acted(
    x: Input, group: Group, output: Output, key: tuple[Any, ...]
) -> tuple[Input, Callable[[Tensor], Tensor]]:
    """gx, and how g acts on an output."""

    def move(y: Tensor) -> Tensor:
        return y

    if callable(group):
        gx = group(x.clone() if isinstance(x, Tensor) else x, philox(*key))
        if output == "same" and isinstance(x, Batch):
            raise ValueError('a group of your own on a Batch needs output="invariant" or a function')

        def move(y: Tensor) -> Tensor:
            return group(y.clone(), philox(*key))

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
    return gx, lambda y: output(y.clone(), philox(*key))


class _Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        if not callable(function):
            raise ValueError(f"{function!r} is neither a module nor a function")
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def _same(a: Input, b: Input) -> bool:
    if isinstance(a, Tensor) or not isinstance(a, Batch):
        return a is b or (isinstance(b, Tensor) and a.shape == b.shape and bool((a == b).all()))
    if a.source is not None and not _same(a.source, b.source):
        return False
    pairs = ((getattr(a, name), getattr(b, name)) for name in ("tokens", "features", "positions"))
    return all(
        one is other or (one is not None and other is not None and torch.equal(one, other))
        for one, other in pairs
    )


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
    if x.is_complex():
        return torch.view_as_complex(_like(torch.view_as_real(x.resolve_conj()), seed))
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
    """Real numbers as `kind`, complex ones as the complex kind of that precision; anything else as it is."""
    if not isinstance(x, Tensor) or not (x.is_floating_point() or x.is_complex()):
        return x
    return x.to(kind.to_complex() if x.is_complex() else kind)


def _equal(a: Input, b: Input) -> bool:
    """Whether a model is given the same: positions None are 0…N-1, and what is to be answered is no input."""
    if a is None or b is None:
        return a is b
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.shape == b.shape and bool(torch.equal(a, b))
    if not (isinstance(a, Batch) and isinstance(b, Batch)):
        return False
    names = ("tokens", "key_mask", "features", "source")
    return all(_equal(getattr(a, name), getattr(b, name)) for name in names) and _equal(
        _numbers(a), _numbers(b)
    )


def _numbers(batch: Batch) -> Tensor:
    if batch.positions is not None:
        return batch.positions
    return torch.arange(batch.tokens.shape[1], device=batch.tokens.device).expand(batch.tokens.shape)


def _real(x: Input, y: Tensor) -> Tensor | None:
    """(B, N) which outputs count, None = all: those at pads do not."""
    whole = not isinstance(x, Batch) or y.ndim < 2 or y.shape[:2] != x.key_mask.shape
    return None if whole else x.key_mask.to(y.device)


def _norm(values: Tensor, real: Tensor | None) -> float:
    return float(torch.linalg.vector_norm(values if real is None else values[real]))


def _name(what: Any) -> str:
    return what if isinstance(what, str) else getattr(what, "__name__", repr(what))
