"""What is declared is what is imported, and every package that comes along has an exact pin."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OWN = {"lengthwise", "hydra_plugins"}
# A build of torch for GPUs brings its own packages and pins them itself.
BROUGHT_BY_GPU_BUILDS = re.compile(r"(nvidia|cuda)-|triton")


def declared(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(requirement).name) for requirement in requirements}


def imported(folder: Path) -> set[str]:
    """Top-level modules that the files of a folder import or take data from, but our own and the standard library's."""
    names = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.add(node.module.split(".")[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "resources.files" and node.args:
                names.add(ast.literal_eval(node.args[0]).split(".")[0])
    return names - OWN - sys.stdlib_module_names


def distributions(modules: set[str]) -> set[str]:
    providers = importlib.metadata.packages_distributions()
    return {canonicalize_name(providers.get(module, [module])[0]) for module in modules}


def pins() -> dict[str, Version]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return {
        canonicalize_name(name): Version(version) for name, version in (line.split("==") for line in lines)
    }


def test_the_library_declares_what_it_imports_and_nothing_else():
    extras = [
        name for extra, names in PROJECT["optional-dependencies"].items() if extra != "dev" for name in names
    ]
    assert distributions(imported(ROOT / "src")) == declared(PROJECT["dependencies"] + extras)


def test_an_undeclared_import_would_be_seen(tmp_path: Path):
    (tmp_path / "a.py").write_text("def f():\n    from pytest import fixture\n    import os.path\n")
    assert imported(tmp_path) == {"pytest"}
    assert not distributions({"pytest"}) <= declared(PROJECT["dependencies"])


def test_every_pin_is_within_its_declared_range():
    pinned = pins()
    for requirement in map(Requirement, PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]):
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} does not admit the pinned {version}"


def required(name: str, extras: set[str]) -> list[Requirement]:
    """What an installed package requires here, with the extras that were asked for."""
    requirements = map(Requirement, importlib.metadata.requires(name) or [])
    return [
        r
        for r in requirements
        if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in extras | {""})
    ]


def test_everything_that_comes_along_is_pinned():
    pinned, seen, unpinned = pins(), set(), set()
    waiting = list(map(Requirement, PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]))
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in seen or BROUGHT_BY_GPU_BUILDS.match(name):
            continue
        seen.add(name)
        if name not in pinned:
            unpinned.add(name)
        waiting += required(name, requirement.extras)
    assert not unpinned


@pytest.mark.parametrize("pulled", ["2.6.2", "2.6.3"])
def test_the_pulled_releases_of_lightning_are_excluded(pulled: str):
    (lightning,) = [r for r in map(Requirement, PROJECT["dependencies"]) if r.name == "pytorch-lightning"]
    assert not lightning.specifier.contains(pulled)
    assert lightning.specifier.contains("2.6.6")


def test_the_citation_names_this_version():
    import lengthwise

    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert cited is not None and cited[1] == lengthwise.__version__
