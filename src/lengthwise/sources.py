"""Where the source of a module lies, and what else it imports from beside itself. Nothing is imported."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def spec(name: str, search: Any = None) -> Any:
    """The spec of a module in `search` (None: ``sys.path``), whose parents are found already; None if there is none."""
    for finder in sys.meta_path:
        try:
            found = finder.find_spec(name, search, None)
        except Exception:  # a broken finder or a hostile name: whoever imports it will tell
            continue
        if found is not None:
            return found
    return None


def walk(name: str) -> Iterator[Any]:
    """The specs on the way to the dotted `name`, as far as there are modules."""
    search: Any = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        found = spec(".".join(parts[:depth]), search) or _plain_folder(parts[depth - 1], search)
        if found is None:
            return
        yield found
        search = _places(found)
        if search is None:
            return


def _places(found: Any) -> list[str] | None:
    """Where the modules of a package are looked for; None for a module."""
    places = found.submodule_search_locations
    return None if places is None else list(getattr(places, "_path", places))


def _plain_folder(part: str, search: list[str] | None) -> Any:
    """As a spec, a folder without ``__init__.py`` inside a package: Python's finder would ask the imported parent."""
    places = [str(place) for folder in search or () if (place := Path(folder) / part).is_dir()]
    return (
        SimpleNamespace(has_location=False, origin=None, submodule_search_locations=places)
        if places
        else None
    )


def source_file(name: str) -> Path | None:
    """The file of the innermost module on the way to `name`, such as ``mine.Mine``."""
    file: Path | None = None
    for found in walk(name):
        file = Path(found.origin) if found.has_location and found.origin else None
    return file


def folder_of(name: str) -> Path | None:
    """The folder of the package `name`, or that in which the module `name` lies; None where it is not on disk."""
    found = list(walk(name))
    if len(found) < name.count(".") + 1:
        return None
    places = [
        *(_places(found[-1]) or []),
        found[-1].origin and Path(found[-1].origin).parent,
    ]
    return next((Path(place) for place in places if place and Path(place).is_dir()), None)


def module_folder(name: str) -> Path | None:
    """The folder on ``sys.path`` in which the module on the way to `name` is found."""
    first = next(walk(name), None)
    if first is None or not first.has_location or not first.origin:
        return None
    file = Path(first.origin)
    return file.parents[1] if file.name == "__init__.py" else file.parent


def helpers(file: Path, base: Path) -> list[Path]:
    """The files that `file` imports, directly or not, from `base`, the folder in which its top module lies; sorted.

    Of an installed module, those of its own package alone. Only what an ``import`` names is found.
    """
    root = base / file.relative_to(base).parts[0] if is_installed(base) else base
    if not root.is_dir():
        return []
    found, waiting = {file}, [file]
    while waiting:
        one = waiting.pop()
        new = {path for path in _imported(one, base) if path.is_relative_to(root)} - found
        found |= new
        waiting += new
    return sorted(found - {file})


def counted(name: str) -> tuple[Path | None, list[Path]]:
    """The folder in which the top module of the dotted `name` lies, and the files that it is made of: its own (all of a
    package's where it is found in an ``__init__``), and those beside it that they import."""
    file, base = source_file(name), module_folder(name)
    if file is None:
        return base, []
    own = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]
    beside = {path for one in own if base and one.is_relative_to(base) for path in helpers(one, base)} - set(
        own
    )
    return base, [*own, *sorted(beside)]


def is_installed(folder: Path) -> bool:
    """Whether it is one where packages are installed, or Python's own."""
    paths = sysconfig.get_paths()
    places = {Path(paths[name]).resolve() for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    return folder.resolve() in places or folder.name in ("site-packages", "dist-packages")


def _imported(file: Path, base: Path) -> Iterator[Path]:
    """Files below `base` of the modules that the source in `file` names."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    package = list(file.relative_to(base).parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level > len(package) + 1:
                continue
            start = package[: len(package) - node.level + 1] if node.level else []
            module = [*start, *(node.module.split(".") if node.module else [])]
            names = [module, *([*module, alias.name] for alias in node.names)]
        else:
            continue
        for parts in names:
            yield from _files(parts, base)


def _files(parts: list[str], base: Path) -> Iterator[Path]:
    """Of the module named so, and of the packages on the way to it."""
    for depth in range(1, len(parts) + 1):
        place = base.joinpath(*parts[:depth])
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                yield path
