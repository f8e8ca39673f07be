"""What one run found, printed after it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from lengthwise.errors import RunError
from lengthwise.evaluation.perplexity import perplexity
from lengthwise.evaluation.verdict import NOT_AS_TRAINED, SUCCESS
from lengthwise.runs import RunFolder, read_table
from lengthwise.runs.lengths import SLIDING, bin_of
from lengthwise.runs.tested import TRAINED, current_rows

_TEXT = ("loss", "perplexity", "perplexity, sliding window")
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
        if any(row["stratum"] == "all" for row in rows):
            console.print(_table(rows, checkpoint, folder.read_config()["data"]["lengths"]))
        if any(bin_of(row["stratum"]) for row in rows):
            console.print(_bins(rows))
        if evaluation_id == TRAINED:
            _means(folder.status().results, checkpoint, console)
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
    text = any(row["stratum"] == SLIDING for row in rows)
    overlaps = any(row.get("train_overlap") for row in rows)
    table = Table(title=f"checkpoint {checkpoint}, accuracy in %", title_justify="left")
    for name in (
        "length",
        "trained",
        "n",
        "token accuracy",
        "exact match",
        *(_STRATA[s] for s in strata),
        *(_TEXT if text else ()),
        *(["seen in training"] if overlaps else []),
        "flags",
    ):
        table.add_column(name, justify="left" if name == "flags" else "right")
    for row in sorted((r for r in rows if r["stratum"] == "all"), key=lambda r: r["length"]):
        inside = {r["stratum"]: r for r in rows if r["length"] == row["length"]}
        sliding = inside.get(SLIDING, {}).get("loss")
        table.add_row(
            str(row["length"]),
            "yes" if row["length"] in trained and NOT_AS_TRAINED not in (row["flags"] or "") else "",
            str(row["n"]),
            _percent(row["token_accuracy"]),
            _percent(row["exact_match"]),
            *(_percent(inside[s]["token_accuracy"]) if s in inside else "" for s in strata),
            *(
                [_decimals(row["loss"]), *(_decimals(perplexity(at)) for at in (row["loss"], sliding))]
                if text
                else []
            ),
            *([_overlap(row)] if overlaps else []),
            row["flags"] or "",
        )
    return table


def _bins(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="over bins of lengths, accuracy in %", title_justify="left")
    for name in ("lengths", "n", "token accuracy", "exact match", "seen in training", "flags"):
        table.add_column(name, justify="left" if name == "flags" else "right")
    found = {bounds: row for row in rows if (bounds := bin_of(row["stratum"]))}
    for (low, high), row in sorted(found.items()):
        figures = (_percent(row["token_accuracy"]), _percent(row["exact_match"]), _overlap(row))
        table.add_row(f"{low}-{high}", str(row["n"]), *figures, row["flags"] or "")
    return table


def _means(results: Mapping[str, Any], checkpoint: str, console: Console) -> None:
    """The means over ranges of lengths that were asked for (``evaluation.mean``)."""
    start = f"{checkpoint}/token_accuracy/mean_"
    for name, token in results.items():
        if name.startswith(start):
            exact = results.get(name.replace("token_accuracy", "exact_match"))
            said = f"token accuracy {_percent(token)}, exact match {_percent(exact)}"
            missing = "not every one of these lengths has a figure"
            console.print(f"mean over {name.removeprefix(start)}: {said if token is not None else missing}")


def _overlap(row: dict[str, Any]) -> str:
    """The share of the test inputs that training has seen; a lower bound is named so."""
    share = row.get("train_overlap")
    if share is None:
        return ""
    return _percent(share) if row.get("overlap_is") == "exact" else f">= {_percent(share)}"


def _decimals(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
