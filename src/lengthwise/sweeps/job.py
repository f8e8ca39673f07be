"""One job of a sweep: an operating-system process of its own.

Lightning's DDP starts its other ranks by re-executing ``sys.argv``. Inside a multirun that would re-run the whole
sweep on every rank, silently; a process that was given only its own overrides cannot.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

_RANK_VARIABLES = {
    "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT", "PL_GLOBAL_SEED", "PL_SEED_WORKERS", "TORCHELASTIC_RUN_ID",
}  # fmt: skip
_GRACE_SECONDS = 10.0

ONE_OF_MANY = "LENGTHWISE_ONE_OF_MANY"
"""Set in the environment of a job, which then sums itself up in a line: the file for its last words if it fails."""


def run_job(overrides: Sequence[str], options: Sequence[str] = ()) -> tuple[int, str]:
    """Train one cell in a fresh process that shares our terminal; its exit code, and in words why it is not 0.

    On Ctrl-C the job, which gets the signal too, may mark its run interrupted; after a grace period it is killed.
    """
    environment = {key: value for key, value in os.environ.items() if key not in _RANK_VARIABLES}
    command = [sys.executable, "-m", "lengthwise", "train", *options, *overrides, "hydra.mode=RUN"]
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", errors="replace") as last_words:
        process = subprocess.Popen(command, env={**environment, ONE_OF_MANY: last_words.name})
        code = _wait(process)
        return code, last_words.read().strip() or _describe(code)


def _wait(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait()
    except BaseException:
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise


def _describe(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
