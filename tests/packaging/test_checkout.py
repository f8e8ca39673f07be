"""`python train.py` in a checkout, whichever Python that is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHIMS = ["train.py", "evaluate.py", "report.py"]


def bare_python(folder: Path) -> Path:
    """An interpreter without third-party packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def checkout(folder: Path) -> Path:
    """What a shim needs of the tree."""
    (folder / "src" / "lengthwise").mkdir(parents=True)
    for name in (*SHIMS, "src/lengthwise/__init__.py", "src/lengthwise/checkout.py"):
        (folder / name).write_text((ROOT / name).read_text())
    return folder


@pytest.mark.parametrize("shim", SHIMS)
def test_help_does_not_wait_for_torch(shim: str):
    command = [sys.executable, "-X", "importtime", str(ROOT / shim), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "lengthwise" in loaded  # the names are read rightly
    assert not loaded & {"torch", "pytorch_lightning", "wandb", "pandas"}
    assert done.stdout.strip()


def test_a_bare_python_hands_over_to_the_environment_of_the_checkout(tmp_path: Path):
    folder = checkout(tmp_path / "a checkout")
    (folder / ".venv" / "bin").mkdir(parents=True)
    stand_in = folder / ".venv" / "bin" / "python"
    stand_in.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    stand_in.chmod(0o755)
    command = [bare_python(tmp_path / "bare"), folder / "train.py", "pe=none", "run.label=two words"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{folder / 'train.py'}|pe=none|run.label=two words|"


def test_without_an_environment_one_message_says_what_to_do(tmp_path: Path):
    folder = checkout(tmp_path / "a checkout")
    command = [bare_python(tmp_path / "bare"), folder / "train.py", "pe=none"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    (message,) = done.stderr.splitlines()
    assert "has no torch and hydra" in message and "make setup" in message


def test_a_fault_in_the_environment_does_not_start_it_again_and_again(tmp_path: Path):
    folder = checkout(tmp_path / "a checkout")
    done = subprocess.run(
        [bare_python(folder / ".venv"), folder / "train.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0 and "make setup" in done.stderr
