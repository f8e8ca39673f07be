"""What can be known of a sweep before its first job starts: what is done, what cannot be, how large it all is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from lengthwise import tracking
from lengthwise.errors import ConfigError, RunError
from lengthwise.runs.tested import is_complete
from lengthwise.sweeps.cells import Cell
from lengthwise.sweeps.job import clean_environment
from lengthwise.sweeps.launcher import Launcher
from lengthwise.sweeps.record import DONE, Entry
from lengthwise.sweeps.warm import WarmStart

_SHOWN = 10


def plan(entry: Entry) -> None:
    """Find out what there is to do for a cell, from its run's folder."""
    folder, config = entry.cell.folder, entry.cell.config
    if is_complete(folder, config):
        entry.plan, entry.state = "nothing", DONE
        return
    entry.plan = "new"
    if config["overwrite"] or not folder.exists:
        return
    try:
        status = folder.status()
    except RunError:
        return  # the job will say what is wrong with it
    if status.state == "done" and (status.max_steps or 0) >= config["trainer"]["max_steps"]:
        entry.plan = "measures"
    elif folder.last.is_file():
        entry.plan = "resumes"
    elif status.state == "failed":
        entry.plan = "again"


class _Layout(NamedTuple):
    """How many steps a run will have, and for how many its schedule is laid out."""

    steps: int
    horizon: int


def refuse_mixture(entries: Sequence[Entry]) -> None:
    """A run is extended, never begun again, where more steps are asked for, and one that has more keeps them. Beside
    runs of exactly what was asked for it would be taken for one of them.

    Raises ConfigError naming such runs, unless all that were asked for the same are alike.
    """
    alike: dict[_Layout, dict[_Layout, list[Entry]]] = {}
    for entry in entries:
        steps = entry.cell.config["trainer"]["max_steps"]
        asked = _Layout(steps, entry.cell.config["schedule"].get("steps") or steps)
        alike.setdefault(asked, {}).setdefault(_layout(entry, asked), []).append(entry)
    for asked, found in alike.items():
        if len(found) > 1:
            other = [(entry, layout) for layout, some in found.items() if layout != asked for entry in some]
            raise ConfigError(_mixture(other, asked, sum(map(len, found.values()))))


def _layout(entry: Entry, asked: _Layout) -> _Layout:
    if entry.plan in ("new", "again"):
        return asked
    try:
        status = entry.cell.folder.status()
    except RunError:
        return asked  # the job will say what is wrong with it
    reached = (status.max_steps if status.state == "done" else status.steps) or 0
    return _Layout(max(asked.steps, reached), status.horizon or asked.horizon)


def _mixture(other: Sequence[tuple[Entry, _Layout]], asked: _Layout, total: int) -> str:
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


def inspect(entries: Sequence[Entry], launcher: Launcher) -> list[tuple[Entry, str]]:
    """Have a warm child build each cell's model in shape only; enters `parameters`, returns the cells that cannot be.

    Raises RunError where the warm server fails.
    """
    with TemporaryDirectory(prefix="lengthwise-") as scratch:
        try:
            return _ask(entries, launcher.warm_start, Path(scratch))
        finally:
            if not launcher.warm:  # it would be idle for as long as the jobs take
                launcher.warm_start.end_server()


def _ask(entries: Sequence[Entry], warm_start: WarmStart, folder: Path) -> list[tuple[Entry, str]]:
    file = folder / "inspection.json"
    file.write_text(json.dumps([entry.cell.config for entry in entries]), encoding="utf-8")
    server, environment = warm_start.server(), {**clean_environment(), **warm_start.lifeline.environment}
    server.ask("inspection", "inspect", file, folder / "inspection.log", environment)
    code = None
    while code is None:
        for answer in server.answers(wait=0.2):
            if answer.get("ended") == "inspection":
                code = answer["code"]
        if not server.is_alive:
            raise server.failure()
    answers = file.with_suffix(".answers").read_text(encoding="utf-8").splitlines()
    if code or len(answers) != len(entries):
        raise RunError(f"the models could not be inspected: see {folder / 'inspection.log'}")
    illegal = []
    for entry, line in zip(entries, answers, strict=True):
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            illegal.append((entry, found["error"]))
        else:
            entry.parameters = found["parameters"]
    return illegal


def refuse_unreachable(cells: Sequence[Cell]) -> None:
    """Raises ConfigError where a cell is to be shown in W&B online, and cannot be. One account serves them all."""
    online = [cell.config["wandb"] for cell in cells if cell.config["wandb"]["mode"] == "online"]
    if online:
        tracking.refuse_unreachable(online[0])


def refuse_illegal(illegal: Sequence[tuple[str, str]], total: int, *, skip: bool) -> None:
    """Raises ConfigError naming the cells (text, reason) that cannot be, unless `skip` and others remain."""
    if not illegal or (skip and len(illegal) < total):
        return
    reasons = {reason for _, reason in illegal}
    if len(illegal) == total and len(reasons) == 1:
        raise ConfigError(reasons.pop())
    lines = [reason if reason.startswith(text) else f"{text}: {reason}" for text, reason in illegal[:_SHOWN]]
    if len(illegal) > _SHOWN:
        lines.append(f"… and {len(illegal) - _SHOWN} more")
    head = f"{len(illegal)} of {total} cells cannot be:"
    end = (
        [] if len(illegal) == total else ["(sweep.on_illegal=skip leaves such cells out and runs the others)"]
    )
    raise ConfigError((" " if len(lines) == 1 else "\n  ").join([head, *lines, *end]))
