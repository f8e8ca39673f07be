"""What can be known of a sweep before its first job starts: what is done, what cannot be, how large it all is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
