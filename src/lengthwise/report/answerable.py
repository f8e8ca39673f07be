"""Before a study runs: whether its runs could answer what it says that it will compare."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from lengthwise.report.labels import labels_of
from lengthwise.report.study import named_choices
from lengthwise.runs import component_name, format_lengths, variant_hash
from lengthwise.sweeps.contrasts import Stated, stated_contrasts
from lengthwise.texts import without_place

_SHOWN = 12


@dataclass(frozen=True)
class _Setting:
    """A task and its trained lengths: the variants by label, their encodings, the lengths that all are tested at."""

    labels: Mapping[str, str]  # label -> variant
    encodings: Mapping[str, str]  # variant -> encoding
    tested: frozenset[int]
    longest: int | None
    """At which variants are compared where no length is stated; None = over the trained lengths."""

    def named(self, name: str) -> list[str]:
        """The variants that a contrast may mean by `name`."""
        if name in self.labels:
            return [self.labels[name]]
        return [variant for variant, encoding in self.encodings.items() if encoding == name]


def unanswerable(study: Mapping[str, Any], configs: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """What is wrong with contrasts that runs with these configurations leave without an answer, by their number.

    A name that no variant has or several have, a length that is not tested, a question that is asked twice.
    """
    settings = _settings(study, configs)
    asked: dict[Any, int] = {}
    wrong = {}
    for number, contrast in enumerate(stated_contrasts(study)):
        where = f"study.contrasts[{number}]"
        if why := _why(contrast, settings, where):
            wrong[number] = why
            continue
        for at, setting in enumerate(settings):
            a, b = setting.named(contrast.a), setting.named(contrast.b)
            if len(a) == len(b) == 1:
                length = contrast.at_length or setting.longest
                first = asked.setdefault((at, frozenset((*a, *b)), length), number)
                if first != number:
                    wrong[number] = (
                        f"{where} compares the same as study.contrasts[{first}], since without at_length it is the "
                        f"longest length{'' if length is None else f', {length}'}: state each comparison once"
                    )
    return wrong


def _why(contrast: Stated, settings: Sequence[_Setting], where: str) -> str:
    """Why no setting answers it, or ""."""
    for key, name in (("a", contrast.a), ("b", contrast.b)):
        if any(len(setting.named(name)) == 1 for setting in settings):
            continue
        labels = list(dict.fromkeys(label for setting in settings for label in setting.labels))
        several = [label for s in settings for label, one in s.labels.items() if one in s.named(name)]
        if several:
            return f"{where}.{key}={name!r} may be any of {_listed(several)}: give the whole label"
        near = get_close_matches(name, labels, n=1, cutoff=0.5)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        return f"{where}.{key}={name!r}: no variant is called that; there are {_listed(labels)}{meant}"
    both = [s for s in settings if len(s.named(contrast.a)) == len(s.named(contrast.b)) == 1]
    if not both:
        return f"{where}: {contrast.a!r} and {contrast.b!r} share no task and trained lengths"
    if contrast.at_length and not any(contrast.at_length in setting.tested for setting in both):
        tested = format_lengths(both[0].tested)
        return f"{where}.at_length={contrast.at_length}: not tested; evaluation.lengths has {tested}"
    if [setting for setting in both if setting.named(contrast.a) != setting.named(contrast.b)]:
        return ""
    return f"{where}: {contrast.a!r} and {contrast.b!r} are one variant; name two"


def _settings(study: Mapping[str, Any], configs: Iterable[Mapping[str, Any]]) -> list[_Setting]:
    apart: dict[str, list[Mapping[str, Any]]] = {}
    for config in configs:
        key = json.dumps([without_place(config["task"]), config["data"]["lengths"]], default=str)
        apart.setdefault(key, []).append(config)
    return [_setting(own, named_choices(study)) for own in apart.values()]


def _setting(configs: Sequence[Mapping[str, Any]], named: Sequence[str]) -> _Setting:
    variants = {variant_hash(config): dict(config) for config in configs}
    tested = [frozenset(config["evaluation"]["lengths"]) for config in configs]
    shared = frozenset.intersection(*tested)
    trained_only = max(map(max, tested)) <= max(configs[0]["data"]["lengths"])
    return _Setting(
        {label: variant for variant, label in labels_of(variants, named).items()},
        {variant: component_name(config["pe"]) for variant, config in variants.items()},
        shared,
        None if trained_only else max(shared, default=None),
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
