"""Which run is this? A hash of everything that can change its result, and of nothing else.

Left out: where things are written, logging, evaluation, devices, and how long to train. A run is *extended* by a longer
``trainer.max_steps`` and keeps the horizon of its first start, so a ``schedule.steps`` that is left to follow it (null)
is left out as well; one that is set counts.

Kept, though one might wonder:

- ``trainer.accumulate``: gradients agree up to rounding only, and dropout is drawn per micro-batch.
- ``trainer.validate_every``: it decides which checkpoint is the best one, and when early stopping stops.
- callbacks: they may stop a run early.

``seed`` is a shorthand: ``init_seed`` and ``data_seed`` are what counts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path, PurePath
from typing import Any

from lengthwise import outside
from lengthwise.errors import ConfigError
from lengthwise.runs.lengths import parse_lengths
from lengthwise.sources import helpers, module_folder, source_file
from lengthwise.texts import without_place

RESULTS_VERSION = 2
"""Raised when the same configuration gives other results than it did before."""

HASH_LENGTH = 10

INTRODUCED: dict[str, Any] = {
    "pe.fraction": 1.0,
    "pe.layout": "interleaved",
    "pe.scaling": "none",
    "pe.factor": 1.0,
    "pe.original_length": None,
    "pe.fast_turns": None,
    "pe.slow_turns": None,
    "pe.sides": "symmetric",
    "positions": {"_target_": "lengthwise.positions.sequential.Sequential"},
}
"""Dotted key → the value at which it was introduced, i.e. what the code did before the key existed.

A key at that value is left out of the identity, so that older folders keep their names. Never remove an entry.
"""

_LATER = {key: INTRODUCED[key] for key in ("positions",)} | {
    "trainer.nodes": 1,
    "trainer.strategy": "auto",
    "run.components": None,
    "evaluation.bins": [],
    "evaluation.mean": None,
    "evaluation.positions": None,
    "evaluation.pictures": [],
}
"""As `INTRODUCED`, the keys that every configuration has by now, whatever its components."""

_EXCLUDED = ("outputs", "overwrite", "wandb", "evaluation", "hydra", "study", "sweep", "seed", "run", "debug")
_EXCLUDED_TRAINER = (
    "max_steps", "accelerator", "devices", "nodes", "strategy", "precision", "threads", "log_every",
    "checkpoint_every", "profile",
)  # fmt: skip
_LIBRARIES = ("lengthwise", "torch", "pytorch_lightning", "lightning", "torchmetrics", "numpy", "builtins")
"""Named, but not hashed: their versions are in the run's provenance."""

_SEEDS = ("init_seed", "data_seed")


