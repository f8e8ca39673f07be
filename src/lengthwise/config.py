"""Composing a configuration and refusing what is wrong with it, before anything starts.

Hydra composes and checks types. What it lets through is caught here: unknown keys (``+modle.width=8``), values out
of range, lists where a slot takes one option. `check_components` does the same for the options of each component,
against the signature of the class that its ``_target_`` names; it alone imports torch.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lengthwise.errors import ConfigError
from lengthwise.paths import conf_dir
from lengthwise.runs.lengths import parse_lengths
from lengthwise.schema import Schema

CONFIG_NAME = "config"
SLOTS = tuple(f.name for f in dataclasses.fields(Schema) if f.metadata.get("slot"))
"""The component slots: each holds one class, named by ``_target_``, and its options."""

GROUPS = (*SLOTS, "model", "size", "data", "evaluation", "trainer", "callbacks", "wandb", "debug", "study")
"""Every config group."""

_HYDRA_KEYS = {"_target_", "_partial_", "_convert_", "_recursive_", "_args_"}
_SUPPLIED = {
    "attention": {"key_dim", "value_dim", "bias", "output_projection", "dropout", "position"},
    "schedule": {"step"},
}
"""Constructor options that come from the model's own settings, so that a slot must not set them."""


def register_schema() -> None:
    """Make the typed schema known to Hydra under the name that ``config.yaml`` starts from."""
    ConfigStore.instance().store(name="schema", node=Schema, provider="lengthwise")


