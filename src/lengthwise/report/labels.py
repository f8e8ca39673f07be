"""What a variant is called: its encoding, and the other choices in which it differs from those beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from lengthwise.runs import component_name, scientific

_SHARED = ("task", "init_seed", "data_seed")
"""Parts of the identity that never name a variant: what a setting shares, and what a variant is repeated over."""


def labels_of(configs: Mapping[str, dict[str, Any]], named: Collection[str] = ()) -> dict[str, str]:
    """For each variant its encoding, and the other choices in which the variants of this setting differ.

    Choices are those that make a variant (`scientific`). An option is a difference only between variants that have
    the same component in that slot: ``pe.base`` tells two rotary variants apart and says nothing about a learned
    table. What more than half of them share goes unsaid, unless its key (``norm``, ``model.heads``) is among `named`.
    No two labels are the same.
    """
    flats = {
        variant: _flat({name: value for name, value in scientific(config).items() if name not in _SHARED})
        for variant, config in configs.items()
    }
    names = {name for flat in flats.values() for name in flat if not name.endswith("_partial_")}
    slots = {name.removesuffix("._target_") for name in names if name.endswith("._target_")}
    names = {
        f"{name}._target_" if name in slots else name for name in names
    }  # a slot that is null in some variant
    leaves = Counter(name.rpartition(".")[2] for name in names)
    leaves["steps"] += 1  # alone it would read as the number of steps trained
    parts = {variant: [component_name(config["pe"])] for variant, config in configs.items()}
    for name in sorted(names - {"pe._target_"}):
        path = name.removesuffix("._target_")
        owners = [f"{slot}._target_" for slot in slots if path.startswith(f"{slot}.")]
        by_owner: dict[Any, Counter[str]] = {}
        for flat in flats.values():
            by_owner.setdefault(repr([flat.get(owner) for owner in owners]), Counter())[
                repr(flat.get(name))
            ] += 1
        for variant, flat in flats.items():
            values = by_owner[repr([flat.get(owner) for owner in owners])]
            usual = path not in named and 2 * values[repr(flat.get(name))] > values.total()
            if len(values) > 1 and not usual:
                leaf = name.rpartition(".")[2]
                parts[variant].append(
                    _slot_word(path.rpartition(".")[2], flat.get(name))
                    if path in slots
                    else f"{leaf if leaves[leaf] == 1 else name}={flat.get(name)}"
                )
    labels = {variant: " ".join(found) for variant, found in parts.items()}
    count = Counter(labels.values())
    # The source of a component of one's own, for example, is part of a variant and stands in no option.
    return {
        variant: f"{text} variant={variant}" if count[text] > 1 else text for variant, text in labels.items()
    }


def _slot_word(slot: str, target: Any) -> str:
    """``norm=post``; a slot named as its component, ``early_stopping``, is there or is ``early_stopping=none``."""
    name = component_name(target)
    return slot if name == slot else f"{slot}={name}"


def _flat(node: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(node, Mapping):
        return {prefix: node}
    flat: dict[str, Any] = {}
    for key, value in node.items():
        flat |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return flat
