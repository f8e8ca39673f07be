"""The lengths that a user gets with a task: conf/task/ is the one place that names them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lengthwise.tasks import Task

CONF = Path(__file__).parents[2] / "conf" / "task"


@cache
def _conf(name: str) -> dict[str, Any]:
    return yaml.safe_load((CONF / f"{name}.yaml").read_text())


def train_lengths(task: Task) -> list[int]:
    """Those of ``data.lengths`` that the task's options allow."""
    return _legal(task, _conf(task.name)["data"]["lengths"])


def test_lengths(task: Task) -> list[int]:
    """Those of ``evaluation.lengths`` that the task's options allow."""
    return _legal(task, _conf(task.name)["evaluation"]["lengths"])


test_lengths.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it by its name


def _legal(task: Task, lengths: list[int]) -> list[int]:
    def legal(length: int) -> bool:
        try:
            task.check_length(length)
        except ValueError:
            return False
        return True

    return [length for length in lengths if legal(length)] or [task.min_length]
