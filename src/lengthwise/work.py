"""What the process of one job does: ``lengthwise job FILE``.

It composes nothing: the file holds the configuration, composed and checked. Its exit code helps to word a reason; the
truth is the run's status.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from lengthwise import lifeline
from lengthwise.console import never_fail
from lengthwise.errors import LengthwiseError, RunBusy, RunError
from lengthwise.process import adopt, hear_interrupts
from lengthwise.runs import RunFolder
from lengthwise.runs.identity import source_hash, targets
from lengthwise.sweeps.job import BUSY

FAILED, REFUSED, INTERRUPTED = 1, 2, 130


def run_file(path: str | Path) -> int:
    """Train and measure the run that the job file `path` describes; its exit code.

    0 done, 1 crashed (the traceback is on standard error), 2 refused or failed with a known reason, 75 the run is
    another process's work, 130 interrupted. The reason goes to the file of last words.
    """
    lifeline.watch()
    hear_interrupts()  # it is how a launcher asks for an end
    never_fail()
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    adopt(job["path"])
    config = job["config"]
    try:
        _refuse_another_run(config, job["run"])
        from lengthwise.pipeline import train

        train(config, ["train.py", *job["argv"]])
    except BaseException as error:
        code, reason = _verdict(error, config)
        print(f"error: {reason}", file=sys.stderr, flush=True)
        if _leads(config):
            with contextlib.suppress(OSError):
                Path(job["last_words"]).write_text(reason, encoding="utf-8", errors="replace")
        return code
    return 0


def _refuse_another_run(config: dict[str, Any], name: str) -> None:
    """Raises RunError where the run is not the one that the sweep waits for, in the folder `name`."""
    found = RunFolder.locate(config["outputs"], config).name
    if found != name:
        outside = ", ".join(target for target in targets(config) if source_hash([target]) is not None)
        what = f"the source of {outside}" if outside else "the run's folder"
        raise RunError(
            f"{what} changed since the sweep was composed: it is now run {found}, not {name}; "
            "the same command again begins with what there is now"
        )


def _leads(config: dict[str, Any]) -> bool:
    """Whether this process speaks for the job: a cluster may have started one for each rank."""
    from lengthwise.training.place import place_of

    with contextlib.suppress(LengthwiseError):
        return place_of(config["trainer"]).leads
    return True


def _verdict(error: BaseException, config: dict[str, Any]) -> tuple[int, str]:
    if isinstance(error, RunBusy):
        return BUSY, str(error)
    if isinstance(error, LengthwiseError):
        return REFUSED, str(error)
    if isinstance(error, KeyboardInterrupt | SystemExit) and (why := _interruption(config)):
        return INTERRUPTED, why  # who asked, and why
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if isinstance(error, SystemExit):  # its code means nothing to a launcher, whichever it is
        return FAILED, f"exited with code {error.code} before the end"
    traceback.print_exception(error)
    return FAILED, f"{type(error).__name__}: {error}".removesuffix(": ")


def _interruption(config: dict[str, Any]) -> str | None:
    """What this process entered in the run's status as the reason of its interruption."""
    with contextlib.suppress(LengthwiseError):
        status = RunFolder.locate(config["outputs"], config).status()
        if status.state == "interrupted" and (status.owner or {}).get("pid") == os.getpid():
            return status.reason
    return None
