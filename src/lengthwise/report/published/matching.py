"""Published tables beside our runs: only where task, options, shape of the model, lengths and measure are the same.

What may differ, such as the size of the model or the number of steps, is said row by row as far as the publication
says it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lengthwise.report.collect import Group
from lengthwise.report.comparison import estimate, scores_over
from lengthwise.report.published import SETUP, Beside, Figure, Match, Ours, Reference, Row, Table, published
from lengthwise.report.section import Section
from lengthwise.report.statistics import Estimate
from lengthwise.report.words import listed
from lengthwise.runs import component_name
from lengthwise.runs.lengths import bin_name
from lengthwise.texts import without_place

Configs = Mapping[str, Mapping[str, Any]]
"""The configuration of each group, by its key."""

_OURS = {
    "layers": ("model", "layers"),
    "heads": ("model", "heads"),
    "width": ("model", "width"),
    "dropout": ("model", "dropout"),
    "lr": ("optimizer", "lr"),
    "weight_decay": ("optimizer", "weight_decay"),
    "batch_size": ("data", "batch_size"),
    "steps": ("trainer", "max_steps"),
}
_SLOTS = ("norm", "activation", "optimizer", "schedule")


def beside(section: Section, configs: Configs, tables: Sequence[Table] | None = None) -> list[Beside]:
    """The tables (default: all that are published here) that our runs of this section may be compared with."""
    found = []
    for table in published() if tables is None else tables:
        match = table.matches
        if match is None or tuple(section.setting.train_lengths) != match.trained:
            continue
        groups = [group for group in section.groups if fits(configs.get(group.key), match)]
        cells = {
            group.key: {tested: _ours(section, group, table, tested) for tested in table.tested}
            for group in groups
        }
        columns = [tested for tested in table.tested if any(cells[group.key][tested] for group in groups)]
        groups = [group for group in groups if any(cells[group.key].values())]
        references = [
            Reference(row, figures, _differs(table, row, groups, configs))
            for row in table.rows
            if any(figures := tuple(_figure(row, tested) for tested in columns))
        ]
        if columns and references:
            ours = (
                Ours(group.label, len(group.runs), tuple(cells[group.key][tested] for tested in columns))
                for group in groups
            )
            found.append(Beside(table, tuple(columns), tuple(ours), tuple(references)))
    return found


def fits(config: Mapping[str, Any] | None, match: Match) -> bool:
    """Whether a run has the task with exactly these options, and the model's shape."""
    if not config:
        return False
    task = without_place(config["task"])
    options = {key: value for key, value in task.items() if not key.startswith("_")}
    same_task = task.get("_target_") == match.task and options == dict(match.options)
    return same_task and component_name(config["model"]) == match.model


def _ours(section: Section, group: Group, table: Table, tested: str) -> Estimate | None:
    """Our accuracy over the same lengths: the bin where it was tested, else every length of it."""
    assert table.matches is not None
    bounds = re.fullmatch(r"(\d+)(?:-(\d+))?", tested)
    if bounds is None:
        return None
    low, high = (int(bound or bounds[1]) + table.matches.longer_by for bound in bounds.groups())
    curve = section.bins.get((group.key, table.measure, bin_name(low, high))) if high > low else None
    if curve is not None:
        return curve.estimates[curve.lengths[0]]
    first = -(-low // table.matches.every) * table.matches.every if high > low else low
    lengths = list(range(first, high + 1, table.matches.every))
    scores = scores_over(section, group, lengths, measure=table.measure)
    return estimate(scores) if scores else None


def _figure(row: Row, tested: str) -> Figure | None:
    return next((figure for figure in row.figures if figure.tested == tested), None)


def _differs(table: Table, row: Row, groups: Sequence[Group], configs: Configs) -> tuple[str, ...]:
    """In what the published model and training differ from our runs with the same encoding, or else from all."""
    alike = [group for group in groups if group.encoding == row.pe]
    said = [] if alike or row.pe is None else ["no run here has this encoding"]
    chosen = alike or groups
    unsaid = [name for name in SETUP if name not in row.setup and (name, row.pe) != ("positions", "none")]
    if not row.setup:
        said.append("its model and training are not said with it")
    elif unsaid:
        said.append(f"not said: {', '.join(name.replace('_', ' ') for name in unsaid)}")
    for name, theirs in row.setup.items():
        ours = sorted({_value(configs[group.key], name) for group in chosen})
        if ours != [_text(theirs)]:
            said.append(f"{name.replace('_', ' ')} {_text(theirs)} (here {listed(ours)})")
    seeds = sorted({len(group.runs) for group in chosen})
    if table.seeds is not None and seeds != [table.seeds]:
        said.append(f"{table.seeds} runs (here {listed(seeds)})")
    return tuple(said)


def _value(config: Mapping[str, Any], name: str) -> str:
    if name == "positions":
        return component_name(config.get("positions") or "sequential")
    if name in _SLOTS:
        return component_name(config.get(name))
    part, key = _OURS[name]
    return _text((config.get(part) or {}).get(key))


def _text(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if number and abs(value) < 1e6 else "none" if value is None else str(value)