def compose(overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The checked configuration for `overrides`, as plain containers; the library's way in.

    Raises ConfigError as the command line would.
    """
    refuse_lists(overrides)
    register_schema()
    try:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            return check(hydra_compose(CONFIG_NAME, overrides=list(overrides)))
    except (ConfigCompositionException, MissingConfigException, OverrideParseException) as error:
        raise ConfigError(explain(error)) from error


def refuse_lists(overrides: Sequence[str]) -> None:
    """Refuse ``pe=[rotary,alibi]``: Hydra would merge the two options silently into one component.

    Raises ConfigError, also for an override that cannot be parsed.
    """
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise ConfigError(
            f"{error.override}: {_first_line(error)}. Overrides are written key=value."
        ) from error
    for override in parsed:
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
    """The options of a config group, as shipped."""
    return sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))


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
    if not isinstance(config, DictConfig):  # Hydra has not typed it
        try:
            OmegaConf.merge(OmegaConf.structured(Schema), plain)
        except OmegaConfBaseException as error:
            raise ConfigError(explain(error)) from error
    for part in ("data", "evaluation"):
        plain[part]["lengths"] = parse_lengths(plain[part]["lengths"], f"{part}.lengths")
    for seed in ("init_seed", "data_seed"):
        _in_range(f"{seed}", plain[seed], {"at_least": 0})
    checkpoints = plain["evaluation"]["checkpoints"]
    if not isinstance(checkpoints, list) or not checkpoints or set(checkpoints) - {"last", "best"}:
        raise ConfigError(f"evaluation.checkpoints={checkpoints}: must be a list of last, best or both")
    if plain["data"]["batch_size"] % plain["trainer"]["accumulate"]:
        raise ConfigError(
            f"trainer.accumulate={plain['trainer']['accumulate']} does not divide data.batch_size="
            f"{plain['data']['batch_size']}: the batch is split into that many equal micro-batches"
        )
    return plain


def _walk(node: Any, schema: type, prefix: str) -> None:
    known = {f.name: f for f in dataclasses.fields(schema)}
    types = {name: _dataclass_of(f.type) for name, f in known.items()}
    for key, value in node.items():
        path = f"{prefix}{key}"
        if key not in known:
            while isinstance(value, dict) and len(value) == 1:
                ((key, value),) = value.items()
                path = f"{path}.{key}"
            raise ConfigError(f"{path}={_short(value)}: there is no such key.{hint(path)}")
        nested = types[key]
        if nested is not None:
            if not isinstance(value, dict):
                raise ConfigError(
                    f"{path}={_short(value)}: this is a group of keys, not a value.{hint(path + '.')}"
                )
            _walk(value, nested, f"{path}.")
        elif known[key].metadata.get("slot"):
            if not isinstance(value, dict) or not isinstance(value.get("_target_"), str):
                raise ConfigError(
                    f"{path}={_short(value)}: the slot needs one option that names a class (_target_); "
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
            f"{path}={value}: must be one of {allowed}.{_closest(str(value), metadata['one_of'])}"
        )
    if "at_least" in metadata and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise ConfigError(f"{path}={value}: must be a number")
    if "at_least" in metadata and not value >= metadata["at_least"]:
        raise ConfigError(f"{path}={value}: must be at least {metadata['at_least']}")
    if "below" in metadata and not value < metadata["below"]:
        raise ConfigError(f"{path}={value}: must be below {metadata['below']}")


def check_components(config: dict[str, Any]) -> None:
    """Refuse options that a component's class does not have, and classes that cannot be found.

    Raises ConfigError.
    """
    for slot in SLOTS:
        _check_component(slot, config[slot], _SUPPLIED.get(slot, set()))
    for name, node in config["callbacks"].items():
        if not isinstance(node, dict) or "_target_" not in node:
            raise ConfigError(f"callbacks.{name}={_short(node)}: needs a class (_target_) and its options")
        _check_component(f"callbacks.{name}", node, set())


def _check_component(slot: str, node: dict[str, Any], supplied: set[str]) -> None:
    target = locate(slot, node["_target_"])
    parameters = inspect.signature(target).parameters.values()
    free = node.get("_partial_", False)
    allowed = {
        p.name
        for p in parameters
        if p.kind == p.KEYWORD_ONLY
        or (p.kind == p.POSITIONAL_OR_KEYWORD and (not free or p.default is not p.empty))
    } - supplied
    for key, value in node.items():
        if key in _HYDRA_KEYS or key in allowed:
            continue
        names = f" It takes {', '.join(sorted(allowed))}." if allowed else " It takes none."
        raise ConfigError(
            f"{slot}.{key}={_short(value)}: {target.__name__} has no such option.{names}"
            f"{hint(f'{slot}.{key}', [f'{slot}.{name}' for name in allowed])}"
        )


def locate(slot: str, target: str) -> Any:
    """The class or function at the dotted path `target`.

    Raises ConfigError naming the slot when the module or the name does not exist.
    """
    module, _, name = target.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"{slot}._target_={target}: cannot import {module or target!r} ({error})"
        ) from error
    except AttributeError as error:
        raise ConfigError(f"{slot}._target_={target}: {module} has no {name!r}") from error


def keys() -> list[str]:
    """Every dotted key of the default configuration and of all options shipped: what a typo is compared with."""
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
        for name in options(slot):
            node: Any = OmegaConf.load(conf_dir() / slot / f"{name}.yaml")
            node = node.get(slot, node)
            yield from (f"{slot}.{key}" for key in node if key not in _HYDRA_KEYS)


def hint(path: str, candidates: Sequence[str] | None = None) -> str:
    """`` Did you mean …?`` for the key nearest to `path`, or an empty string."""
    candidates = list(candidates) if candidates else keys()
    leaf = path.rpartition(".")[2]
    same_leaf = [key for key in candidates if key.rpartition(".")[2] == leaf]
    found = difflib.get_close_matches(path, same_leaf, n=1, cutoff=0.0)
    found = found or difflib.get_close_matches(path, candidates, n=1, cutoff=0.6)
    return f" Did you mean {found[0]}?" if found else ""


def _closest(word: str, candidates: Sequence[Any]) -> str:
    found = difflib.get_close_matches(word, [str(c) for c in candidates], n=1)
    return f" Did you mean {found[0]}?" if found else ""


def _short(value: Any) -> str:
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
        return f"{group}={name}: no such option; {known}.{_closest(name, listed)}"
    if found := re.search(r"Could not override '([^']+)'", text):
        key = found.group(1)
        if cause is not None and "not in struct" not in str(cause) and "Key" not in str(cause):
            return f"{key}: {_first_line(cause)}"
        return f"{key}: there is no such key.{hint(key)}"
    if found := re.search(r"Could not append to config", text):
        return _first_line(error)
    if isinstance(error, OmegaConfBaseException):
        key = getattr(error, "full_key", None)
        return f"{key}: {_first_line(error)}" if key else _first_line(error)
    if cause is not None:
        key = getattr(cause, "full_key", None) or ""
        return f"{key}: {_first_line(cause)}"
    return re.sub(r"\s*\n\s*", " ", text.split("\nSee https")[0]).strip()


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]
