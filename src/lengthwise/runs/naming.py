"""Names for people: the factors of a run, and the name of its folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lengthwise.errors import ConfigError
from lengthwise.runs.lengths import format_lengths, parse_lengths

LONGEST = 120
"""Bytes in the name of a run's folder."""

SLOTS = (
    "task", "pe", "positions", "norm", "norm_layer", "attention", "init", "activation", "model", "optimizer",
    "schedule",
)  # fmt: skip

_USUAL = {
    "positions": "sequential",
    "norm_layer": "layer", "attention": "scaled", "init": "default", "activation": "relu",
    "model": "encoder", "readout": "end", "width": 64, "layers": 2, "heads": 4, "dropout": 0, "optimizer": "adamw",
    "lr": 0.003, "batch_size": 32, "lengths": "4-10", "accumulate": 1,
}  # fmt: skip
"""What a folder's name does not mention. For the eye only: folders are found by their hash."""

_LETTERS = {"width": "w", "layers": "l", "heads": "h", "dropout": "drop", "lr": "lr", "batch_size": "b",
            "lengths": "n", "accumulate": "acc"}  # fmt: skip
_SUFFIXES = ("_norm", "_attention", "_init", "_schedule", "_position")


def leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A tree of mappings as one: dotted key -> value."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= leaves(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def component_name(component: Any) -> str:
    """The short name of a slot's content, read from its class: ``…position.t5.T5Bias`` → ``t5``."""
    if component is None:
        return "none"
    target = component.get("_target_") if isinstance(component, Mapping) else component
    if not target or not isinstance(target, str):
        return str(target) if target else "none"
    *modules, name = target.split(".")
    if modules[:1] == ["lengthwise"] and modules[-2:-1] in (["position"], ["positions"], ["attention"]):
        return modules[-1]  # one file an option, of the same name
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    for suffix in _SUFFIXES:
        snake = snake.removesuffix(suffix)
    return "none" if snake == "no" else snake


def factors(config: Mapping[str, Any]) -> dict[str, Any]:
    """The choices of a run, flat, under the names people use: ``{"task": "word_order", "pe": "rotary", …}``.

    `seed` is a number if both seeds are equal, else ``"<init_seed>+<data_seed>"``.
    """

    def get(*path: str) -> Any:
        value: Any = config
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    flat: dict[str, Any] = {slot: component_name(config[slot]) for slot in SLOTS if slot in config}
    flat["readout"] = get("readout")
    flat |= {name: get("model", name) for name in ("width", "layers", "heads", "dropout")}
    flat |= {
        "lr": get("optimizer", "lr"),
        "batch_size": get("data", "batch_size"),
        "lengths": _lengths(get("data", "lengths")),
    }
    flat["accumulate"] = get("trainer", "accumulate")
    flat["label"] = get("run", "label")
    init_seed, data_seed = (
        get(key) if get(key) is not None else get("seed") for key in ("init_seed", "data_seed")
    )
    flat["seed"] = init_seed if init_seed == data_seed else f"{init_seed}+{data_seed}"
    flat |= {"init_seed": init_seed, "data_seed": data_seed}
    return {key: value for key, value in flat.items() if value is not None}


def run_name(config: Mapping[str, Any], hash10: str) -> str:
    """``<task>-<encoding>-<norm>-<what is unusual>-s<seed>-<hash>``: at most 120 bytes of ``a-z 0-9 _ -``.

    Lower case without dots, so that it is one and the same file on every file system.
    """
    flat = factors(config)
    parts = [flat.get(slot, "") for slot in ("task", "pe", "norm")]
    parts += [
        f"{_LETTERS.get(key, '')}{flat[key]}"
        for key, usual in _USUAL.items()
        if flat.get(key, usual) != usual
    ]
    parts.append(flat.get("label", ""))
    ending = "-".join([_safe(f"s{flat['seed']}")[:24], hash10] if "seed" in flat else [hash10])
    slug = "-".join(filter(None, (_safe(str(part)) for part in parts))) or "run"
    return f"{slug[: LONGEST - len(ending) - 1].strip('-_')}-{ending}"


def _safe(text: str) -> str:
    if not text:
        return ""
    plain = text[:1000].encode("ascii", "ignore").decode().lower() or "x"
    plain = re.sub(r"(?<=\d)\.(?=\d)", "p", plain)
    return re.sub(r"[^a-z0-9_-]+", "-", plain).strip("-_")


def _lengths(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return format_lengths(parse_lengths(value))
    except ConfigError:  # naming must not fail: whoever trains says what is wrong
        return str(value)
