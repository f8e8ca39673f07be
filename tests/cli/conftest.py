"""Every command runs in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from support.commandline import Result, in_own_process, in_process


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Result]:
    """run("train", "pe=learned", …) in this process, with the working folder in `tmp_path`."""
    return partial(in_process, tmp_path)


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., Result]:
    """process("train", "pe=learned", …): as `run`, in a process of its own."""
    return partial(in_own_process, tmp_path)
