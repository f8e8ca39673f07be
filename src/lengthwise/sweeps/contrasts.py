"""What a study says, before it runs, that it will compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lengthwise.errors import ConfigError


@dataclass(frozen=True)
class Stated:
    """One comparison of two variants, each named by its label or its encoding.

    at_length:    where they are compared; None = the longest length that all runs were tested at.
    alike_within: also ask whether they are alike, within this difference in accuracy: 0.02 is 2 points.
    at_start:     whether the study stated this very comparison when its first sweep started, before there were runs;
                  None where nobody recorded that.
    """

    a: str
    b: str
    at_length: int | None = None
    alike_within: float | None = None
    at_start: bool | None = field(default=None, compare=False)


_KEYS = ("a", "b", "at_length", "alike_within")
_EXAMPLE = "contrasts: [{a: rotary, b: alibi, at_length: 100, alike_within: 0.02}]"


def stated_contrasts(study: Mapping[str, Any]) -> list[Stated]:
    """The ``contrasts`` of a study; none where it states none. ``stated_at_start``: those on record when it started.

    Raises ConfigError for what is no comparison, naming the entry and what would work.
    """
    given = study.get("contrasts")
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        raise ConfigError(f"study.contrasts={given!r}: give a list, as {_EXAMPLE}")
    found: dict[Any, str] = {}
    stated = []
    for number, one in enumerate(given):
        where = f"study.contrasts[{number}]"
        contrast = _stated(one, where)
        question = (frozenset((contrast.a, contrast.b)), contrast.at_length)
        if question in found:
            raise ConfigError(f"{where} compares the same as {found[question]}: state each comparison once")
        found[question] = where
        stated.append(contrast)
    before = study.get("stated_at_start")
    if before is None:
        return stated
    known = stated_contrasts({"contrasts": before})
    return [replace(contrast, at_start=contrast in known) for contrast in stated]


def _stated(one: Any, where: str) -> Stated:
    if not isinstance(one, Mapping):
        raise ConfigError(f"{where}={one!r}: give a and b, as {_EXAMPLE}")
    if unknown := [str(key) for key in one if key not in _KEYS]:
        raise ConfigError(f"{where}.{unknown[0]}: a contrast has no such key; it has {', '.join(_KEYS)}")
    a, b, length, margin = one.get("a"), one.get("b"), one.get("at_length"), one.get("alike_within")
    for key, label in (("a", a), ("b", b)):
        if not isinstance(label, str) or not label.strip():
            raise ConfigError(f"{where}.{key}={label!r}: name a variant by its label or its encoding")
    if a == b:
        raise ConfigError(f"{where}: a and b are both {a!r}; name two variants")
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 1):
        raise ConfigError(f"{where}.at_length={length!r}: give a tested length, a whole number from 1")
    number = isinstance(margin, int | float) and not isinstance(margin, bool)
    if margin is not None and not (number and 0 < margin < 1):
        raise ConfigError(
            f"{where}.alike_within={margin!r}: give a difference in accuracy between 0 and 1, as 0.02 for 2 points"
        )
    return Stated(str(a), str(b), length, None if margin is None else float(margin))
