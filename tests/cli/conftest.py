"""The command line as a user types it, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lengthwise import cli


@dataclass
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """run("train", "pe=learned", …) in this process, with the working folder in `tmp_path`."""
    monkeypatch.chdir(tmp_path)

    def call(command: str, *arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", [f"{command}.py"])
        capsys.readouterr()
        code = getattr(cli, command)(list(arguments))
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., Result]:
    """As `run`, in a process of its own."""

    def call(*arguments: str, timeout: float = 240, **environment: str) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "lengthwise", *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return call
