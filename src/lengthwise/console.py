"""What a run says to the person who started it."""

from __future__ import annotations

import io
import sys


def never_fail() -> None:
    """A character that a terminal or a file cannot show becomes a question mark, never an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def say(text: str) -> None:
    """One message on standard output, at once even where that is a pipe."""
    print(text, file=sys.stdout, flush=True)
