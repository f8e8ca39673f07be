"""A symmetry certificate, and the three axes of length, as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

Row = dict[str, Any]

_DECLARED = {True: "yes", False: "no", None: ""}
_AXES = {
    "index": "larger index",
    "distance": "larger distances",
    "gap": "a gap",
    "keys": "more keys",
    "length": "longer input",
}
_EXPLAINED = (
    "Index: position numbers + what is in brackets. Distances: numbers × it, a neighbour's too. Gap: numbers + it from "
    "one symbol on. Keys: so many distractors between the symbols, at numbers that are there."
)


def print_certificate(
    title: str,
    found: Sequence[Row],
    rows: Sequence[Row],
    *,
    strict: bool = False,
    console: Console | None = None,
) -> None:
    """What is declared and what was measured; then each layer, where `rows` hold any; then what does not agree."""
    console = console or _console()
    about = f"{rows[0]['sequences']} sequences of {rows[0]['length']} symbols" if rows else ""
    table = Table(title=f"{title}\n{about}", title_justify="left")
    for name in ("property", "declared", "measured", "", "fp32 ÷‖f‖", "÷‖f−f′‖", "fp64 ÷‖f‖", "÷‖f−f′‖"):
        table.add_column(name, justify="right" if "÷" in name else "left", no_wrap=True)
    for line in found:
        table.add_row(
            line["property"],
            _DECLARED[line["declared"]],
            line["measured"],
            _mark(line),
            *(
                _error(line[name])
                for name in ("float32", "float32_difference", "float64", "float64_difference")
            ),
        )
    console.print(table)
    if any(row["quantity"].startswith("hidden") for row in rows):
        console.print(_layers(rows, found))
    for line in found:
        reasons = [flag for flag in line["flags"].split(";") if flag.startswith("not_defined")]
        if reasons:
            console.print(f"{line['property']}: {reasons[0].replace('not_defined', 'not defined')}")
    console.print(_verdict(found, strict), soft_wrap=True)


def _mark(line: Row) -> str:
    if line["declared"] and line["measured"] not in ("holds", "not measured"):
        return "BROKEN"
    if line["declared"] is False and line["measured"] == "holds":
        return "undeclared"
    return "agrees" if line["agrees"] else ""


def _verdict(found: Sequence[Row], strict: bool) -> str:
    marks = {
        mark: [line["property"] for line in found if _mark(line) == mark] for mark in ("BROKEN", "undeclared")
    }
    parts = []
    if marks["BROKEN"]:
        parts.append(f"declared, but not seen to hold: {'; '.join(marks['BROKEN'])}.")
    if marks["undeclared"]:
        ends = "strict=true counts that as a failure" if strict else "by these weights, or at this length"
        parts.append(f"holds without being declared ({ends}): {'; '.join(marks['undeclared'])}.")
    if not marks["BROKEN"]:
        parts.append("Everything that is declared and could be measured holds.")
    return " ".join(parts)


def _layers(rows: Sequence[Row], found: Sequence[Row]) -> Table:
    """The float64 error of each hidden state, relative to ‖f(x) − f(x′)‖."""
    hidden = [row for row in rows if row["quantity"].startswith("hidden") and row["dtype"] == "float64"]
    names = list(dict.fromkeys(row["quantity"] for row in hidden))
    table = Table(title="hidden states, fp64 ÷‖f−f′‖ (0 = what the first layer reads)", title_justify="left")
    table.add_column("property", no_wrap=True)
    for name in names:
        table.add_column(name.removeprefix("hidden_"), justify="right", no_wrap=True)
    for line in found:
        own = {row["quantity"]: row for row in hidden if row["action"] == line["action"]}
        if own:
            cells = (_error(own[name]["difference_max"]) if name in own else "" for name in names)
            table.add_row(line["property"], *cells)
    return table


def print_axes(rows: Sequence[Row], count: int, *, console: Console | None = None) -> None:
    """Token accuracy along each axis, side by side for each length that is reached."""
    console = console or _console()
    axes = list(dict.fromkeys(row["axis"] for row in rows))
    short = min(row["length"] for row in rows)
    table = Table(
        title=f"Which length? Token accuracy in %, {short} symbols\nwith what a longer input has ({count} items: ± "
        f"{100 / count**0.5:.1f} at most)",
        title_justify="left",
    )
    table.add_column("as at length", justify="right")
    for axis in axes:
        table.add_column(_AXES[axis], justify="right")
    for reached in sorted({row["reaches"] for row in rows}):
        own = {row["axis"]: row for row in rows if row["reaches"] == reached}
        table.add_row(str(reached), *(_cell(own.get(axis)) for axis in axes))
    console.print(table)
    flags = sorted({flag for row in rows for flag in (row["flags"] or "").split(";") if flag})
    console.print(_EXPLAINED + (f" Flags: {', '.join(flags)}." if flags else ""), soft_wrap=True)


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    accuracy = "not defined" if row["token_accuracy"] is None else f"{100 * row['token_accuracy']:.1f}"
    change = {"index": "+{:.0f}", "distance": "×{:.3g}", "gap": "+{:.0f}", "keys": "+{:.0f}"}.get(row["axis"])
    return accuracy if change is None else f"{accuracy} ({change.format(row['value'])})"


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def _console() -> Console:
    return Console(width=None if Console().is_terminal else 130, highlight=False)
