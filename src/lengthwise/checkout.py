"""``python train.py`` in a checkout, with or without its ``.venv`` activated.

Imports nothing but the standard library, and is understood by older Pythons: it runs before anything is known of the
interpreter.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def command(name: str) -> int:
    """Run a function of :mod:`lengthwise.cli`, under the Python of ``.venv`` if this one lacks what it needs."""
    missing = [module for module in ("torch", "hydra") if importlib.util.find_spec(module) is None]
    if missing or sys.version_info < (3, 11):
        _start_again_in_venv(missing)

    # What we start in turn (jobs of a sweep, other ranks) runs this checkout too, whichever one is installed.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(_ROOT / "src"), os.environ.get("PYTHONPATH")])
    )
    from lengthwise import cli

    return getattr(cli, name)()


def _start_again_in_venv(missing: list[str]) -> None:
    venv = _ROOT / ".venv"
    python = venv / "bin" / "python"
    if python.exists() and Path(sys.prefix).resolve() != venv.resolve():
        os.execv(python, [str(python), *sys.argv])
    lacking = " and ".join(missing) or "Python 3.11"
    sys.exit(f"{sys.executable} has no {lacking}. Run `make setup` in {_ROOT} first, then the same command.")
