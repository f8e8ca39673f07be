"""What a run says to the person who started it."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """One message on standard output, at once even where that is a pipe."""
    print(text, file=sys.stdout, flush=True)
