"""The command line: parse, refuse, hand over. What a command needs is imported only when it runs."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from lengthwise import __version__, usage
from lengthwise.errors import LengthwiseError
from lengthwise.sweeps.job import ONE_OF_MANY

USAGE_ERROR = 2
FAILED = 1
INTERRUPTED = 130


def main() -> int:
    """``lengthwise COMMAND …``."""
    name, arguments = (sys.argv[1] if len(sys.argv) > 1 else "--help"), sys.argv[2:]
    commands = {"train": train, "evaluate": evaluate, "report": report, "demo": demo}
    if name in ("-h", "--help", "help"):
        print(usage.COMMANDS, end="")
        return 0
    if name in ("-V", "--version"):
        print(f"lengthwise {__version__}")
        return 0
    if name not in commands:
        print(f"error: no command {name!r}; commands: {', '.join(commands)}", file=sys.stderr)
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


def demo(arguments: Sequence[str] | None = None) -> int:
    """``make demo``: the quick studies, end to end."""
    return _command("demo", arguments)


def _command(name: str, arguments: Sequence[str] | None) -> int:
    """Run a command; errors meant for the user are one message, without a traceback, and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if {"-h", "--help"} & set(given):
        print(getattr(usage, name)(), end="")
        return 0
    try:
        from lengthwise import commands  # Hydra, and all that follows from it

        return getattr(commands, name)(given)
    except LengthwiseError as error:
        return _fail(str(error), USAGE_ERROR)
    except KeyboardInterrupt:
        return _fail("interrupted; the same command again goes on from the last checkpoint", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        return _fail(f"{type(error).__name__}: {error}", FAILED)


def _fail(message: str, code: int) -> int:
    if os.environ.get("LENGTHWISE_TRACEBACK") == "1":
        traceback.print_exc()
    print(f"error: {message}", file=sys.stderr)
    if last_words := os.environ.get(ONE_OF_MANY):
        with contextlib.suppress(OSError):
            Path(last_words).write_text(message, encoding="utf-8", errors="replace")
    return code
