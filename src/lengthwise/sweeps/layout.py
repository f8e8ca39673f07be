"""For how many steps runs are laid out: those that differ in it are not compared unawares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lengthwise.errors import ConfigError, RunError
from lengthwise.runs.status import horizon_of
from lengthwise.sweeps.record import Entry

_SHOWN = 10


class Layout(NamedTuple):
    """How many steps a run will have, and for how many its schedule is laid out."""

    steps: int
    horizon: int


def refuse_mixture(entries: Sequence[Entry]) -> None:
    """A run is extended, never begun again, where more steps are asked for, and one that has more keeps them. Beside
    runs of exactly what was asked for it would be taken for one of them.

    Raises ConfigError naming such runs, unless all that were asked for the same are alike.
    """
    alike: dict[Layout, dict[Layout, list[Entry]]] = {}
    for entry in entries:
        config = entry.cell.config
        asked = Layout(config["trainer"]["max_steps"], horizon_of(config))
        alike.setdefault(asked, {}).setdefault(_layout(entry, asked), []).append(entry)
    for asked, found in alike.items():
        if len(found) > 1:
            other = [(entry, layout) for layout, some in found.items() if layout != asked for entry in some]
            raise ConfigError(_mixture(other, asked, sum(map(len, found.values()))))


def _layout(entry: Entry, asked: Layout) -> Layout:
    if entry.plan in ("new", "again"):
        return asked
    try:
        status = entry.cell.folder.status()
    except RunError:
        return asked  # the job will say what is wrong with it
    reached = (status.max_steps if status.state == "done" else status.steps) or 0
    return Layout(max(asked.steps, reached), status.horizon or asked.horizon)


def _mixture(other: Sequence[tuple[Entry, Layout]], asked: Layout, total: int) -> str:
    lines = [
        f"{len(other)} of {total} runs would not be comparable with those of {asked.steps} steps:"
        if len(other) < total
        else f"these {total} runs were laid out for different numbers of steps:"
    ]
    lines += [
        f"  {entry.cell.text}: "
        + (f"done with {layout.steps}" if layout.steps > asked.steps else f"laid out for {layout.horizon}")
        + " steps"
        for entry, layout in other[:_SHOWN]
    ]
    if len(other) > _SHOWN:
        lines.append(f"  … and {len(other) - _SHOWN} more")
    lines.append(
        "run.label=… trains all of them apart, overwrite=true trains all anew, sweep.on_other_steps=keep takes "
        "these as they are"
    )
    return "\n".join(lines)
