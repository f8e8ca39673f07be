"""`make` as a newcomer meets it: what it lists, what it says when Python does not suit, when it does the set-up again.

The set-up runs with a stand-in for Python that makes a stub of an environment, so that these tests install nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Answers as `VERSION venv` to the question what it is; `-m venv DIR` puts itself there; `-m pip` is written down.
STUB = """#!/bin/sh
case "$1 $2" in
    "-c "*sys.version_info*) echo "{answer}" ;;
    "-c "*) echo "Python stub" ;;
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo made >>"{log}" ;;
    "-m pip") shift 2 && echo "pip $*" >>"{log}" && exit "$(cat "{status}" 2>/dev/null || echo 0)" ;;
esac
"""


class Checkout:
    """A folder (with a space in its name) with what the set-up reads, and a stand-in for Python."""

    def __init__(self, folder: Path):
        self.folder = folder / "a checkout"
        self.log = folder / "log"
        self.status = folder / "status"
        (self.folder / "scripts").mkdir(parents=True)
        for name in ("Makefile", "scripts/setup.sh", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, self.folder / name)

    def python(self, answer: str = "3.11 venv", name: str = "stub-python") -> Path:
        path = self.folder.parent / name
        path.write_text(STUB.format(answer=answer, log=self.log, status=self.status))
        path.chmod(0o755)
        return path

    def setup(self, python: Path | None, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        named = [] if python is None else [f"PYTHON={python}"]
        clean = {
            key: value for key, value in os.environ.items() if key not in ("PYTHON", "TORCH", "MAKEFLAGS")
        }
        return subprocess.run(
            ["make", "setup", *named, *words],
            cwd=self.folder, env=clean | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def actions(self) -> list[str]:
        """What the set-up did since the last call."""
        done = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return done


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_help_is_the_default_and_lists_every_target():
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert {"setup", "demo", "test", "lint"} <= set(targets)
    assert re.findall(r"^  make ([a-z-]+) +\S", listed, flags=re.MULTILINE) == targets


def test_setup_runs_once_until_an_input_changes(checkout: Checkout):
    python = checkout.python()
    assert checkout.setup(python).returncode == 0
    assert checkout.actions() == ["made", "pip install --quiet -c constraints.txt -e .[dev]"]

    assert checkout.setup(python).returncode == 0
    (checkout.folder / "constraints.txt").touch()  # a checkout sets the time; the content says what it is
    assert checkout.setup(None).returncode == 0
    assert checkout.actions() == []

    for name in ("constraints.txt", "pyproject.toml"):
        with (checkout.folder / name).open("a") as file:
            file.write("# changed\n")
        assert checkout.setup(None).returncode == 0
        assert checkout.actions() == ["pip install --quiet -c constraints.txt -e .[dev]"]


def test_another_python_makes_another_environment(checkout: Checkout):
    checkout.setup(checkout.python())
    checkout.actions()
    assert checkout.setup(checkout.python("3.12 venv", "stub-python-12")).returncode == 0
    assert checkout.actions()[0] == "made"


def test_an_interrupted_setup_is_started_afresh(checkout: Checkout):
    python = checkout.python()
    checkout.status.write_text("1")
    failed = checkout.setup(python)
    assert failed.returncode != 0
    assert "the same command starts it again" in failed.stderr
    checkout.actions()

    checkout.status.unlink()
    assert checkout.setup(python).returncode == 0
    assert checkout.actions()[0] == "made"  # pip cannot tell a half-installed package from a whole one


def test_another_torch_is_installed_and_remembered(checkout: Checkout):
    python = checkout.python()
    checkout.setup(python)
    checkout.actions()
    assert checkout.setup(python, "TORCH=torch==2.9.1 --index-url ADDRESS").returncode == 0
    ours = "pip install --quiet -c .venv/constraints.txt -e .[dev]"
    assert checkout.actions() == ["pip install --quiet torch==2.9.1 --index-url ADDRESS", ours]
    pins = (checkout.folder / ".venv/constraints.txt").read_text()
    assert "torch==" not in re.findall(r"^\w+==", pins, flags=re.MULTILINE)
    assert "numpy==" in pins

    assert checkout.setup(python).returncode == 0
    assert checkout.actions() == []


def only_message(result: subprocess.CompletedProcess[str]) -> str:
    """The one line that is for the user; make adds its own "*** Error"."""
    assert result.returncode != 0
    (line,) = [line for line in result.stderr.splitlines() if not re.match(r"make(\[\d+\])?: \*\*\*", line)]
    return line


def test_a_missing_venv_module_is_named_with_its_remedy(checkout: Checkout):
    message = only_message(checkout.setup(checkout.python("3.11")))
    assert "has no venv module" in message and "apt install python3-venv" in message
    assert not (checkout.folder / ".venv").exists()


def test_venv_is_asked_of_the_interpreter_itself(checkout: Checkout, tmp_path: Path):
    """A real Python whose `ensurepip` is gone, as Debian ships it."""
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "ensurepip.py").write_text("raise ModuleNotFoundError(__name__)\n")
    python = tmp_path / "debian-python"
    real = shutil.which("python3", path=os.path.dirname(os.path.realpath(os.sys.executable)))
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}/gone" exec "{real or os.sys.executable}" "$@"\n')
    python.chmod(0o755)
    assert "has no venv module" in only_message(checkout.setup(python))


@pytest.mark.parametrize("version", ["3.9", "3.10 venv", "3.14 venv"])
def test_an_unsuitable_python_is_named_with_what_would_do(checkout: Checkout, version: str):
    message = only_message(checkout.setup(checkout.python(version)))
    assert "needs Python 3.11, 3.12 or 3.13" in message
    assert f"stub-python is Python {version.split()[0]}" in message


def test_no_python_at_all(checkout: Checkout):
    assert "found no Python as: nowhere" in only_message(checkout.setup(Path("nowhere")))


def test_a_suitable_python_is_found_beside_an_old_one(checkout: Checkout):
    """python3 is too old, python3.13 does not start, python3.12 will do."""
    for name, answer in (("python3", "3.9 venv"), ("python3.12", "3.12 venv")):
        checkout.python(answer, name)
    broken = checkout.python("", "python3.13")
    broken.write_text("#!/bin/sh\nexit 1\n")
    path = os.pathsep.join([str(broken.parent), os.environ["PATH"]])
    result = checkout.setup(None, PATH=path)
    assert result.returncode == 0, result.stderr
    assert "Making .venv with python3.12" in result.stdout
