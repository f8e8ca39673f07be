"""``status.json``: the one truth about the state of a run.

It is replaced atomically, and written last. A run is *done* when this file says so, whatever an exit code said.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from lengthwise.errors import RunError
from lengthwise.runs.atomic import explain, write_atomic
from lengthwise.runs.identity import run_hash, variant_hash
from lengthwise.runs.lock import silence_of
from lengthwise.runs.owner import Owner

FORMAT = 1
STATES = ("running", "done", "failed", "interrupted")
LOCK = "run.lock"

_TYPES: dict[str, tuple[type, ...]] = {
    "state": (str,), "reason": (str, type(None)), "steps": (int,), "max_steps": (int, type(None)),
    "horizon": (int, type(None)), "started": (str, type(None)), "updated": (str, type(None)),
    "owner": (dict, type(None)), "evaluations": (dict,), "results": (dict,), "hash": (str,), "variant": (str,),
}  # fmt: skip


@dataclass
class Status:
    """Where a run stands.

    state:       running, done, failed or interrupted.
    reason:      why it failed or was interrupted, or None.
    steps:       optimizer steps done; `max_steps` were asked for; the schedule is laid out for `horizon`.
    started, updated: ISO 8601, UTC.
    owner:       the process that runs or ran it.
    evaluations: evaluation id → lengths that are in ``length.csv``.
    results:     the headline figures, by name.
    hash, variant: identity with and without the seeds.
    """

    state: str = "running"
    reason: str | None = None
    steps: int = 0
    max_steps: int | None = None
    horizon: int | None = None
    started: str | None = None
    updated: str | None = None
    owner: dict[str, Any] | None = None
    evaluations: dict[str, list[int]] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    hash: str = ""
    variant: str = ""

    @classmethod
    def first(cls, config: Mapping[str, Any], max_steps: int, horizon: int | None = None) -> Status:
        """The status of a run that is about to start for the first time."""
        return cls(max_steps=max_steps, horizon=horizon, hash=run_hash(config), variant=variant_hash(config))


def horizon_of(config: Mapping[str, Any]) -> int:
    """For how many steps the schedule of a run is laid out that starts with this configuration."""
    return config["schedule"].get("steps") or config["trainer"]["max_steps"]


def now() -> str:
    """The time, ISO 8601, UTC, whole seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def write_status(path: Path, status: Status) -> None:
    """Replace `path` atomically; `status.updated` becomes now.

    Raises RunError (no space left, …), leaving the old file as it was; ValueError for an unknown state.
    """
    if status.state not in STATES:
        raise ValueError(f"state {status.state!r}: one of {', '.join(STATES)}")
    status.updated = now()
    content = {"format": FORMAT, **asdict(status)}
    write_atomic(path, json.dumps(finite(content), indent=2, allow_nan=False).encode() + b"\n")


def read_status(path: Path) -> Status:
    """The status in `path`; a run whose process is gone without a word is reported as interrupted.

    Raises RunError, naming the file and the problem, when it is missing, damaged or of a newer format.
    """
    status = _parse(path)
    if status.state == "running":
        owner = Owner.from_dict(status.owner)
        if owner is None or not owner.is_alive(lambda: _silence(path)):
            status.state = "interrupted"
            status.reason = f"{owner or 'its process'} ended without a word (killed, or out of memory)"
    return status


def finite(value: Any) -> Any:
    """`value` in plain JSON types; a number that is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if hasattr(value, "item"):  # a numpy or torch scalar
        return finite(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def _silence(path: Path) -> float:
    """A sign of life is a touched lock or a written status, whichever came last."""
    return min(silence_of(path), silence_of(path.parent / LOCK))


def _parse(path: Path) -> Status:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise RunError(f"{path.parent} has no {path.name}. overwrite=true starts the run afresh.") from None
    except OSError as error:
        raise RunError(f"cannot read {path}: {explain(error)}.") from error
    except (ValueError, RecursionError):
        raise _damaged(path, "it is not whole JSON") from None
    if not isinstance(content, dict) or type(content.get("format")) is not int:
        raise _damaged(path, "it names no format")
    if content["format"] > FORMAT:
        raise RunError(
            f"{path} has format {content['format']}, written by a newer Lengthwise; this one reads format {FORMAT}. "
            "Upgrade Lengthwise."
        )
    for name, types in _TYPES.items():
        value = content.get(name)
        if (name in content and not isinstance(value, types)) or (isinstance(value, bool)):
            raise _damaged(path, f"{name} is {value!r:.80}")
    if content.get("state") not in STATES:
        raise _damaged(path, f"state is {content.get('state')!r:.80}")
    return Status(**{f.name: content[f.name] for f in fields(Status) if f.name in content})


def _damaged(path: Path, why: str) -> RunError:
    return RunError(
        f"{path} is damaged ({why}). Delete the folder, or run this one again with overwrite=true."
    )
