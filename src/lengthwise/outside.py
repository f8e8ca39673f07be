"""Options of the slots from outside: folders of one's own (``--config-dir``), and installed packages.

A folder holds ``pe/mine.yaml`` for ``pe=mine``, and beside the slots the Python files that ``_target_`` names: it is
put last on ``sys.path``, where it stands in for nothing. A package offers a folder of YAML files through an entry point
of the group ``lengthwise.conf``. No name may be that of another option or module: which of the two a run has had would
depend on who looks.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from lengthwise import sources
from lengthwise.errors import ConfigError
from lengthwise.paths import conf_dir

ENTRY_POINTS = "lengthwise.conf"
"""The group of entry points through which a package offers options."""

_FLAGS = ("--config-dir", "-cd")
_in_use: dict[Path, bool] = {}  # folder -> whether it stays
_on_path: set[Path] = set()  # those that we have put on sys.path
_warned: set[str] = set()


class Package(NamedTuple):
    """An installed distribution that offers options, and the folder of their YAML files."""

    name: str
    folder: Path


def use(folder: str | os.PathLike[str], *, named: bool = True, stays: bool = True) -> None:
    """Look for options and their classes in `folder` too, until `restored` ends.

    named: somebody asked for it.  stays: for all of a command, so that a run's own record need not (`use_again`); one
    that does not takes the place of the one before it that does not.
    Raises ConfigError where it is not there, and for a name in it that another option or module has; what was in use
    before then still is.
    """
    place = Path(os.path.abspath(folder))
    if not place.is_dir():
        raise ConfigError(f"--config-dir {folder}: there is no such folder")
    with kept_if_right():
        if not stays:
            for other in [other for other, kept in _in_use.items() if not kept and other != place]:
                _drop(other)
        if place in _in_use:
            _in_use[place] |= stays
            return
        _refuse_options(place)
        if named:  # else a run's components lay there, in a working folder say, whose other files are nobody's business
            _refuse_modules(place)
        _add(place, stays)


def _add(place: Path, stays: bool) -> None:
    _in_use[place] = stays
    if str(place) not in sys.path:
        _on_path.add(place)
        sys.path.append(str(place))


def _drop(place: Path) -> None:
    """Forget the folder, and the modules that came from it."""
    del _in_use[place]
    if place in _on_path:
        _on_path.remove(place)
        if str(place) in sys.path:
            sys.path.remove(str(place))
        _forget_modules(place)


@contextlib.contextmanager
def kept_if_right() -> Iterator[None]:
    """Where something inside is refused, the folders that were in use before are in use again."""
    before = dict(_in_use)
    try:
        yield
    except ConfigError:
        _back_to(before)
        raise


def _back_to(before: dict[Path, bool]) -> None:
    for place in [place for place in _in_use if place not in before]:
        _drop(place)
    for place, stays in before.items():
        if place in _in_use:
            _in_use[place] = stays
        else:
            _add(place, stays)


def use_again(folder: str | None) -> None:
    """As `use`, for the folder that a run has noted; those that a command names come in its place, and where it is gone
    any that is in use.

    Raises ConfigError where it is gone and none is in use.
    """
    if folder is None or any(_in_use.values()):
        return
    if not Path(folder).is_dir():
        if _in_use:
            return
        raise ConfigError(
            f"run.components={folder}: the folder with this run's own components is not there any more; name where "
            "it is now with --config-dir DIR"
        )
    use(folder, named=False, stays=False)


def in_use() -> list[Path]:
    """The folders that `use` has been given, in that order."""
    return list(_in_use)


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Afterwards the folders that were put to use inside, and the modules that came from them, are forgotten."""
    before = dict(_in_use)
    try:
        yield
    finally:
        _back_to(before)


def _forget_modules(folder: Path) -> None:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(folder) and "site-packages" not in Path(file).parts:
            del sys.modules[name]


