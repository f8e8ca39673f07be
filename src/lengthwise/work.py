"""What the process of one job does: ``lengthwise job FILE``.

It composes nothing: the file holds the configuration, composed and checked. Its exit code helps to word a reason; the
truth is the run's status.
"""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from lengthwise import lifeline
from lengthwise.errors import LengthwiseError, RunBusy
from lengthwise.sweeps.job import BUSY

FAILED, REFUSED, INTERRUPTED = 1, 2, 130


def run_file(path: str | Path) -> int:
    """Train and measure the run that the job file `path` describes; its exit code.

    0 done, 1 crashed (the traceback is on standard error), 2 refused or failed with a known reason, 75 the run is
    another process's work, 130 interrupted. The reason goes to the file of last words.
    """
    lifeline.watch()
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    try:
        from lengthwise.pipeline import train

        train(job["config"], ["train.py", *job["argv"]])
    except BaseException as error:
        code, reason = _verdict(error)
        print(f"error: {reason}", file=sys.stderr, flush=True)
        if _leads(job["config"]):
            with contextlib.suppress(OSError):
                Path(job["last_words"]).write_text(reason, encoding="utf-8", errors="replace")
        return code
    return 0


def _leads(config: dict[str, Any]) -> bool:
    """Whether this process speaks for the job: a cluster may have started one for each rank."""
    from lengthwise.training.place import place_of

    with contextlib.suppress(LengthwiseError):
        return place_of(config["trainer"]).leads
    return True


def _verdict(error: BaseException) -> tuple[int, str]:
    if isinstance(error, RunBusy):
        return BUSY, str(error)
    if isinstance(error, LengthwiseError):
        return REFUSED, str(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else FAILED
        return code, f"exited with code {error.code} before the end"
    traceback.print_exception(error)
    return FAILED, f"{type(error).__name__}: {error}".removesuffix(": ")
