"""The options of each component, checked against the signature of the class that its ``_target_`` names."""

from __future__ import annotations

import inspect
import traceback
import types
import typing
from collections.abc import Sequence
from typing import Any

from lengthwise import edited, outside
from lengthwise.config import HYDRA_KEYS, SLOTS, hint, short
from lengthwise.errors import ConfigError

_SUPPLIED = {
    "attention": {"key_dim", "value_dim", "bias", "output_projection", "dropout", "position"},
    "norm": {"norm_layer", "residual"},
    "activation": {"bias"},
}
"""Constructor options that come from the model's own settings, so that a slot must not set them."""


def check_components(config: dict[str, Any]) -> None:
    """Refuse options that a component's class does not have, and classes that cannot be found.

    Raises ConfigError.
    """
    outside.use_again(config["run"].get("components"))
    for slot in SLOTS:
        check_component(slot, config[slot])
    for name, node in config["callbacks"].items():
        if not isinstance(node, dict) or "_target_" not in node:
            raise ConfigError(f"callbacks.{name}={short(node)}: needs a class (_target_) and its options")
        _check_component(f"callbacks.{name}", node, set())


def check_component(slot: str, node: dict[str, Any]) -> None:
    """Refuse options of a slot's component that its class does not have, and a class that cannot be found.

    Raises ConfigError.
    """
    _check_component(slot, node, _SUPPLIED.get(slot, set()))


def settable(target: Any, *, partial: bool, slot: str = "") -> list[str]:
    """The constructor's options that a slot's node may set."""
    return [
        p.name
        for p in inspect.signature(target).parameters.values()
        if (
            p.kind == p.KEYWORD_ONLY
            or (p.kind == p.POSITIONAL_OR_KEYWORD and (not partial or p.default is not p.empty))
        )
        and p.name not in _SUPPLIED.get(slot, set())
    ]


def _check_component(slot: str, node: dict[str, Any], supplied: set[str]) -> None:
    target = locate(slot, node["_target_"])
    try:
        inspect.signature(target)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{slot}._target_={node['_target_']}: the options that it takes cannot be read ({error}); name a class "
            "or function written in Python"
        ) from error
    allowed = set(settable(target, partial=node.get("_partial_", False))) - supplied
    hints = _hints(target)
    for key, value in node.items():
        if key in HYDRA_KEYS:
            continue
        if key in allowed:
            if key in hints and not fits(value, hints[key]):
                raise ConfigError(
                    f"{slot}.{key}={short(value)}: {target.__name__} takes {_worded(hints[key])} here"
                )
            for name, part in value.items() if isinstance(value, dict) else ():
                if isinstance(part, dict) and "_target_" in part:  # a component made of named components
                    _check_component(f"{slot}.{key}.{name}", part, supplied)
            continue
        names = f" It takes {', '.join(sorted(allowed))}." if allowed else " It takes none."
        raise ConfigError(
            f"{slot}.{key}={short(value)}: {target.__name__} has no such option.{names}"
            f"{hint(f'{slot}.{key}', [f'{slot}.{name}' for name in allowed])}"
        )


def locate(slot: str, target: str) -> Any:
    """The class or function at the dotted path `target`, of the source that there is now.

    Raises ConfigError naming the slot when the module or the name does not exist.
    """
    module, _, name = target.rpartition(".")
    try:
        return getattr(edited.import_module(module), name)
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"{slot}._target_={target}: cannot import {module or target!r} ({error}){_searched(module)}"
        ) from error
    except AttributeError as error:
        raise ConfigError(f"{slot}._target_={target}: {module} has no {name!r}") from error
    except (Exception, SystemExit) as error:  # in somebody's file
        where = [
            frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename
        ]
        line = getattr(error, "lineno", None) or (where[-1].lineno if len(where) > 1 else None)
        raise ConfigError(
            f"{slot}._target_={target}: importing {module} fails"
            f"{'' if line is None else f' (line {line})'}: {type(error).__name__}: {error}"
        ) from error


def _searched(module: str) -> str:
    """Where the file of a module of one's own may lie."""
    name, own = module.partition(".")[0], outside.in_use()
    if name == "lengthwise" or not name:
        return ""
    return f"; it is looked for as {own[-1] / name}.py" if own else f"; {name}.py may lie in a --config-dir"


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value suits a type hint; hints that say nothing about plain values suit all.

    An int is a float, True is not a number, a list is any sequence.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, argument) for argument in arguments)
    if origin is typing.Literal:
        return value in arguments
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (bool, str, type(None)):
        return isinstance(value, hint)
    if origin is tuple and Ellipsis not in arguments:
        return (
            isinstance(value, list | tuple)
            and len(value) == len(arguments)
            and all(fits(item, argument) for item, argument in zip(value, arguments, strict=True))
        )
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, list | tuple) and all(fits(item, arguments[0]) for item in value)
    return True


def _hints(target: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(target.__init__ if inspect.isclass(target) else target)
    except (NameError, TypeError):  # a third party's hints may not resolve
        return {}


def _worded(hint: Any) -> str:
    return hint.__name__ if inspect.isclass(hint) else str(hint).replace("typing.", "")