def scientific(config: Mapping[str, Any], introduced: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The part of a resolved configuration that can change a result, in one canonical form.

    Numbers that are equal are written alike (10000, 1e4); True is not 1; an empty mapping says nothing.
    Raises ConfigError for a value that is not plain, naming its key.
    """
    kept: dict[str, Any] = {key: value for key, value in config.items() if key not in _EXCLUDED}
    for name in _SEEDS:
        if kept.get(name) is None and config.get("seed") is not None:
            kept[name] = config["seed"]
    if label := _mapping(config, "run").get("label"):
        kept["run"] = {"label": str(label)}
    if isinstance(kept.get("task"), Mapping):
        kept["task"] = without_place(kept["task"])
    if "trainer" in kept:
        kept["trainer"] = {k: v for k, v in _mapping(kept, "trainer").items() if k not in _EXCLUDED_TRAINER}
    if isinstance(kept.get("schedule"), Mapping):
        kept["schedule"] = {k: v for k, v in kept["schedule"].items() if k != "steps" or v is not None}
    if isinstance(kept.get("data"), Mapping) and "lengths" in kept["data"]:
        kept["data"] = {**kept["data"], "lengths": parse_lengths(kept["data"]["lengths"])}
    result = canonical(kept)
    for key, value in (INTRODUCED if introduced is None else introduced).items():
        _leave_out(result, key.split("."), canonical(value, key))
    return _without_empty(result)


def completed(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a run of any age, with the keys that came after it."""
    full = dict(config)
    for key, value in _LATER.items():
        group, _, name = key.rpartition(".")
        if not group:
            full.setdefault(key, deepcopy(value))
        elif isinstance(full.get(group), Mapping):
            full[group] = {name: value, **full[group]}
    return full


def run_hash(config: Mapping[str, Any]) -> str:
    """10 hexadecimal digits that name the run: science, seeds, results version, source of outside components.

    The folder that the configuration notes for those is put to use, where it is there: another may be by now.
    """
    _look_for_components(config)
    return _hash(scientific(config))


def variant_hash(config: Mapping[str, Any]) -> str:
    """As `run_hash` without the seeds: equal for runs that are repetitions of each other."""
    _look_for_components(config)
    return _hash({k: v for k, v in scientific(config).items() if k not in _SEEDS})


def _look_for_components(config: Mapping[str, Any]) -> None:
    folder = _mapping(config, "run").get("components")
    if isinstance(folder, str) and Path(folder).is_dir():
        outside.use_again(folder)


def canonical(value: Any, key: str = "") -> Any:
    """`value` in plain Python with equal numbers alike. Raises ConfigError naming `key` where that is impossible."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return int(value) if value.is_integer() else value
        return {"float": str(value)}
    if isinstance(value, Mapping):
        return {str(k): canonical(v, f"{key}.{k}" if key else str(k)) for k, v in value.items()}
    if isinstance(value, list | tuple | range):
        return [canonical(item, f"{key}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a numpy scalar
        return canonical(value.item(), key)
    raise ConfigError(
        f"{key}: a {type(value).__name__} cannot be part of a configuration; write plain values."
    )


def targets(config: Any) -> list[str]:
    """Every ``_target_`` in `config`, sorted."""
    if isinstance(config, Mapping):
        here = [config["_target_"]] if isinstance(config.get("_target_"), str) else []
        return sorted({*here, *(name for value in config.values() for name in targets(value))})
    if isinstance(config, list | tuple):
        return sorted({name for value in config for name in targets(value)})
    return []


def source_hash(names: Iterable[str]) -> str | None:
    """Hash of the source files of those `names` (dotted) that live outside the package, or None if none does.

    Nothing is imported. A name that cannot be found contributes nothing: building it will say so. A name that is
    found in a package's ``__init__`` stands for the whole package, since it may be defined in any of its files. What a
    file imports from beside itself counts with it (`sources.helpers`).
    """
    digest = hashlib.blake2b(digest_size=16)
    found = False
    beside: dict[str, Path] = {}
    for name in sorted(set(names)):
        if name.split(".")[0] in _LIBRARIES:
            continue
        file, base = source_file(name), module_folder(name)
        if file is None:
            continue
        whole = file.parent if file.name == "__init__.py" else None
        own = sorted(whole.rglob("*.py")) if whole else [file]
        for path in own:
            found |= _add(digest, f"{name}\0{path.relative_to(whole).as_posix() if whole else ''}", path)
            if base is not None and path.is_relative_to(base):
                beside |= {p.relative_to(base).as_posix(): p for p in helpers(path, base) if p not in own}
    for name, path in sorted(beside.items()):
        _add(digest, f"\0{name}", path)
    return digest.hexdigest() if found else None


def _add(digest: Any, name: str, path: Path) -> bool:
    """Whether the source could be read."""
    try:
        source = path.read_bytes().replace(b"\r\n", b"\n")
    except OSError:
        return False
    digest.update(f"{name}\0{len(source)}\0".encode("utf-8", "surrogatepass") + source)
    return True


def _hash(science: dict[str, Any]) -> str:
    content = {"results_version": RESULTS_VERSION, "config": science}
    if source := source_hash(targets(science)):
        content["source"] = source
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()[:HASH_LENGTH]


def _mapping(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = config.get(key)
    return value if isinstance(value, Mapping) else {}


def _leave_out(tree: Any, path: list[str], value: Any) -> None:
    *parents, last = path
    for name in parents:
        tree = tree.get(name) if isinstance(tree, dict) else None
    # json, since 1 == True in Python
    if isinstance(tree, dict) and last in tree and json.dumps(tree[last]) == json.dumps(value):
        del tree[last]


def _without_empty(tree: dict[str, Any]) -> dict[str, Any]:
    cleaned = {k: _without_empty(v) if isinstance(v, dict) else v for k, v in tree.items()}
    return {k: v for k, v in cleaned.items() if v != {}}
