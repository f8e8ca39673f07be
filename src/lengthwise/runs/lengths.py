"""Lists of lengths, as a user may write them.

``[4, 5, 6]``, ``"4-6"``, ``"4-10,20"``, ``"10-100:10"`` and ``["4-6", 20]`` are all accepted. A list of lengths is a
set: it comes back sorted and without repetition, so that its order cannot change a result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lengthwise.errors import ConfigError

MOST = 100_000
"""More lengths than this is a slip of the keyboard, not a wish."""

LONGEST = 2**20
"""The longest input, in symbols: published tests go up to here, and a batch of it fits into memory."""

_RANGE = re.compile(r"(\d{1,12})\s*-\s*(\d{1,12})(?:\s*:\s*(\d{1,12}))?")


def parse_lengths(value: Any, option: str = "data.lengths") -> list[int]:
    """Sorted distinct lengths, each at least 1.

    Raises ConfigError naming `option` and what it holds.
    """

    def refuse(why: str) -> ConfigError:
        return ConfigError(
            f"{option}={_show(value)}: {why}. Write whole numbers from 1, as [4,5,6], 4-10, or '10-100:10,200'."
        )

    found: set[int] = set()
    for item in _items(value):
        if isinstance(item, bool) or not isinstance(item, int | float | str):
            raise refuse(f"{_show(item)} is not a length")
        if isinstance(item, str) and (match := _RANGE.fullmatch(item)):
            first, last, step = (int(group) if group else 1 for group in match.groups())
            if step < 1 or first > last:
                raise refuse(f"the range {item} is empty")
            lengths: Iterable[int] = range(first, last + 1, step)
            if len(range(first, last + 1, step)) > MOST:
                raise refuse(f"the range {item} holds more than {MOST} lengths")
        else:
            try:
                number = float(item)
            except ValueError:
                raise refuse(f"{_show(item)} is not a length") from None
            if not number.is_integer():
                raise refuse(f"{item} is not a whole number")
            lengths = [int(number)]
        found.update(lengths)
    if not found:
        raise refuse("there is no length in it")
    if min(found) < 1:
        raise refuse(f"{min(found)} is too short")
    if max(found) > LONGEST:
        raise refuse(f"{max(found)} is too long, at most {LONGEST} symbols are possible")
    return sorted(found)


def format_lengths(lengths: Iterable[int]) -> str:
    """The shortest text that `parse_lengths` reads back: ``"4-10,20"``."""
    runs: list[list[int]] = []
    for length in sorted(set(lengths)):
        if runs and length == runs[-1][1] + 1:
            runs[-1][1] = length
        else:
            runs.append([length, length])
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)


def parse_bins(value: Any, option: str = "evaluation.bins") -> list[list[int]]:
    """Sorted distinct bins [shortest, longest], both inside: ``[[51,100],[101,150]]`` or ``["51-100","101-150"]``.

    Raises ConfigError naming `option` and what it holds.
    """
    given = [value] if isinstance(value, str) and value.strip() else value or []
    if not isinstance(given, list | tuple):
        given = [given]
    return [list(one) for one in sorted({_bin(item, value, option) for item in given})]


def parse_bin(value: Any, option: str) -> list[int]:
    """One bin. Raises ConfigError as `parse_bins` does."""
    return list(_bin(value, value, option))


def _bin(item: Any, value: Any, option: str) -> tuple[int, int]:
    if isinstance(item, str) and (match := re.fullmatch(r"\s*(\d{1,9})\s*-\s*(\d{1,9})\s*", item)):
        item = [int(bound) for bound in match.groups()]
    numbers = isinstance(item, list | tuple) and all(
        isinstance(bound, int) and not isinstance(bound, bool) for bound in item
    )
    if not numbers or len(item) != 2 or not 1 <= item[0] <= item[1] or item[1] - item[0] >= MOST:
        raise ConfigError(
            f"{option}={_show(value)}: {_show(item)} is no range of lengths. Write its shortest and its longest, as "
            "[51,100] or 51-100."
        )
    return item[0], item[1]


SLIDING = "sliding_window"
"""The stratum of a test on windows of a text that overlap, so that each scored symbol has a long context."""

_BIN = re.compile(r"bin_(\d+)-(\d+)")


def bin_name(low: int, high: int) -> str:
    """The stratum of a bin in ``length.csv``; its row's length is `high`."""
    return f"bin_{low}-{high}"


def bin_of(stratum: str | None) -> tuple[int, int] | None:
    """Shortest and longest length of the bin that a stratum is, or None if it is none."""
    match = _BIN.fullmatch(stratum or "")
    return (int(match.group(1)), int(match.group(2))) if match else None


def _items(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.strip().strip("[]").split(",") if part.strip()]
    if isinstance(value, list | tuple | range):
        return [part for item in value for part in (_items(item) if isinstance(item, str) else [item])]
    return [value]


def _show(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_show(item) for item in list(value)[:20]) + ("…]" if len(value) > 20 else "]")
    return str(value)[:200]