def named_in(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The folders that ``--config-dir DIR`` names among `arguments`, and the other arguments."""
    folders, rest, words = [], [], iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag not in _FLAGS:
            rest.append(word)
        elif equals:
            folders.append(value)
        else:
            folders.append(next(words, ""))
    if "" in folders:
        raise ConfigError("--config-dir: name a folder, such as --config-dir my_conf")
    return folders, rest


def noted(targets: Sequence[str]) -> str | None:
    """The folder in which some of these classes (dotted) from outside lie: the first in use, or the working folder.

    None where all come with a package.
    """
    places = [*_in_use, Path.cwd()]
    others = (t for t in targets if not t.startswith(("lengthwise.", "torch.", "pytorch_lightning.")))
    found = {sources.module_folder(target) for target in others}
    return next((str(place) for place in places if place in found), None)


# -- installed packages


def packages() -> list[Package]:
    """Those that offer options, by name. One that cannot be used is left out, with a warning on standard error."""
    found, problems = _packages(tuple(sys.path))
    for problem in problems:
        if problem not in _warned:
            _warned.add(problem)
            print(f"warning: {problem}", file=sys.stderr, flush=True)
    return list(found)


@lru_cache(maxsize=8)
def _packages(path: tuple[str, ...]) -> tuple[tuple[Package, ...], tuple[str, ...]]:
    from importlib import metadata

    found: dict[Path, Package] = {}
    problems = []
    try:
        points = sorted(
            metadata.entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)
        )
    except Exception as error:  # of some package's metadata
        return (), (
            f"the entry points of installed packages cannot be read ({error}): their options are left out",
        )
    for point in points:
        name = point.dist.name if point.dist is not None else point.name
        try:
            folder = sources.folder_of(point.value.partition(":")[0].strip())
        except Exception:
            folder = None
        if folder is None:
            why = "which cannot be found"
        elif not any(folder.glob("*/*.yaml")):
            why = f"but there is no SLOT/OPTION.yaml in {folder}"
        else:
            found.setdefault(folder, Package(name, folder))
            continue
        problems.append(f"package {name} offers options in {point.value!r} ({ENTRY_POINTS}), {why}: left out")
    return tuple(found.values()), tuple(problems)


# -- options


def option_files(group: str) -> dict[str, Path]:
    """Option -> its YAML file, for a config group: ours, then those from outside; sorted by name."""
    folders = [conf_dir(), *_in_use, *(package.folder for package in packages())]
    files: dict[str, Path] = {}
    for folder in folders:
        for path in (folder / group).glob("*.yaml"):
            files.setdefault(path.stem, path)
    return dict(sorted(files.items()))


def refuse_shadows() -> None:
    """Raises ConfigError where two of those that offer options have one of the same name."""
    seen: dict[tuple[str, str], str] = {}
    for package in packages():
        for group, name, path in _options_in(package.folder):
            _refuse_ours(group, name, path, f"package {package.name}: ")
            if (other := seen.setdefault((group, name), package.name)) != package.name:
                raise ConfigError(
                    f"{group}={name} is offered by two packages, {other} and {package.name}: uninstall one of them, or "
                    "have it renamed"
                )
    for folder in _in_use:
        for group, name, path in _options_in(folder):
            if (group, name) in seen:
                raise ConfigError(
                    f"{path}: {group}={name} is offered by package {seen[group, name]} too; rename your file"
                )


def _refuse_options(folder: Path) -> None:
    for place in _in_use:
        ours = {(group, name) for group, name, _ in _options_in(place)}
        for group, name, path in _options_in(folder):
            if (group, name) in ours:
                raise ConfigError(f"{path}: {group}={name} is in {place} too; rename one of them")
    for group, name, path in _options_in(folder):
        _refuse_ours(group, name, path, "")
    for group in _groups():
        for path in (folder / group).glob("*.yml"):
            raise ConfigError(f"{path}: options are read from .yaml files; rename it to {path.stem}.yaml")


def _refuse_ours(group: str, name: str, path: Path, whose: str) -> None:
    if (conf_dir() / group / f"{name}.yaml").is_file():
        what = f"{group}={name}" if group else f"{name}.yaml"
        raise ConfigError(f"{whose}{path}: {what} is Lengthwise's own; give yours another name")


def _groups() -> list[str]:
    root = conf_dir()
    return sorted({path.parent.relative_to(root).as_posix() for path in root.rglob("*.yaml")} - {"."})


def _options_in(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """(group, option, file) of each option that a folder holds."""
    for group in _groups():
        for path in sorted((folder / group).glob("*.yaml")):
            yield group, path.stem, path
    if (path := folder / "config.yaml").is_file():
        yield "", "config", path


# -- modules


def _refuse_modules(folder: Path) -> None:
    """A module that Python finds elsewhere first would be silently taken for this one, here or by someone else."""
    for path in sorted(folder.iterdir()):
        is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
        if not is_module or not path.stem.isidentifier() or path.stem == "__init__":
            continue
        if (other := _elsewhere(path.stem, folder)) is not None:
            raise ConfigError(
                f"{path}: Python has another module of that name ({other}); give yours another name"
            )


def _elsewhere(name: str, folder: Path) -> str | None:
    if name in sys.stdlib_module_names:
        return "its own"
    found = sources.spec(name)
    if found is None or not found.has_location or not found.origin:
        return None
    real = Path(os.path.realpath(found.origin))
    return None if real.is_relative_to(os.path.realpath(folder)) else found.origin
