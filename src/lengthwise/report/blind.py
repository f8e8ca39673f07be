"""Baselines as lines of a figure: one that all variants share is one line, another names those it holds for."""

from __future__ import annotations

from lengthwise.report.collect import Group
from lengthwise.report.section import BEST_BLIND, Section
from lengthwise.report.words import listed

Line = tuple[str, dict[int, float]]
"""A name, and length -> accuracy."""

_NOT_BLIND = {"window": "window of 21 symbols, not blind to order"}
"""Baselines that use the order of the input and are no part of the best blind rule (``tasks.contract``)."""

_AGREE = 1e-9


def baseline_lines(section: Section) -> list[Line]:
    """Baselines to draw; those that agree everywhere are one line with both names."""
    rules = [name for of_group in section.baselines.values() for name in of_group if name != BEST_BLIND]
    return _lines(section, list(dict.fromkeys(rules)) or [BEST_BLIND])


def best_blind_lines(section: Section) -> list[Line]:
    """The best blind rule, more than one where variants are compared with different ones."""
    return _lines(section, [BEST_BLIND])


def _lines(section: Section, names: list[str]) -> list[Line]:
    compared = [group for group in section.groups if section.baselines.get(group.key)]
    merged: dict[tuple[tuple[tuple[int, float], ...], str], list[str]] = {}
    for name in names:
        for at, groups in _apart(section, compared, name):
            who = "" if len(groups) == len(compared) else f" ({listed(group.label for group in groups)})"
            merged.setdefault((tuple(sorted(at.items())), who), []).append(worded(name))
    return [(f"{' = '.join(found)}{who}", dict(at)) for (at, who), found in merged.items()]


def _apart(section: Section, groups: list[Group], name: str) -> list[tuple[dict[int, float], list[Group]]]:
    """The baseline's values, with the groups that have them: the lengths of those that do not contradict joined."""
    found: list[tuple[dict[int, float], list[Group]]] = []
    for group in groups:
        own = section.baselines[group.key].get(name, {})
        if not own:
            continue
        for at, members in found:
            if all(abs(at.get(length, value) - value) < _AGREE for length, value in own.items()):
                at |= own
                members.append(group)
                break
        else:
            found.append((dict(own), [group]))
    return found


def worded(name: str) -> str:
    """``bag optimal``; of a rule that is not blind to the order of the input that it is not."""
    return "best blind rule" if name == BEST_BLIND else _NOT_BLIND.get(name, name.replace("_", " "))
