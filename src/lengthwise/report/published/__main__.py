"""``python -m lengthwise.report.published > docs/published.md``: every published figure, with where it is from."""

from __future__ import annotations

import sys

from lengthwise.report.published import MARKS, NOT_COMPARED, Table, published
from lengthwise.report.words import listed
from lengthwise.runs import format_lengths

_HEAD = """# Published figures

Made by `python -m lengthwise.report.published > docs/published.md` from the files in `src/lengthwise/report/published`.
These are other people's results, with the protocol behind them. `report.py` shows a table beside yours where your runs
have its task with the same options, the same shape of model, the same trained and tested lengths and the same measure.
What else differs, such as the size of the model or the number of steps, is said row by row as far as it is in the last
column; {not_compared} are not compared. Where a table is *beside nothing*, no run here
can be compared with it.

Only figures whose source has been seen are here:
"""


def markdown() -> str:
    """The page."""
    lines = [
        _HEAD.format(not_compared=listed(NOT_COMPARED)),
        *(f"- **{mark}**: {words}." for mark, words in MARKS.items()),
    ]
    paper = None
    for table in published():
        if table.paper != paper:
            paper = table.paper
            lines += ["", f"## {paper}"]
        lines += ["", f"### {table.task}", "", *_facts(table), "", *_rows(table)]
    return "\n".join(lines) + "\n"


def _facts(table: Table) -> list[str]:
    unit = f" in {table.unit}" if table.unit else ""
    facts = [
        f"source: {table.where} ({table.mark})",
        f"measure: {table.measure.replace('_', ' ')}{unit}; {table.basis}",
        f"trained on: {table.trained}",
        f"protocol: {table.protocol.rstrip('.')}",
        f"beside nothing: {table.unmatched}" if table.matches is None else f"beside: {_command(table)}",
    ]
    return [f"- {fact}" for fact in facts]


def _command(table: Table) -> str:
    match = table.matches
    assert match is not None
    name = match.task.rpartition(".")[2]
    options = "".join(f" {key}={str(value).lower()}" for key, value in match.options.items())
    longer = f"; an input counts {match.longer_by} symbols more here" if match.longer_by else ""
    return f"`{name}{options}`, a {match.model}, `data.lengths={format_lengths(match.trained)}`{longer}"


def _rows(table: Table) -> list[str]:
    columns = table.tested
    lines = [
        f"| tested on | {' | '.join(columns)} | model and training |",
        f"|---{'|---:' * len(columns)}|---|",
    ]
    for row in table.rows:
        known = {figure.tested: figure.text for figure in row.figures}
        setup = ", ".join(f"{name} {_said(value)}" for name, value in row.setup.items() if value is not None)
        cells = [
            row.encoding,
            *(known.get(tested, "–") for tested in columns),
            "; ".join(filter(None, [setup, row.note])),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _said(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.stdout.write(markdown())
