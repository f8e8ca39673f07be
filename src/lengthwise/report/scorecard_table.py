"""Scorecards on the terminal: side by side where there is room, one under the other where there is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lengthwise.report.scorecard_words import COLUMNS, Card, Column, cell, reasons, symmetries

_PLAIN_WIDTH = 170
_NARROW = 110
_TABLES = ((0, 1, 2, 3, 11), (4, 5, 6, 10), (7, 8, 9, 12, 13, 14))
"""Columns that stand together; one table each."""


def print_cards(cards: Sequence[Card], shown: Mapping[str, Any], console: Console | None = None) -> None:
    """All cards with what their columns mean, why there are dashes, and where declared and measured facts disagree."""
    console = console or _console()
    sizes = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown["sizes"].items())
    console.print(Text(f"{len(cards)} encoding{'s' * (len(cards) > 1)}, untrained: {sizes}", style="bold"))
    possible = [card for card in cards if not card["error"]]
    if len(possible) == 1 or console.width < _NARROW:
        for card in possible:
            console.print(_upright(card))
    else:
        for numbers in _TABLES:
            console.print(_side_by_side(possible, [COLUMNS[number] for number in numbers]))
    for card in cards:
        if card["error"]:
            console.print(
                Text.assemble(("not possible: ", "red"), (card["encoding"], "bold"), f": {card['error']}")
            )
    for card in possible:
        for mismatch in card["mismatches"]:
            console.print(
                Text.assemble(
                    ("declared ≠ measured: ", "yellow"), (card["encoding"], "bold"), f": {mismatch}"
                )
            )
        for note in card["notes"]:
            console.print(Text(f"• {card['encoding']}: {note}"))
    for reason, of in reasons(possible):
        console.print(Text(f"– {reason} ({', '.join(of)})", style="dim"))


def _side_by_side(cards: Sequence[Card], columns: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("encoding", style="bold", no_wrap=True)
    for column in columns:
        table.add_column(column.name)
    for card in cards:
        table.add_row(_name(card), *(cell(card, column) for column in columns))
    return table


def _upright(card: Card) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(_name(card), style="bold")
    table.add_column("measured")
    for column in COLUMNS:
        table.add_row(column.name, cell(card, column))
    declared = card["declared"]
    table.add_section()
    for name, said in (
        ("declared symmetries", symmetries(card)),
        ("declared max_length", declared["max_length"] or "unbounded"),
        ("declared in bfloat16", declared["distinct_until"] or "no limit up to 4096"),
        ("declared prefix-stable", "yes" if declared["prefix_stable"] else "no"),
        ("paper", declared["paper"]),
    ):
        table.add_row(name, str(said))
    return table


def _name(card: Card) -> str:
    return card["encoding"] + (f" ({card['model']})" if card["model"] != "encoder" else "")


def _console() -> Console:
    return Console(width=None if Console().is_terminal else _PLAIN_WIDTH, highlight=False)
