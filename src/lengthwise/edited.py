"""Source that was edited after Python imported it: the next look-up imports it anew, in a notebook as in a new process.

What counts is what counts for a run's identity: the files of a class, and those that they import from beside themselves
(`sources.counted`). Objects of the old class live on as they are.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from lengthwise import sources

_imported: dict[str, tuple[ModuleType, dict[Path, bytes]]] = {}
"""Module -> the object that Python had, and the sources that it came from."""


def import_module(name: str) -> Any:
    """As `importlib.import_module`, but of the source that there is now. Raises what the import raises."""
    files = _files(name)
    if any(_is_stale(module) for module in files):
        importlib.invalidate_caches()
        for module, file in files.items():
            sys.modules.pop(module, None)
            # Python tells sources apart by size and full seconds: an edit within one is not seen.
            with contextlib.suppress(OSError, NotImplementedError):
                Path(importlib.util.cache_from_source(str(file))).unlink()
    found = importlib.import_module(name)
    for module in files:
        loaded = sys.modules.get(module)
        if loaded is not None and (module not in _imported or _imported[module][0] is not loaded):
            _imported[module] = (loaded, dict(_sources(_files(module).values())))
    return found


def _files(name: str) -> dict[str, Path]:
    """Module -> file, of those that count for the module `name`; none for Lengthwise's own and for a library's."""
    if name.partition(".")[0] in ("lengthwise", "torch", "pytorch_lightning", "__main__"):
        return {}
    base, files = sources.counted(name)
    if base is None or sources.is_installed(
        base
    ):  # which nobody edits, and not everything there bears a second import
        return {}
    found = {}
    for file in files:
        parts = file.relative_to(base).with_suffix("").parts if file.is_relative_to(base) else ()
        if parts and parts[-1] == "__init__":
            parts = parts[:-1]
        if parts:
            found[".".join(parts)] = file
    return found


def _is_stale(module: str) -> bool:
    """Whether Python has it from another source than there is now; where we have not seen it imported, from what Python
    has written down of its source."""
    loaded = sys.modules.get(module)
    if loaded is None:
        return False
    known = _imported.get(module)
    if known is not None and known[0] is loaded:
        return dict(_sources(known[1])) != known[1]
    return _is_older(loaded)


def _is_older(loaded: ModuleType) -> bool:
    """Whether the compiled file that Python keeps of a module is of another source than there is now."""
    try:
        compiled = Path(loaded.__spec__.cached or "").read_bytes()[:16]  # type: ignore[union-attr]
        source = Path(loaded.__file__ or "").stat()
    except (OSError, AttributeError):
        return False
    flags, seconds, size = (int.from_bytes(compiled[i : i + 4], "little") for i in (4, 8, 12))
    return flags == 0 and (seconds, size) != (int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)


def _sources(files: Iterable[Path]) -> Iterator[tuple[Path, bytes]]:
    for file in files:
        try:
            yield file, file.read_bytes()
        except OSError:
            yield file, b""
