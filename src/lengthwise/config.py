"""Composing a configuration and refusing what is wrong with it, before anything starts.

Hydra composes and checks types. What it lets through is caught here: unknown keys (``+modle.width=8``), values out
of range, lists where a slot takes one option. The options of each component are `lengthwise.components`' business.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lengthwise.errors import ConfigError
from lengthwise.outside import option_files
from lengthwise.runs.lengths import parse_bin, parse_bins, parse_lengths
from lengthwise.schema import Schema
from lengthwise.sweeps.contrasts import stated_contrasts
from lengthwise.texts import note_text
from lengthwise.tracking import refuse_names

CONFIG_NAME = "config"
SLOTS = tuple(f.name for f in dataclasses.fields(Schema) if f.metadata.get("slot"))
"""The component slots: each holds one class, named by ``_target_``, and its options."""

GROUPS = (*SLOTS, "model", "size", "data", "evaluation", "trainer", "callbacks", "wandb", "debug", "study")
"""Every config group."""

STUDY_KEYS = ("name", "question", "description", "grids", "contrasts", "shows")
"""What a study may say of itself, under ``study``; every other key of its file is one of the configuration."""

PICTURES = ("attention", "positions")
"""What can be drawn of a run, under ``evaluation.pictures``."""

HYDRA_KEYS = {"_target_", "_partial_", "_convert_", "_recursive_", "_args_"}


def register_schema() -> None:
    """Make the typed schema known to Hydra under the name that ``config.yaml`` starts from."""
    ConfigStore.instance().store(name="schema", node=Schema, provider="lengthwise")


def refuse_lists(overrides: Sequence[str]) -> None:
    """Refuse ``pe=[rotary,alibi]``: Hydra would merge the two options silently into one component.

    Raises ConfigError, also for an override that cannot be parsed.
    """
    for override in parse_overrides(overrides):
        group = override.key_or_group
        if group not in GROUPS or override.is_sweep_override() or override.is_delete():
            continue
        value = override.value()
        if isinstance(value, list):
            raise ConfigError(
                f"{override.input_line}: the slot {group!r} takes one option, not a list. "
                f"Use one of {', '.join(options(group))}; "
                f"to run several in turn: -m {group}={','.join(map(str, value))}"
            )
        if not isinstance(value, str) or not value:
            raise ConfigError(
                f"{override.input_line}: the slot {group!r} takes one of {', '.join(options(group))}"
            )


def parse_overrides(overrides: Sequence[str], loader: Any = None) -> list[Override]:
    """Each override as Hydra understands it; `loader` is needed for ``glob(*)``.

    Raises ConfigError for one that cannot be parsed.
    """
    parser = OverridesParser.create(config_loader=loader)
    parsed = []
    for text in overrides:
        try:
            parsed += parser.parse_overrides([text])
        except OverrideParseException as error:
            why = first_line(error)
            if why.startswith("Lexer"):  # a letter or sign that it does not know
                why = f"cannot be read; text with other letters or signs is quoted: \"{text.partition('=')[0]}='…'\""
            raise ConfigError(f"{text}: {why}. Overrides are written key=value.") from error
    return parsed


def parse_values(arguments: Sequence[str], defaults: dict[str, Any]) -> dict[str, Any]:
    """``key=value`` arguments over `defaults`.

    Raises ConfigError for an argument that is not one, or a key that `defaults` lacks.
    """
    values = dict(defaults)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in defaults:
            known = ", ".join(f"{name}=…" for name in defaults)
            raise ConfigError(f"{argument}: must be one of {known}.{hint(key, list(defaults))}")
        values[key] = value
    return values


def options(group: str) -> list[str]:
    """The options of a config group: ours, and those from outside (`lengthwise.outside`)."""
    return list(option_files(group))


def check(config: DictConfig | dict[str, Any]) -> dict[str, Any]:
    """Plain containers with every interpolation resolved, every fixed key known and in range.

    Raises ConfigError naming the key, the value and what would work.
    """
    try:
        plain: Any = OmegaConf.to_container(OmegaConf.create(config), resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(explain(error)) from error
    plain.pop("hydra", None)
    _walk(plain, Schema, "")
    _refuse_infinite(plain, "")
    if not isinstance(config, DictConfig):  # Hydra has not typed it
        try:
            OmegaConf.merge(OmegaConf.structured(Schema), plain)
        except OmegaConfBaseException as error:
            raise ConfigError(explain(error)) from error
    unknown = set(plain["study"]) - set(STUDY_KEYS)
    if unknown:
        name = sorted(unknown)[0]
        raise ConfigError(
            f"study.{name}: a study has no such key; it has {', '.join(STUDY_KEYS)}.{closest(name, STUDY_KEYS)}"
        )
    stated_contrasts(plain["study"])
    for part in ("data", "evaluation"):
        plain[part]["lengths"] = parse_lengths(plain[part]["lengths"], f"{part}.lengths")
    evaluation = plain["evaluation"]
    evaluation["bins"] = parse_bins(evaluation["bins"])
    if evaluation["mean"] is not None:
        evaluation["mean"] = parse_bin(evaluation["mean"], "evaluation.mean")
    try:
        note_text(plain["task"])
    except ValueError as error:
        raise ConfigError(f"task.{error}") from error
    for seed in ("init_seed", "data_seed"):
        _in_range(f"{seed}", plain[seed], {"at_least": 0})
    if not plain["outputs"].strip():
        raise ConfigError("outputs='': name a folder, such as outputs=outputs")
    checkpoints = plain["evaluation"]["checkpoints"]
    known = isinstance(checkpoints, list) and all(name in ("last", "best") for name in checkpoints)
    if not known or not checkpoints:
        raise ConfigError(f"evaluation.checkpoints={checkpoints}: must be a list of last, best or both")
    refuse_names(plain["wandb"])
    pictures = plain["evaluation"]["pictures"]
    if not isinstance(pictures, list) or not all(kind in PICTURES for kind in pictures):
        raise ConfigError(f"evaluation.pictures={pictures}: must be a list of {', '.join(PICTURES)}, or []")
    if plain["data"]["batch_size"] % plain["trainer"]["accumulate"]:
        raise ConfigError(
            f"trainer.accumulate={plain['trainer']['accumulate']} does not divide data.batch_size="
            f"{plain['data']['batch_size']}: the batch is split into that many equal micro-batches"
        )
    return plain


def _refuse_infinite(node: Any, path: str) -> None:
    if isinstance(node, dict):
        for key, value in node.items():
            _refuse_infinite(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for value in node:
            _refuse_infinite(value, path)
    elif isinstance(node, float) and not math.isfinite(node):
        raise ConfigError(f"{path}={node}: must be a finite number")


def _walk(node: Any, schema: type, prefix: str) -> None:
    known = {f.name: f for f in dataclasses.fields(schema)}
    for name, f in known.items():
        if name not in node and f.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{prefix}{name}: this key is missing")
    types = {name: _dataclass_of(f.type) for name, f in known.items()}
    for key, value in node.items():
        path = f"{prefix}{key}"
        if key not in known:
            while isinstance(value, dict) and len(value) == 1:
                ((key, value),) = value.items()
                path = f"{path}.{key}"
            raise ConfigError(f"{path}={short(value)}: there is no such key.{hint(path)}")
        nested = types[key]
        if nested is not None:
            if not isinstance(value, dict):
                raise ConfigError(
                    f"{path}={short(value)}: this is a group of keys, not a value.{hint(path + '.')}"
                )
            _walk(value, nested, f"{path}.")
        elif known[key].metadata.get("slot"):
            if not isinstance(value, dict) or not isinstance(value.get("_target_"), str):
                raise ConfigError(
                    f"{path}={short(value)}: the slot needs one option that names a class (_target_); "
                    f"options: {', '.join(options(key))}"
                )
        else:
            _in_range(path, value, known[key].metadata)


def _dataclass_of(annotation: Any) -> type | None:
    from lengthwise import schema

    nested = getattr(schema, annotation, None) if isinstance(annotation, str) else annotation
    return nested if dataclasses.is_dataclass(nested) and isinstance(nested, type) else None


def _in_range(path: str, value: Any, metadata: Any) -> None:
    if value is None:
        return
    if "one_of" in metadata and value not in metadata["one_of"]:
        allowed = ", ".join(map(str, metadata["one_of"]))
        raise ConfigError(
            f"{path}={value}: must be one of {allowed}.{closest(str(value), metadata['one_of'])}"
        )
    numeric = {"at_least", "above"} & set(metadata)
    if numeric and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise ConfigError(f"{path}={value}: must be a number")
    if "at_least" in metadata and not value >= metadata["at_least"]:
        raise ConfigError(f"{path}={value}: must be at least {metadata['at_least']}")
    if "above" in metadata and not value > metadata["above"]:
        raise ConfigError(f"{path}={value}: must be above {metadata['above']}")
    if "below" in metadata and not value < metadata["below"]:
        raise ConfigError(f"{path}={value}: must be below {metadata['below']}")


def keys() -> list[str]:
    """Every dotted key of the default configuration and of all options: what a typo is compared with."""
    return sorted({*_schema_keys(Schema, ""), *_option_keys()})


def _schema_keys(schema: type, prefix: str) -> Iterator[str]:
    for f in dataclasses.fields(schema):
        nested = _dataclass_of(f.type)
        if nested is None:
            yield prefix + f.name
        else:
            yield from _schema_keys(nested, f"{prefix}{f.name}.")


def _option_keys() -> Iterator[str]:
    for slot in SLOTS:
        for path in option_files(slot).values():
            yield from (f"{slot}.{key}" for key in _options_in(path, slot))


def _options_in(path: Path, slot: str) -> list[str]:
    """What the option of `slot` in this file can be told."""
    try:
        node: Any = OmegaConf.load(path)
        return [key for key in node.get(slot, node) if key not in HYDRA_KEYS]
    except Exception:  # a file that is no option's: whoever chooses it is told
        return []


def hint(path: str, candidates: Sequence[str] | None = None) -> str:
    """`` Did you mean …?`` for the key nearest to `path`, or an empty string."""
    candidates = [key for key in candidates or keys() if key != path]
    leaf = path.rpartition(".")[2]
    same_leaf = [key for key in candidates if key.rpartition(".")[2] == leaf]
    found = difflib.get_close_matches(path, same_leaf, n=1, cutoff=0.0)
    found = found or difflib.get_close_matches(path, candidates, n=1, cutoff=0.6)
    if not found and len(path) < 4:  # two letters in the wrong order are half of ``pe``
        found = difflib.get_close_matches(
            path, [key for key in candidates if "." not in key], n=1, cutoff=0.5
        )
    return f" Did you mean {found[0]}?" if found else ""


def closest(word: str, candidates: Sequence[Any]) -> str:
    """`` Did you mean …?`` for the candidate nearest to `word`, or an empty string."""
    found = difflib.get_close_matches(word, [str(c) for c in candidates], n=1)
    return f" Did you mean {found[0]}?" if found else ""


def short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def explain(error: Exception) -> str:
    """One clear message for an error of Hydra or OmegaConf, with the nearest match where there is one."""
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else None
    text = str(error)
    if found := re.search(r"Could not find '([^']+)/([^'/]+)'", text):
        group, name = found.groups()
        listed = re.findall(r"^\t(\S+)$", text, flags=re.M) or options(group)
        known = f"options: {', '.join(listed)}" if listed else "there is no such slot"
        return f"{group}={name}: no such option; {known}.{closest(name, listed)}"
    if found := re.search(r"Could not override '([^']+)'", text):
        key = found.group(1)
        if cause is not None and "not in struct" not in str(cause) and "Key" not in str(cause):
            return f"{key}: {first_line(cause)}"
        return f"{key}: {_elsewhere(key) or f'there is no such key.{hint(key)}'}"
    if "Ambiguous value for argument" in text:
        key, _, value = text.split("'")[1].partition("=")
        return f"{key}={value}: several values are a sweep, with -m; one list is written {key}=[{value}]"
    if found := re.search(r"Could not append to config. An item is already at '([^']+)'", text):
        return f"+{found[1]}: there is such a key; leave out the +"
    if "Could not append to config" in text:
        return first_line(error)
    if isinstance(error, OmegaConfBaseException):
        key = getattr(error, "full_key", None)
        return f"{key}: {first_line(error)}" if key else first_line(error)
    if cause is not None:
        key = getattr(cause, "full_key", None) or ""
        return f"{key}: {first_line(cause)}"
    return re.sub(r"\s*\n\s*", " ", text.split("\nSee https")[0]).strip()


def _elsewhere(key: str) -> str | None:
    """For an option that the chosen component does not have: which ones do."""
    slot, _, option = key.partition(".")
    if slot not in SLOTS or "." in option:
        return None
    owners = [name for name, path in option_files(slot).items() if option in _options_in(path, slot)]
    return f"the chosen option of {slot} has no such key; {', '.join(owners)} would" if owners else None


def first_line(error: BaseException) -> str:
    """Of what an error says; OmegaConf's commonest two in words."""
    line = str(error).strip().splitlines()[0]
    if re.fullmatch(r"Cannot merge (Dict|List)Config with (Dict|List)Config", line):
        return "takes what its default is, a mapping {…} or a list […], and was given the other"
    if found := re.fullmatch(r"Value (.+) of type '\w+' could not be converted to (\w+)", line):
        kinds = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}
        return f"takes {kinds.get(found.group(2), found.group(2))}, not {found.group(1)}"
    return line
