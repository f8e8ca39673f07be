"""docs/tasks.md is what the classes say now."""

from __future__ import annotations

from pathlib import Path

from lengthwise.config import options
from lengthwise.task_cards import card, markdown

PAGE = Path(__file__).parents[2] / "docs" / "tasks.md"


def test_the_page_is_up_to_date() -> None:
    """If not: ``lengthwise tasks markdown=docs/tasks.md``."""
    assert PAGE.read_text(encoding="utf-8") == markdown([card(option) for option in options("task")])


def test_what_differs_between_machines_is_left_out() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("\n## text\n")[2].partition("\n## ")[0]
    assert "lengthwise tasks text" in text
    assert card("text")["options"]["digest"] not in text
    assert "digest" not in text and "| length |" not in text
