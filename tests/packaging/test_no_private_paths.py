"""No file of the project names a folder of the machine that it was written on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEAVES_THE_TREE = re.compile(r"(?<![\w.~/*})-])/(work|root|home|tmp|mnt|opt|Users)/\w")
SKIPPED = {"tests"}  # there, /tmp and the like are made up


def files() -> list[Path]:
    """What is committed or would be; without git (an unpacked sdist), nothing is to be leaked."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and path.relative_to(ROOT).parts[0] not in SKIPPED]


def leaks(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if LEAVES_THE_TREE.search(line)]


def test_no_file_names_a_folder_of_this_machine():
    found = {str(path.relative_to(ROOT)): leaks(path.read_text(errors="replace")) for path in files()}
    assert not {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize("text", ["see /" + "work/x.md", "path: /" + "home/me/runs", '"/' + 'tmp/x"'])
def test_a_leak_would_be_seen(text: str):
    assert leaks(text)
    assert not leaks("outputs/tmp" + "/x, https://example.org/home" + "/x, ./work" + "/x")
