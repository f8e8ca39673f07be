"""What a sweep has given to Slurm, noted beside submitit's files in ``outputs/sweeps/<sweep>/slurm/``.

A file for each job or array, of its name, written before it is submitted and completed afterwards: a launching process
that is killed at any moment leaves nothing in Slurm's queue that the next one would not find.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lengthwise.runs.atomic import write_atomic
from lengthwise.runs.owner import Owner
from lengthwise.sweeps import slurm_client
from lengthwise.sweeps.job import Job

NAME = "lengthwise"
"""What the names of our jobs begin with."""


@dataclass(frozen=True)
class Earlier:
    """A job that an earlier start left in Slurm.

    folder: of submitit's files. file: what it runs. ours: nobody else waits for it any more.
    """

    id: str
    folder: Path
    file: Path
    ours: bool


def write_note(folder: Path, name: str, jobs: Sequence[Job], ids: Sequence[str] = ()) -> None:
    """That `jobs`, in this order, are the array `name`, or the only one the job `name`.

    Raises RunError where that cannot be written.
    """
    note = {
        "owner": Owner.current().to_dict(),
        "runs": [job.name for job in jobs],
        "files": [str(job.file.resolve()) for job in jobs],
        "ids": list(ids),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / f"{name}.json", json.dumps(note, indent=1).encode())


def find_earlier(sweeps: Path, known: set[str]) -> dict[str, Earlier]:
    """What any of the `sweeps` has noted and Slurm still has, by the name of the run; not the ids that are `known`.

    Raises SlurmSilent.
    """
    notes = list(sweeps.glob(f"*/slurm/{NAME}-*.json"))
    if not notes:
        return {}
    live = {(one.name, one.place): one for one in slurm_client.jobs().values() if not one.has_ended}
    found: dict[str, Earlier] = {}
    for path in notes:
        note = _read(path)
        owner = Owner.from_dict(note["owner"])
        ours = owner is None or not owner.is_alive(lambda: math.inf)
        for place, (run, file) in enumerate(zip(note["runs"], note["files"], strict=True)):
            one = live.get((path.stem, place))
            if one is not None and one.id not in known:
                found[run] = Earlier(one.id, path.parent, Path(file), ours)
    return found


def is_same(file: Path, job: Job) -> bool:
    """Whether the job file of an earlier start asks for what `job` asks, but for how it is logged and swept."""
    try:
        earlier = json.loads(file.read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError):
        return False
    now = json.loads(json.dumps(job.config))
    return all(earlier.get(key) == now.get(key) for key in {*earlier, *now} - {"sweep", "wandb"})


def _read(path: Path) -> dict[str, Any]:
    """Empty where it is no note of ours."""
    nothing: dict[str, Any] = {"owner": None, "runs": [], "files": []}
    with suppress(OSError, ValueError):
        note = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(note, dict) and nothing.keys() <= note.keys():
            return note
    return nothing
