"""The wheel alone, in an environment of its own, from any folder: nothing reaches back into the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Standard output of a command, run as where our checkout is unknown; its errors are shown where it fails."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LENGTHWISE"))}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; third-party packages are those that the tests run with.

    A folder named in a .pth file is searched, but the .pth files in it are not read: the editable install there, which
    points at the checkout, has no effect.
    """
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        folder / "bin/python",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
    )
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "third_party.pth").write_text("\n".join({sysconfig.get_path(p) for p in ("purelib", "platlib")}))
    return folder


def test_the_wheel_holds_the_library_its_choices_and_its_studies(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.py")}
    expected |= {Path("lengthwise") / path.relative_to(ROOT) for path in (ROOT / "conf").rglob("*.yaml")}
    expected |= {
        Path("lengthwise") / path.relative_to(ROOT) for path in ROOT.glob("experiments/*/study.yaml")
    }
    assert {str(path) for path in expected} <= names
    assert "lengthwise/py.typed" in names
    assert "hydra_plugins/__init__.py" not in names  # a namespace package, shared with other plugins


def test_the_wheel_holds_nothing_else(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"lengthwise", "hydra_plugins"}
    assert not [name for name in names if {"results", "__pycache__"} & set(Path(name).parts)]


def test_it_is_the_wheel_that_is_imported(environment: Path, tmp_path: Path):
    where = "import lengthwise, lengthwise.paths as p; print(lengthwise.__file__, p.conf_dir())"
    module, conf = run(environment / "bin/python", "-c", where, cwd=tmp_path).split()
    assert Path(module).is_relative_to(environment) and Path(conf).is_relative_to(environment)


def test_help_works_from_any_folder(environment: Path, tmp_path: Path):
    options = run(environment / "bin/lengthwise", "train", "--help", cwd=tmp_path)
    assert "rotary" in options and "word_order" in options  # read off the conf/ that travels in the wheel


def test_training_works_from_any_folder(environment: Path, tmp_path: Path):
    """A sweep, so that Hydra finds its plugins and the processes of the jobs find the wheel."""
    tiny = ["debug=fast", "trainer.max_steps=2", "evaluation.lengths=[5]", "evaluation.symmetry=false"]
    run(environment / "bin/lengthwise", "train", "-m", *tiny, "pe=none,rotary", cwd=tmp_path)
    finished = list((tmp_path / "outputs" / "runs").iterdir())
    assert len(finished) == 2
    for folder in finished:
        assert {"config.yaml", "status.json", "train.csv", "length.csv"} <= {
            path.name for path in folder.iterdir()
        }
        assert str(ROOT) not in (folder / "config.yaml").read_text()
