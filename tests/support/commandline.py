"""The command line as a user types it: in this process, which is quick, or in one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from lengthwise import cli

QUICK = ["debug=fast", "overwrite=false", "wandb=disabled", "evaluation.lengths=[4,6,12]"]
"""A few steps of everything: overrides that make a run of a second or two."""

SMALL = ["model.width=16", "model.layers=1", "model.heads=2", "data.batch_size=8"]
"""A model that costs nothing to train."""

_TESTS = Path(__file__).resolve().parents[1]


@dataclass
class Result:
    code: int
    out: str
    err: str


def in_process(folder: Path, command: str, *arguments: str) -> Result:
    """``python <command>.py <arguments>`` with `folder` as the working folder, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", [f"{command}.py"]),
    ):
        code = getattr(cli, command)(list(arguments))
    return Result(code, out.getvalue(), err.getvalue())


def in_own_process(
    folder: Path,
    *arguments: str,
    timeout: float = 240,
    environment: Mapping[str, str] | None = None,
    prepare: Callable[[], None] | None = None,
) -> Result:
    """``lengthwise <arguments>`` with `folder` as the working folder, in a process group of its own.

    `prepare` is called in the new process before Python starts there.
    """
    path = os.pathsep.join(filter(None, [str(_TESTS), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "lengthwise", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        start_new_session=True,
        preexec_fn=prepare,
    )
    return Result(done.returncode, done.stdout, done.stderr)
