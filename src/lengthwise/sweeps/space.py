"""The space that a search looks in, read from Hydra's override grammar.

``pe=rotary,alibi`` is a choice, ``data.batch_size=range(16,129,16)`` a number on a raster, and
``optimizer.lr=interval(1e-4,1e-2)`` any number in between, ``int(interval(1,8))`` a whole one; ``tag(log, …)`` looks at
its logarithm. Everything else is fixed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, IntervalSweep, Override, RangeSweep
from hydra.errors import HydraException, OverrideParseException

from lengthwise.errors import ConfigError

_DIGITS = 6
"""Significant digits of a drawn number: enough for any search, and short enough for a command line."""


@dataclass(frozen=True)
class Choice:
    """One of several values, as texts without an order."""

    key: str
    values: tuple[str, ...]

    def distribution(self) -> Any:
        """For Optuna."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.values)

    def text(self, value: Any) -> str:
        """As a command line takes it."""
        return f"{self.key}={value}"

    @property
    def probes(self) -> list[Any]:
        """Values that together show whether the whole dimension composes."""
        return list(self.values)


@dataclass(frozen=True)
class Number:
    """A number from `low` to `high`, both included; `step` None = any. `log`: drawn evenly in its logarithm."""

    key: str
    low: float
    high: float
    whole: bool
    log: bool = False
    step: float | None = None

    def distribution(self) -> Any:
        """For Optuna."""
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.whole:
            return IntDistribution(int(self.low), int(self.high), log=self.log, step=int(self.step or 1))
        return FloatDistribution(self.low, self.high, log=self.log, step=self.step)

    def text(self, value: Any) -> str:
        """As a command line takes it."""
        if self.whole:
            return f"{self.key}={int(value)}"
        short = f"{value:.{_DIGITS}g}"
        return f"{self.key}={short if self.low <= float(short) <= self.high else repr(float(value))}"

    @property
    def probes(self) -> list[Any]:
        """Both ends, and for fractions a third that is no whole number."""
        inside = [] if self.whole or self.step else [self.low + (self.high - self.low) * 0.3819]
        return list(dict.fromkeys([self.low, *inside, self.high]))

    @property
    def values(self) -> tuple[float, ...] | None:
        """All of them, None where they are too many to list."""
        if not self.whole and self.step is None:
            return None
        step = self.step or 1
        count = int((self.high - self.low) / step + 1e-9) + 1
        numbers = [self.low + i * step for i in range(count)]
        return tuple(int(n) for n in numbers) if self.whole else tuple(numbers)


Dimension = Choice | Number


@dataclass(frozen=True)
class SearchSpace:
    """dimensions: what is searched. fixed: the other overrides, the same in every trial, without Hydra's own."""

    dimensions: tuple[Dimension, ...]
    fixed: tuple[str, ...]

    def point(self, params: Mapping[str, Any]) -> list[str]:
        """The dimensions' overrides at a trial's `params`."""
        return [dimension.text(params[dimension.key]) for dimension in self.dimensions]

    def distributions(self) -> dict[str, Any]:
        """For Optuna, by key."""
        return {dimension.key: dimension.distribution() for dimension in self.dimensions}

    def grid(self) -> list[dict[str, Any]]:
        """Every point.  Raises ConfigError where a dimension is not a list."""
        for dimension in self.dimensions:
            if dimension.values is None:
                raise ConfigError(
                    f"hydra.sweeper.sampler=grid: {dimension.key} is an interval, which has no grid; list its values"
                )
        keys = [dimension.key for dimension in self.dimensions]
        return [
            dict(zip(keys, values, strict=True))
            for values in itertools.product(*(d.values or () for d in self.dimensions))
        ]

    def probes(self) -> list[dict[str, Any]]:
        """Params that together try every dimension's values, one at a time, the others at their first."""
        first = {dimension.key: dimension.probes[0] for dimension in self.dimensions}
        others = [{**first, d.key: value} for d in self.dimensions for value in d.probes[1:]]
        return [first, *others]


