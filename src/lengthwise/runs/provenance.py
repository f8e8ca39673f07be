"""``provenance.json``: with what, and where, a run was made. One entry per start."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lengthwise.errors import RunError
from lengthwise.runs.atomic import explain, write_atomic
from lengthwise.runs.identity import RESULTS_VERSION
from lengthwise.runs.owner import Owner
from lengthwise.runs.status import finite, now

FORMAT = 1
PACKAGES = (
    "lengthwise", "torch", "pytorch-lightning", "torchmetrics", "numpy", "hydra-core", "omegaconf", "wandb",
    "scikit-learn",
)  # fmt: skip
LONGEST_DIFF = 200_000
"""Characters of uncommitted changes that are kept."""

_SECRET = re.compile(r"(?i)([\w.+~-]*(?:api_?key|token|password|secret)[\w.-]*=).+")


def describe_start(
    *,
    argv: Sequence[str] | None = None,
    precision: str | None = None,
    devices: Any = None,
    device: str | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """What there is to know about this process; what only the trainer knows is passed in."""
    command = list(sys.argv if argv is None else argv)
    return {
        "time": now(),
        "argv": [Path(command[0]).name, *(_SECRET.sub(r"\1…", argument) for argument in command[1:])]
        if command
        else [],
        "owner": Owner.current().to_dict(),
        "results_version": RESULTS_VERSION,
        "git": git_state(),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "platform": platform.platform(),
        "cpu": {"model": _cpu_model(), "count": os.cpu_count(), "usable": _usable_cpus()},
        "memory_bytes": _memory(),
        "threads": threads,
        "precision": precision,
        "devices": devices,
        "device": device,
    }


def record_start(path: Path, start: dict[str, Any]) -> None:
    """Append `start` to the starts in `path`; a damaged file is set aside, not lost.

    Raises RunError if it cannot be written.
    """
    starts = []
    if path.exists():
        try:
            starts = read_starts(path)
        except RunError:
            try:
                os.replace(path, path.with_name(f"{path.stem}.damaged{path.suffix}"))
            except OSError as error:
                raise RunError(f"cannot write {path}: {explain(error)}.") from error
    content = {"format": FORMAT, "starts": [*starts, finite(start)]}
    write_atomic(path, json.dumps(content, indent=2, allow_nan=False).encode() + b"\n")


def read_starts(path: Path) -> list[dict[str, Any]]:
    """Every start of the run, first to last. Raises RunError if the file is missing or damaged."""
    try:
        content = json.loads(path.read_bytes())
        starts = content["starts"]
        if not isinstance(starts, list) or not all(isinstance(start, dict) for start in starts):
            raise TypeError
    except OSError as error:
        raise RunError(f"cannot read {path}: {explain(error)}.") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RunError(f"{path} is damaged.") from None
    return starts


def only_tests(start: Mapping[str, Any]) -> bool:
    """Whether a start tested a run that had been made before, so that its hardware and precision made nothing."""
    argv = start.get("argv")
    return bool(isinstance(argv, list) and argv and argv[0] in ("evaluate.py", "certify"))


def git_state(package: Path | None = None) -> dict[str, Any] | None:
    """Commit and uncommitted changes of the checkout Lengthwise runs from, else of the working folder's, else None."""
    package = package or Path(__file__).parents[1]
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is not None:
        folder, whose = package, "lengthwise"
    elif _git(Path.cwd(), "rev-parse", "--show-toplevel") is not None:
        folder, whose = Path.cwd(), "working folder"
    else:
        return None
    top = Path((_git(folder, "rev-parse", "--show-toplevel") or str(folder)).strip())
    commit = (_git(top, "rev-parse", "HEAD") or "").strip() or None
    diff = _git(top, "diff", "--no-color", "--no-ext-diff", *(["HEAD"] if commit else [])) or ""
    untracked = (_git(top, "ls-files", "--others", "--exclude-standard") or "").splitlines()
    return {
        "of": whose,
        "commit": commit,
        "dirty": bool(diff or untracked),
        "diff": diff[:LONGEST_DIFF],
        "diff_cut": len(diff) > LONGEST_DIFF,
        "untracked": untracked[:50],
    }


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, or None if it fails, hangs or is not there."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            timeout=10,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.decode("utf-8", "replace") if answer.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        match = re.search(
            r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(errors="replace"), re.MULTILINE
        )
    except OSError:
        match = None
    return match.group(1) if match else platform.processor() or platform.machine()


def _usable_cpus() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
