"""What one run found, printed after it ends."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from lengthwise.runs import RunFolder, read_table

_STRATA = {"evidence_inside": "evidence inside", "evidence_outside": "evidence outside"}


def print_run(folder: RunFolder, *, evaluation_id: str = "trained", console: Console | None = None) -> None:
    """Accuracy against length of the run's first tested checkpoint, and where its record lies."""
    console = console or Console(width=None if Console().is_terminal else 110, highlight=False)
    config = folder.read_config()
    checkpoint = config["evaluation"]["checkpoints"][0]
    rows = [
        row
        for row in read_table(folder.length_csv)
        if row["checkpoint"] == checkpoint and row["evaluation_id"] == evaluation_id
    ]
    if rows:
        console.print(_table(rows, checkpoint, config["data"]["lengths"]))
    results = folder.status().results
    if (reach := results.get(f"{checkpoint}/exact_match/reach")) is not None and evaluation_id == "trained":
        console.print(f"reach (exact match >= 0.9 at every tested length up to): {reach}")
    console.print(f"record: {folder.path}", soft_wrap=True)


def print_line(folder: RunFolder) -> None:
    """The same in one line, for a run that is one of many."""
    status = folder.status()
    checkpoint = folder.read_config()["evaluation"]["checkpoints"][0]
    found = [
        f"{shown} {_percent(status.results.get(f'{checkpoint}/token_accuracy/{name}'))}"
        for name, shown in (("in_distribution", "trained lengths"), ("extrapolation", "longer"))
    ]
    print(f"{status.state} at step {status.steps}; token accuracy in %: {', '.join(found)}", flush=True)


def _table(rows: list[dict[str, Any]], checkpoint: str, trained: list[int]) -> Table:
    strata = [name for name in _STRATA if any(row["stratum"] == name for row in rows)]
    table = Table(title=f"checkpoint {checkpoint}, accuracy in %", title_justify="left")
    for name in (
        "length",
        "trained",
        "n",
        "token accuracy",
        "exact match",
        *(_STRATA[s] for s in strata),
        "flags",
    ):
        table.add_column(name, justify="left" if name == "flags" else "right")
    for row in sorted((r for r in rows if r["stratum"] == "all"), key=lambda r: r["length"]):
        inside = {r["stratum"]: r for r in rows if r["length"] == row["length"]}
        table.add_row(
            str(row["length"]),
            "yes" if row["length"] in trained else "",
            str(row["n"]),
            _percent(row["token_accuracy"]),
            _percent(row["exact_match"]),
            *(_percent(inside[s]["token_accuracy"]) if s in inside else "" for s in strata),
            row["flags"] or "",
        )
    return table


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