def read_space(overrides: Sequence[str], params: Mapping[str, Any] | None = None) -> SearchSpace:
    """What of `overrides` is searched and what is fixed.

    params: further dimensions (``hydra.sweeper.params``), key → text; the command line comes first.

    Raises ConfigError for what cannot be parsed or searched, or where nothing is searched.
    """
    given = {text.partition("=")[0].lstrip("+") for text in overrides}
    words = [*overrides, *(f"{key}={value}" for key, value in (params or {}).items() if key not in given)]
    dimensions: dict[str, Dimension] = {}
    fixed: list[str] = []
    for text in words:
        override = _parsed(text)
        name = override.key_or_group
        if not override.is_sweep_override():
            if name.split(".")[0] != "hydra" and not name.startswith("hydra/"):
                fixed.append(text)
            continue
        dimension = _dimension(text, override)
        if dimension.key in dimensions:
            raise ConfigError(f"{text}: {dimension.key} is given twice")
        dimensions[dimension.key] = dimension
    if not dimensions:
        raise ConfigError(
            "hydra/sweeper=optuna: nothing is searched; give a key several values (pe=rotary,alibi) or an interval "
            "('optimizer.lr=tag(log, interval(1e-4, 1e-2))')"
        )
    return SearchSpace(tuple(dimensions.values()), tuple(fixed))


def _parsed(text: str) -> Override:
    try:
        (override,) = OverridesParser.create().parse_overrides([text])
    except OverrideParseException as error:
        raise ConfigError(
            f"{error.override}: {str(error).strip().splitlines()[0]}. Overrides are written key=value."
        ) from error
    return override


def _dimension(text: str, override: Override) -> Dimension:
    key = text.partition("=")[0]
    sweep: Any = override.value()
    if override.is_delete() or isinstance(sweep, Glob):
        raise ConfigError(f"{text}: a search takes listed values or an interval")
    tags = {str(tag).lower() for tag in sweep.tags}
    if unknown := tags - {"log"}:
        raise ConfigError(
            f"{text}: the only tag that a search knows is log, not {', '.join(sorted(unknown))}"
        )
    if isinstance(sweep, IntervalSweep):
        return _interval(text, key, sweep, "log" in tags)
    if "log" in tags:
        raise ConfigError(f"{text}: tag(log, …) takes an interval, such as tag(log, interval(1e-4, 1e-2))")
    if isinstance(sweep, RangeSweep):
        return _raster(text, key, sweep)
    try:
        values = tuple(dict.fromkeys(override.sweep_string_iterator()))
    except HydraException as error:
        raise ConfigError(f"{text}: {str(error).splitlines()[0]}") from error
    return Choice(key, values)


def _interval(text: str, key: str, sweep: Any, log: bool) -> Number:
    if not sweep.start < sweep.end:
        raise ConfigError(f"{text}: the interval is empty; its first end must be below its second")
    if log and sweep.start <= 0:
        raise ConfigError(f"{text}: a logarithm needs ends above 0")
    whole = isinstance(sweep.start, int) and isinstance(sweep.end, int)
    return Number(key, sweep.start, sweep.end, whole, log)


def _raster(text: str, key: str, sweep: Any) -> Number:
    numbers = sorted(float(value) for value in sweep.range())
    if not numbers:
        raise ConfigError(f"{text}: the range is empty")
    whole = all(isinstance(x, int) for x in (sweep.start, sweep.stop, sweep.step))
    return Number(key, numbers[0], numbers[-1], whole, step=abs(sweep.step))


def describe(dimension: Dimension) -> str:
    """In a word, and what tells one dimension from another."""
    if isinstance(dimension, Choice):
        return f"{dimension.key}={','.join(dimension.values)}"
    kind = "int" if dimension.whole else "float"
    extra = ", log" if dimension.log else f", step {dimension.step:g}" if dimension.step else ""
    return f"{dimension.key}={kind}({dimension.low:g}, {dimension.high:g}{extra})"
