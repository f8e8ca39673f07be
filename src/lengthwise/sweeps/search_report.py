"""What a search found: a table of its trials, what failed, and the best one as a command."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lengthwise.runs.atomic import write_atomic
from lengthwise.sweeps.display import aligned, say
from lengthwise.sweeps.trials import Trials

if TYPE_CHECKING:
    from lengthwise.sweeps.search import OptunaSearch

_SHOWN = 20


def report(search: OptunaSearch, trials: Trials) -> int:
    """Print it, and write ``trials.csv`` into the search's folder; 1 where a trial failed or none has a value."""
    rows = rows_of(search, trials)
    table = search.folder / "trials.csv"
    _write(table, rows)
    counted, failed, impossible, best = trials.counted, trials.failed(), trials.impossible(), trials.best()
    parts = [f"{len(counted)} trials", f"{sum(map(trials.is_complete, counted))} done"]
    parts += [f"{sum(map(trials.is_pruned, counted))} pruned", f"{len(failed)} failed"]
    parts += [f"{len(impossible)} left out as impossible"] if impossible else []
    say(f"search {search.name}: {', '.join(parts)}")
    for line in _lines(rows[:_SHOWN]):
        say(f"  {line}")
    say(f"  {f'… {len(rows) - _SHOWN} more; ' if len(rows) > _SHOWN else ''}all with their runs in {table}")
    for trial in failed:
        say(f"  failed: trial {trial.number}: {' '.join(point_of(search, trial))}")
        say(f"    {trial.user_attrs.get('reason', 'no reason is known')}")
    if failed:
        say("The same command again retries what failed.")
    if best is not None:
        say(f"best: trial {best.number}, {search.objective.name} {best.value:.6g}")
        say(f"  {search.outputs / 'runs' / str(best.user_attrs.get('run', ''))}")
        say(f"  python train.py {shlex.join(command_of(search, best))}")
    return 1 if failed or best is None else 0


def rows_of(search: OptunaSearch, trials: Trials) -> list[dict[str, Any]]:
    """One a trial, the best first, then those without a value."""
    name, sign = search.objective.name, -1 if search.objective.direction == "maximize" else 1
    rows = []
    for trial in trials.counted:
        done = trials.is_complete(trial)
        head = {"trial": trial.number, "state": "done" if done else trial.state.name.lower()}
        params = dict(text.split("=", 1) for text in point_of(search, trial))
        value = trial.value if done else None
        rows.append({**head, name: value, **params, "run": trial.user_attrs.get("run", "")})
    return sorted(rows, key=lambda row: (row[name] is None, sign * (row[name] or 0.0), row["trial"]))


def command_of(search: OptunaSearch, trial: Any) -> list[str]:
    """The overrides that make the trial's run, alone."""
    fixed = [word for word in search.space.fixed if not word.lstrip("+").startswith("sweep.")]
    return [*fixed, *point_of(search, trial)]


def point_of(search: OptunaSearch, trial: Any) -> list[str]:
    """What was drawn for a trial, as overrides; nothing where it ended before that."""
    return search.space.point(trial.params) if len(trial.params) == len(search.space.dimensions) else []


def _lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if key != "run"]
    texts = [[_text(row.get(column)) for column in columns] for row in rows]
    return aligned([columns, *texts], right=(0,))


def _text(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(path, buffer.getvalue().encode())
