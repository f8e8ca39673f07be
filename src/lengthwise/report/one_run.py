"""What one run found, printed after it ends."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from lengthwise.errors import RunError
from lengthwise.evaluation.verdict import SUCCESS
from lengthwise.runs import RunFolder, read_table
from lengthwise.runs.tested import TRAINED, current_rows

_STRATA = {"evidence_inside": "evidence inside", "evidence_outside": "evidence outside"}


def print_run(
    folder: RunFolder,
    *,
    checkpoint: str | None = None,
    evaluation_id: str = TRAINED,
    console: Console | None = None,
) -> None:
    """Accuracy of a checkpoint's present weights against length, and where the run's record lies.

    checkpoint: None = the first of the run's ``evaluation.checkpoints`` that is tested.
    """
    console = console or Console(width=None if Console().is_terminal else 110, highlight=False)
    checkpoint, rows = _tested(folder, checkpoint, evaluation_id)
    if rows:
        console.print(_table(rows, checkpoint, folder.read_config()["data"]["lengths"]))
    else:
        console.print(f"checkpoint {checkpoint}: not tested")
    reach = folder.status().results.get(f"{checkpoint}/exact_match/reach")
    if rows and reach is not None and evaluation_id == TRAINED:
        console.print(f"reach (exact match >= {SUCCESS} at every tested length up to): {reach}")
    console.print(f"record: {folder.path}", soft_wrap=True)


def one_line(folder: RunFolder) -> str:
    """The same in a few words, for a run that is one of many."""
    try:
        checkpoint, _ = _tested(folder, None, TRAINED)
        results = folder.status().results
    except RunError:
        return ""
    found = [
        f"{shown} {_percent(results.get(f'{checkpoint}/token_accuracy/{name}'))}"
        for name, shown in (("in_distribution", "trained lengths"), ("extrapolation", "longer"))
    ]
    return f"token accuracy in %: {', '.join(found)}"


def _tested(
    folder: RunFolder, checkpoint: str | None, evaluation_id: str
) -> tuple[str, list[dict[str, Any]]]:
    """The checkpoint to show, and its rows; without a wish the first that has any."""
    rows = read_table(folder.length_csv)
    names = [checkpoint] if checkpoint else folder.read_config()["evaluation"]["checkpoints"]
    found = {name: current_rows(rows, name, evaluation_id) for name in names}
    shown = next((name for name in names if found[name]), names[0])
    return shown, found[shown]


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
