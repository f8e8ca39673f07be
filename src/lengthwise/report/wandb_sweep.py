"""What W&B shows of a whole sweep: a run of job type "report" with the aggregate table and the page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lengthwise.console import say
from lengthwise.errors import LengthwiseError
from lengthwise.report.page import render
from lengthwise.report.reading import Reader
from lengthwise.report.study import part_of
from lengthwise.report.tables import accuracy_table
from lengthwise.runs.atomic import write_atomic
from lengthwise.sweeps.record import DONE, FAILED, read
from lengthwise.tracking import TrackedRun, not_uploaded, reminder


def show_sweep(
    outputs: str | Path, name: str, wandb: Mapping[str, Any], study: Mapping[str, Any] | None = None
) -> None:
    """Show the recorded sweep `name` in W&B, in the group of its runs; one that was shown before is replaced. Name the
    runs that did not reach the server whole.

    wandb: how, see `options_of`. study: how the runs are to be shown, see `part_of`. What goes wrong is said and fails
    nothing: the run folders have it all.
    """
    record = read(Path(outputs) / "sweeps" / f"{name}.json")
    if wandb["mode"] == "disabled" or record is None:
        return
    try:
        _show(outputs, record, {**wandb, "group": wandb["group"] or name}, study)
    except LengthwiseError as error:
        say(f"W&B has no report of this sweep: {error}")
    except Exception as error:
        say(f"W&B has no report of this sweep: {type(error).__name__}: {error}")
    ids = [cell["run"].rpartition("-")[2] for cell in record["cells"]]
    if waiting := not_uploaded(outputs, ids):
        say(reminder(waiting))


def _show(
    outputs: str | Path, record: dict[str, Any], options: Mapping[str, Any], study: Mapping[str, Any] | None
) -> None:
    states = [cell["state"] for cell in record["cells"]]
    reader, name = Reader(outputs), record["id"]
    part = part_of(outputs, [cell["run"] for cell in record["cells"]], study, reader)
    run = TrackedRun(
        outputs,
        run_id=f"report-{name}",
        name=f"report of {name}",
        factors={"sweep": name, "study": record["study"], "command": record["command"]},
        job_type="report",
        keep_earlier=False,
        **options,
    )
    with run, TemporaryDirectory() as scratch:
        run.open()
        table = accuracy_table(part).astype(object)
        run.log_table("accuracy", table.where(table.notna(), None).to_dict("records"))
        page = Path(scratch) / "report.html"
        write_atomic(page, render([part], part, title=name).encode("utf-8", "backslashreplace"))
        run.log_page("page", page)
        run.summarise({"runs": len(states), "done": states.count(DONE), "failed": states.count(FAILED)})
