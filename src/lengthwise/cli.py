"""The command line: parse, refuse, hand over. What a command needs is imported only when it runs."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from lengthwise import __version__, outside, usage
from lengthwise.console import never_fail
from lengthwise.errors import LengthwiseError

USAGE_ERROR = 2
FAILED = 1
INTERRUPTED = 130


def main() -> int:
    """``lengthwise COMMAND …``."""
    never_fail()
    name, arguments = (sys.argv[1] if len(sys.argv) > 1 else "--help"), sys.argv[2:]
    commands: dict[str, Any] = {
        "train": train,
        "evaluate": evaluate,
        "report": report,
        "scorecard": scorecard,
        "certify": certify,
        "check": check,
        "tasks": tasks,
        "show": show,
        "runs": runs,
        "sweeps": sweeps,
        "workspace": workspace,
        "demo": demo,
    }
    commands |= {"job": job}
    if name in ("-h", "--help", "help"):
        print(usage.COMMANDS, end="")
        return 0
    if name in ("-V", "--version"):
        print(f"lengthwise {__version__}")
        return 0
    if name not in commands:
        print(
            f"error: no command {name!r}; commands: {', '.join(c for c in commands if c != 'job')}",
            file=sys.stderr,
        )
        return USAGE_ERROR
    return commands[name](arguments)


def train(arguments: Sequence[str] | None = None) -> int:
    """``train.py``: one run, a sweep (-m) or a study."""
    return _command("train", arguments)


def evaluate(arguments: Sequence[str] | None = None) -> int:
    """``evaluate.py``: a finished run at other lengths."""
    return _command("evaluate", arguments)


def report(arguments: Sequence[str] | None = None) -> int:
    """``report.py``: every run on one page."""
    return _command("report", arguments)


def sweeps(arguments: Sequence[str] | None = None) -> int:
    """``lengthwise sweeps``: the state of each sweep on disk."""
    return _command("sweeps", arguments)


def workspace(arguments: Sequence[str] | None = None) -> int:
    """``lengthwise workspace``: a saved view on W&B's web page."""
    return _command("workspace", arguments)


def scorecard(arguments: Sequence[str] | None = None) -> int:
    """``lengthwise scorecard``: encodings side by side, untrained."""
    return _command("scorecard", arguments)


def certify(arguments: Sequence[str] | None = None) -> int:
    """``lengthwise certify``: which symmetries a model keeps."""
    return _command("certify", arguments)


def check(arguments: Sequence[str] | None = None) -> int:
    """``lengthwise check``: whether a component does what it must."""
    return _command("check", arguments)


def runs(arguments: Sequence[str] | None = None) -> int:
    """``lengthwise runs``: the runs on disk."""
    return _command("runs", arguments)


def tasks(arguments: Sequence[str] | None = None) -> int:
    """``lengthwise tasks``: the tasks and their cards."""
    return _command("tasks", arguments)


def show(arguments: Sequence[str] | None = None) -> int:
    """``lengthwise show``: sequences of a task."""
    return _command("show", arguments)


def job(arguments: Sequence[str]) -> int:
    """``lengthwise job FILE``: what a launcher starts; not for people."""
    from lengthwise.work import run_file

    return run_file(*arguments)


def demo(arguments: Sequence[str] | None = None) -> int:
    """``make demo``: the quick studies, end to end."""
    return _command("demo", arguments)


def _command(name: str, arguments: Sequence[str] | None) -> int:
    """Run a command; errors meant for the user are one message, without a traceback, and exit code 2."""
    never_fail()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _working_folder_importable(), outside.restored():
            folders, rest = outside.named_in(given)
            for folder in folders:
                outside.use(folder)
            if {"-h", "--help"} & set(given):
                print(getattr(usage, name)(), end="")
                return 0
            from lengthwise import commands  # Hydra, and all that follows from it

            return getattr(commands, name)(given if name == "train" else rest)
    except LengthwiseError as error:
        return _fail(str(error), USAGE_ERROR)
    except KeyboardInterrupt:
        return _fail("interrupted; the same command again goes on from the last checkpoint", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        return _fail(f"{type(error).__name__}: {error}", FAILED)


@contextlib.contextmanager
def _working_folder_importable() -> Iterator[None]:
    """A component may lie there, however we were started; last, so that it stands in for nothing."""
    here = os.getcwd()
    if here in map(os.path.abspath, sys.path):
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)


def _fail(message: str, code: int) -> int:
    if os.environ.get("LENGTHWISE_TRACEBACK") == "1":
        traceback.print_exc()
    print(f"error: {message}", file=sys.stderr)
    return code
