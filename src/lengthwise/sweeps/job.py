"""One job of a sweep: an operating-system process of its own, whatever starts it.

Lightning's DDP starts its other ranks by re-executing ``sys.argv``. Inside a multirun that would re-run the whole
sweep on every rank, silently; a process that was given one configuration cannot.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lengthwise.process import import_path, python_path
from lengthwise.runs import RunFolder
from lengthwise.runs.atomic import write_atomic

BUSY = 75
"""Exit code of a job whose run another process is at work on (EX_TEMPFAIL)."""

_RANK_VARIABLES = {
    "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT", "PL_GLOBAL_SEED", "PL_SEED_WORKERS", "TORCHELASTIC_RUN_ID",
}  # fmt: skip
_RANK_PREFIXES = ("SLURM_", "SRUN_", "SBATCH_", "PMI_", "PMIX_", "OMPI_", "SUBMITIT_")


@dataclass(frozen=True)
class Job:
    """One cell, ready for any launcher.

    name:   of the run's folder. config: checked. argv: overrides, for the run's record.
    file:   holds the above, and where modules are found, for the process to read. log: takes what it prints.
    """

    name: str
    config: dict[str, Any]
    argv: list[str]
    file: Path
    log: Path

    @property
    def last_words(self) -> Path:
        """Where the job says why it failed."""
        return self.file.with_suffix(".reason")

    @property
    def folder(self) -> RunFolder:
        """The run's folder, which the job makes."""
        return RunFolder(Path(self.config["outputs"]) / "runs" / self.name)

    @property
    def devices(self) -> int:
        """On each node."""
        return int(self.config["trainer"]["devices"])

    @property
    def nodes(self) -> int:
        """Machines."""
        return int(self.config["trainer"].get("nodes", 1))

    @property
    def threads(self) -> int:
        """CPU threads of each rank."""
        return int(self.config["trainer"]["threads"])

    def write(self) -> None:
        """Write `file`, and forget earlier last words.  Raises RunError where that cannot be done."""
        content = {
            "run": self.name,
            "config": self.config,
            "argv": self.argv,
            "last_words": str(self.last_words.resolve()),
            "path": import_path(),  # a component may lie anywhere
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.file, json.dumps(content).encode())
        self.last_words.unlink(missing_ok=True)

    def reason(self) -> str | None:
        """Its last words, if it had any."""
        with contextlib.suppress(OSError):
            return self.last_words.read_text(encoding="utf-8", errors="replace").strip() or None
        return None

    def command(self) -> list[str]:
        """Runs it as a fresh process."""
        return [sys.executable, "-u", "-P", "-m", "lengthwise", "job", str(self.file.resolve())]


def clean_environment() -> dict[str, str]:
    """This process' environment without what would make a job take itself for a rank of something; Python finds us."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in _RANK_VARIABLES and not key.startswith(_RANK_PREFIXES)
    }
    return {**kept, "PYTHONPATH": python_path()}


def describe_exit(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "ended without a word"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
