"""What a study says about how its runs are to be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lengthwise.errors import ConfigError
from lengthwise.report.analysis import Section, analyse
from lengthwise.report.collect import Collection, collect
from lengthwise.report.reading import Reader
from lengthwise.sweeps.grid import expand
from lengthwise.sweeps.record import stated_at_start

ACCURACY, EQUIVARIANCE = "accuracy", "equivariance"
_SEEDS = ("seed", "init_seed", "data_seed")


@dataclass(frozen=True)
class Part:
    """A study, or just some runs, with all that is to be said of them.

    `study` may hold name, question, description, grids, contrasts ``[{a, b, at_length}]`` and shows.
    """

    study: Mapping[str, Any]
    collection: Collection
    sections: list[Section]

    @property
    def title(self) -> str:
        """``Head count`` of a study head_count; "" without a name."""
        return str(self.study.get("name") or "").replace("_", " ").capitalize()


def part_of(
    outputs: str | Path,
    runs: Sequence[str] | None = None,
    study: Mapping[str, Any] | None = None,
    reader: Reader | None = None,
) -> Part:
    """The runs under `outputs` (or the named ones alone), analysed as `study` asks.

    Raises RunError if there is no run at all, ConfigError for something to show that does not exist.
    """
    study = dict(study or {})
    study["stated_at_start"] = stated_at_start(outputs, study.get("name"))
    shown = _shown(study)
    collection = collect(outputs, runs=runs, named=named_choices(study), reader=reader)
    sections = analyse(collection, study)
    for section in sections:
        if ACCURACY not in shown:
            section.leave_out_accuracy()
        if EQUIVARIANCE not in shown:
            section.symmetry = []
    return Part(study, collection, sections)


Studies = Sequence[tuple[Mapping[str, Any], Sequence[str]]]
"""Each study with the names of its run folders; a run may belong to several."""


def parts_of(
    outputs: str | Path,
    *,
    runs: Sequence[str] | None = None,
    study: Mapping[str, Any] | None = None,
    studies: Studies | None = None,
    reader: Reader | None = None,
) -> list[Part]:
    """One part for each of `studies`; without them one of `runs`, see `part_of`."""
    reader = reader or Reader(outputs)
    if studies:
        return [part_of(outputs, own, one, reader) for one, own in studies]
    return [part_of(outputs, runs, study, reader)]


def whole_of(parts: Sequence[Part], outputs: str | Path, reader: Reader) -> Part:
    """The runs of all `parts` as one, each run once; of a setting is shown what one of the parts shows of it."""
    if len(parts) == 1:
        return parts[0]
    names = dict.fromkeys(name for part in parts for name in part.collection.names)
    named = {choice for part in parts for choice in named_choices(part.study)}
    collection = collect(outputs, runs=list(names), named=sorted(named), reader=reader)
    sections = analyse(collection)
    shown = [section for part in parts for section in part.sections]
    for section in sections:
        same = [other for other in shown if other.setting == section.setting]
        if not any(other.measures for other in same):
            section.leave_out_accuracy()
        if not any(other.symmetry for other in same):
            section.symmetry = []
    return Part({}, collection, sections)


def named_choices(study: Mapping[str, Any]) -> list[str]:
    """Keys that the study varies and that every variant's label must therefore name.

    None where the encoding is among them: it is the label, and other choices are said where they are unusual.
    """
    cells = [dict(word.split("=", 1) for word in cell) for cell in expand(study.get("grids") or [], {})]
    keys = dict.fromkeys(key for cell in cells for key in cell if key not in _SEEDS)
    varied = [key for key in keys if len({cell.get(key) for cell in cells}) > 1]
    return [] if "pe" in varied else varied


def _shown(study: Mapping[str, Any]) -> list[str]:
    shown = study.get("shows")
    if shown is None:
        return [ACCURACY, EQUIVARIANCE]
    if not isinstance(shown, list) or not shown or not set(shown) <= {ACCURACY, EQUIVARIANCE}:
        raise ConfigError(
            f"study.shows={shown!r}: give a list of {ACCURACY} and {EQUIVARIANCE}, or leave it out"
        )
    return shown
