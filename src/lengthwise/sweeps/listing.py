"""The state of each sweep on disk, as the runs themselves tell it now."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lengthwise.errors import ConfigError, RunError
from lengthwise.runs import RunFolder
from lengthwise.sweeps.display import aligned, say
from lengthwise.sweeps.record import DONE, FAILED, INTERRUPTED, RUNNING, WAITING, records

STATES = (DONE, RUNNING, FAILED, INTERRUPTED, WAITING)


def cell_state(outputs: str | Path, cell: dict[str, Any]) -> tuple[str, str | None, int]:
    """State, reason and steps of a recorded cell, as its run says; a failure that the sweep saw since stands."""
    try:
        status = RunFolder(Path(outputs) / "runs" / cell["run"]).status()
    except RunError:
        return (FAILED, cell["reason"], 0) if cell["state"] == FAILED else (WAITING, None, 0)
    if (
        cell["state"] == FAILED
        and status.state != RUNNING
        and (status.updated or "") <= (cell["ended"] or "")
    ):
        return FAILED, cell["reason"], status.steps
    if status.state == DONE and (status.max_steps or 0) < cell["max_steps"]:
        return WAITING, None, status.steps  # done, and asked for more since
    return status.state, status.reason, status.steps


def describe(outputs: str | Path, content: dict[str, Any]) -> dict[str, Any]:
    """A record with the present state of each cell, in plain containers."""
    cells = []
    for cell in content["cells"]:
        state, reason, steps = cell_state(outputs, cell)
        cells.append({**cell, "state": state, "reason": reason, "steps": steps})
    return {**content, "cells": cells}


def list_sweeps(outputs: str, name: str | None, *, as_json: bool = False) -> int:
    """Print every sweep under `outputs`, or the cells of the one that `name` begins.

    Raises ConfigError where no sweep, or more than one, is called so.
    """
    found = list(records(outputs))
    if name is not None:
        named = [content for content in found if content["id"].startswith(name)]
        if len(named) != 1:
            known = ", ".join(content["id"] for content in named or found) or f"there is none under {outputs}"
            raise ConfigError(f"sweep {name}: {'several are' if named else 'none is'} called so: {known}")
        found = named
    shown = [describe(outputs, content) for content in found]
    if as_json:
        say(json.dumps(shown if name is None else shown[0], indent=1))
    elif not shown:
        say(f"no sweep under {outputs} yet: python train.py -m pe=none,rotary seed=0,1")
    elif name is None:
        _print_all(shown)
    else:
        _print_one(shown[0])
    return 0


def _print_all(sweeps: Sequence[dict[str, Any]]) -> None:
    rows = [("sweep", "cells", *STATES, "last touched (UTC)")]
    for content in sweeps:
        count = Counter(cell["state"] for cell in content["cells"])
        numbers = [str(count[state]) if count[state] else "·" for state in STATES]
        rows.append(
            (content["id"], str(len(content["cells"])), *numbers, str(content.get("updated", ""))[:16])
        )
    for line in aligned(rows, right=range(1, 2 + len(STATES))):
        say(line)


def _print_one(content: dict[str, Any]) -> None:
    say(f"{content['id']}: python train.py {shlex.join(content['command'])}")
    rows = [("state", "steps", "cell", "run")]
    for cell in content["cells"]:
        text = " ".join(cell["overrides"] if cell.get("axes") is None else cell["axes"])
        rows.append((cell["state"], str(cell["steps"]), text, cell["run"]))
    for line in aligned(rows, right=(1,)):
        say(line)
    for cell, (state, *_) in zip(content["cells"], rows[1:], strict=True):
        if state in (FAILED, INTERRUPTED):
            say(f"{state}: {cell['run']}: {cell['reason'] or 'no reason is known'}")
    for cell in content.get("illegal") or []:
        say(f"left out: {' '.join(cell['overrides'])}: {cell['reason']}")
