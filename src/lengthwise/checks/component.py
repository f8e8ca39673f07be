"""From ``pe=mine`` to its report: what is tried out depends on the slot."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from lengthwise.checks.battery import MODEL_SLOTS, check_model
from lengthwise.checks.options import check_options
from lengthwise.checks.tasks import check_task
from lengthwise.checks.training import check_training
from lengthwise.checks.verdicts import Report
from lengthwise.components import locate
from lengthwise.composing import compose
from lengthwise.config import SLOTS
from lengthwise.errors import ConfigError
from lengthwise.sources import source_file


def check_component(overrides: Sequence[str]) -> Report:
    """Try out the component that the first of `overrides` names (``pe=mine``); the others set its options.

    Raises ConfigError where there is no such component, or none is named.
    """
    named = [word for word in overrides if "=" in word and word.partition("=")[0] in SLOTS]
    if not named:
        raise ConfigError(
            f"name a component to check, SLOT=OPTION, such as pe=alibi; slots are {', '.join(SLOTS)}"
        )
    slot, _, option = named[0].partition("=")
    config = compose(overrides)
    node: dict[str, Any] = config[slot]
    target = locate(slot, node["_target_"])
    if not callable(target):
        raise ConfigError(f"{slot}._target_={node['_target_']}: that is neither a class nor a function")
    report = Report(f"{slot}={option}: {node['_target_']} ({_file(target, node['_target_'])})")
    if not report.add("options", lambda: check_options(slot, option, node, target)):
        return report
    broken = None
    if slot in MODEL_SLOTS:
        broken = check_model(report, slot, node)
    elif slot == "task":
        check_task(report, config)
    # One meant for numbers that the task gives has to have such a task.
    needs = ["task=copy", "positions=task"] if getattr(target, "needs_supplied", False) else []
    given = {word.partition("=")[0] for word in overrides}
    words = [*(word for word in needs if word.partition("=")[0] not in given), *overrides]
    check_training(report, slot, words, broken=broken)
    return report


def _file(target: Any, name: str) -> str:
    try:
        return inspect.getsourcefile(target) or "?"
    except (TypeError, OSError):
        return str(source_file(name) or "?")
