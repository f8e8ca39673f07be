"""The YAML file of an option against the class that it names."""

from __future__ import annotations

import inspect
from typing import Any

from lengthwise.components import check_component, settable
from lengthwise.composing import compose
from lengthwise.config import HYDRA_KEYS
from lengthwise.evaluation.properties import PropertyError
from lengthwise.texts import filled_in


def check_options(slot: str, option: str, node: dict[str, Any], target: Any) -> str:
    """The YAML file sets options that the class has, to the defaults that the class gives them.

    Returns them in words, and which it leaves out.
    Raises ConfigError for an option that the class does not have; PropertyError otherwise.
    """
    check_component(slot, node)
    shipped = {k: v for k, v in compose([f"{slot}={option}"])[slot].items() if k not in HYDRA_KEYS}
    allowed = settable(target, partial=bool(node.get("_partial_", False)), slot=slot)
    parameters = inspect.signature(target).parameters
    for name, value in shipped.items():
        if name in filled_in(shipped):
            continue
        default = parameters[name].default
        if default is not inspect.Parameter.empty and not _equal(value, default):
            raise PropertyError(
                f"{name} is {value!r} in {option}.yaml and {default!r} in the class: whoever uses one without the "
                "other gets another component"
            )
    missing = [name for name in allowed if name not in shipped]
    words = ", ".join(f"{k}={v}" for k, v in node.items() if k not in HYDRA_KEYS) or "none"
    return words + (f"; not in {option}.yaml: {', '.join(missing)}" if missing else "")


def _equal(value: Any, default: Any) -> bool:
    """Whether they are the same; nothing may be written in several ways."""
    if value in (None, {}, []) and default in (None, (), {}, []):
        return True
    return bool(value == (list(default) if isinstance(default, tuple) else default))
