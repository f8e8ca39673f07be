"""Options from an installed package, through an entry point of the group ``lengthwise.conf``."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from lengthwise import outside
from lengthwise.build import build_parts
from lengthwise.composing import compose
from lengthwise.config import options
from lengthwise.errors import ConfigError
from lengthwise.runs.identity import source_hash
from support.commandline import QUICK, SMALL, Result

TINY = [*QUICK, *SMALL, "trainer.max_steps=2", "evaluation.symmetry=false"]
PARTS = (
    "from lengthwise.nn import NoPosition, PreNorm, ScaledAttention\nfrom lengthwise.tasks import Reverse\n"
    "class Encoding(NoPosition): pass\nclass Norm(PreNorm): pass\nclass Attention(ScaledAttention): pass\n"
    "class Task(Reverse): pass\n"
)
OPTIONS = {
    "pe/theirs.yaml": "# Theirs.\n_target_: {package}.parts.Encoding\n_partial_: true\n",
    "norm/theirs.yaml": "# Theirs.\n_target_: {package}.parts.Norm\n_partial_: true\n",
    "attention/theirs.yaml": "# Theirs.\n_target_: {package}.parts.Attention\n_partial_: true\n",
    "task/theirs.yaml": "# @package _global_\n# Theirs.\ntask: {{_target_: {package}.parts.Task}}\n"
    "data: {{lengths: [2, 3]}}\nevaluation: {{lengths: [4]}}\n",
}


def install(site: Path, package: str, options: dict[str, str], value: str | None = None) -> None:
    """What an installer leaves in `site`: the package, and metadata with its entry point."""
    files = {f"{package}/conf/{name}": text.format(package=package) for name, text in options.items()}
    files |= {
        f"{package}/__init__.py": "raise SystemExit('imported')\n" if value else "",
        f"{package}/parts.py": PARTS,
    }
    info = f"{package}-1.0.dist-info"
    files |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
        f"{info}/entry_points.txt": f"[lengthwise.conf]\n{package} = {value or f'{package}.conf'}\n",
    }
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python takes for one of installed packages."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(outside, "_warned", set())
    outside._packages.cache_clear()
    return folder


def test_each_slot_takes_an_option_from_a_package(
    site: Path, run: Callable[..., Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = "lengthwise_theirs_a"
    install(site, package, OPTIONS)
    config = compose([f"{slot}=theirs" for slot in ("pe", "norm", "attention", "task")])
    task, _, model = build_parts(config)
    kinds = {type(module).__module__ for module in (task, *model.modules())}
    assert f"{package}.parts" in kinds
    for slot in ("pe", "norm", "attention", "task"):
        assert "theirs" in options(slot) and config[slot]["_target_"].startswith(package)
    assert config["run"]["components"] is None  # it is installed
    assert source_hash([f"{package}.parts.Encoding"]) is not None
    assert f"[{site / package / 'conf'}]" in run("train", "--help").out
    assert "theirs" in run("train", "pe=theis").err
    result = run("train", "pe=theirs", *TINY)
    assert result.code == 0, result.err
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_package_xyz.conf", "which cannot be found"),
        ("lengthwise_broken.parts", "but there is no SLOT/OPTION.yaml in"),
        ("a b.</script>", "which cannot be found"),
    ],
)
def test_a_broken_entry_point_is_a_warning(
    site: Path, run: Callable[..., Result], value: str, said: str
) -> None:
    """It names the package, once; nothing of it is imported, and everything else works."""
    install(site, "lengthwise_broken", {}, value)
    install(site, "lengthwise_theirs_b", OPTIONS)
    result = run("train", "pe=theirs", "--cfg", "job")
    assert result.code == 0, result.err
    assert result.err.count("warning: package lengthwise_broken offers options") == 1 and said in result.err
    assert "lengthwise_broken" not in sys.modules
    outside._warned.clear()
    listed = run("sweeps")
    assert (listed.code, listed.err) == (0, "")  # it composes nothing


def test_two_packages_with_one_name_are_refused(site: Path, run: Callable[..., Result]) -> None:
    for package in ("lengthwise_theirs_c", "lengthwise_theirs_d"):
        install(site, package, {"pe/theirs.yaml": OPTIONS["pe/theirs.yaml"]})
    result = run("train", "pe=none", *TINY)
    assert result.code == 2
    assert result.err.startswith(
        "error: pe=theirs is offered by two packages, lengthwise_theirs_c and lengthwise_theirs_d: "
    )
    assert run("sweeps").code == 0


def test_a_package_that_takes_a_name_of_ours_is_refused(site: Path) -> None:
    install(site, "lengthwise_theirs_e", {"pe/rotary.yaml": OPTIONS["pe/theirs.yaml"]})
    with pytest.raises(ConfigError, match=r"package lengthwise_theirs_e: .*pe=rotary is Lengthwise's own"):
        compose([])


def test_a_folder_of_ones_own_and_a_package_with_one_name_are_refused(site: Path, tmp_path: Path) -> None:
    install(site, "lengthwise_theirs_f", OPTIONS)
    (tmp_path / "my_conf" / "pe").mkdir(parents=True)
    (tmp_path / "my_conf" / "pe" / "theirs.yaml").write_text("_target_: x.Y\n")
    with outside.restored(), pytest.raises(ConfigError, match="offered by package lengthwise_theirs_f too"):
        compose([], config_dir=tmp_path / "my_conf")


@pytest.mark.slow
def test_an_installed_package_by_the_installed_script(tmp_path: Path) -> None:
    """Built and installed by pip, without a network; a sweep's jobs find it too."""
    package, project, target = "lengthwise_theirs_g", tmp_path / "project", tmp_path / "target"
    for name, text in {
        "pyproject.toml": '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n[project]\n'
        f'name = "{package}"\nversion = "1.0"\n[project.entry-points."lengthwise.conf"]\nany = "{package}.conf"\n',
        f"{package}/__init__.py": "",
        f"{package}/parts.py": PARTS,
        **{f"{package}/conf/{name}": text.format(package=package) for name, text in OPTIONS.items()},
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*pip, "--target", target, project], check=True, capture_output=True)
    script = Path(sysconfig.get_path("scripts")) / "lengthwise"
    done = subprocess.run(
        [script, "train", "-m", "pe=theirs,none", *TINY],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    configs = [yaml.safe_load(path.read_text()) for path in tmp_path.glob("outputs/runs/*/config.yaml")]
    assert {config["pe"]["_target_"] for config in configs} >= {f"{package}.parts.Encoding"}
