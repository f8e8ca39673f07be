"""One self-contained HTML page: every figure, table and script inside, nothing fetched.

The page forbids itself every network request (its content security policy), so it says the same from a disk, in an
attachment or on a server.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import lengthwise
from lengthwise.errors import RunError
from lengthwise.report import analysis, figures, words
from lengthwise.report.analysis import Section, estimate, scores_in_distribution
from lengthwise.report.blind import baseline_lines
from lengthwise.report.collect import Group
from lengthwise.report.explorer import explorer
from lengthwise.report.findings import findings
from lengthwise.report.reading import Reader
from lengthwise.report.sparse import COLUMNS, POINTS, sparse
from lengthwise.report.statistics import VERDICT_SEEDS, Estimate
from lengthwise.report.study import Part, Studies, parts_of, whole_of
from lengthwise.report.symmetry import length_note
from lengthwise.report.training import MOST
from lengthwise.runs import format_lengths
from lengthwise.runs.atomic import explain, write_atomic

STYLES = ("page.css", "explorer.css")
SCRIPTS = ("look.js", "address.js", "page.js", "explorer.js", "compare.js", "heatmap.js", "tables.js")
"""Parts of the page's one style sheet and one script, in their order."""

MOST_DRAWN = 24
"""Variants that one figure can show; more of them are compared in the explorer alone."""


def build_report(
    outputs: str | Path,
    *,
    runs: Sequence[str] | None = None,
    study: Mapping[str, Any] | None = None,
    studies: Studies | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Path:
    """Write the page of the runs under `outputs` (or of the named run folders alone) and return where it is.

    `study` may hold what `Part` says; `studies`, each with its runs, get one part of the page each. `path` is
    ``<outputs>/report.html`` by default and is replaced atomically. Raises RunError if there is no run, or the page
    cannot be written.
    """
    reader = Reader(outputs)
    parts = parts_of(outputs, runs=runs, study=study, studies=studies, reader=reader)
    path = Path(path) if path is not None else Path(outputs) / "report.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write {path}: {explain(error)}.") from error
    page = render(parts, whole_of(parts, outputs, reader), title=title or "Lengthwise report")
    # A file name may hold bytes that are no UTF-8 (surrogates in Python).
    write_atomic(path, page.encode("utf-8", "backslashreplace"))
    return path


def render(parts: Sequence[Part], whole: Part, *, title: str) -> str:
    """The page's text. One part alone is introduced at the top; of several, each at its own first section.

    `whole`: all runs as one, for the explorer and the list of runs.
    """
    data, unread = explorer(whole.collection, whole.sections)
    specs: dict[str, Any] = {}
    shown: list[dict[str, Any]] = []
    for part in parts:
        for section in part.sections:
            view = _section(section, len(shown), specs)
            view["part"] = part if len(parts) > 1 and section is part.sections[0] else None
            view["title"] = view["part"].title if view["part"] else section.setting.title
            shown.append(view)
    groups = [group for part in parts for group in part.collection.groups]
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            study={"question": None, "description": None, **(parts[0].study if len(parts) == 1 else {})},
            unfinished=[part for part in parts if len(parts) > 1 and not part.sections],
            sections=shown,
            problems=[*whole.collection.problems, *unread],
            notes=list(dict.fromkeys(note for part in parts for note in part.collection.notes)),
            explorer=data,
            labels={name: variant["label"] for variant in data["variants"] for name in variant["runs"]},
            most_points=MOST,
            states=data["states"],
            groups=groups,
            fewest=min((len(group.runs) for group in groups), default=0),
            verdict_seeds=VERDICT_SEEDS,
            version=lengthwise.__version__,
            made=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
            figures=to_json(specs),
            explorer_data=to_json(data),
            style=Markup("").join(map(asset, STYLES)),
            script=Markup("").join(map(asset, SCRIPTS)),
            plotly=plotly(),
            analysis=analysis,
            words=words,
        )
    )


def _section(section: Section, number: int, specs: dict[str, Any]) -> dict[str, Any]:
    """What the template shows of one setting; figures go into `specs` under the ids of their elements."""
    said, tested = findings(section), len(section.lengths)
    section, drawn = sparse(section, COLUMNS), sparse(section, POINTS)
    view: dict[str, Any] = {
        "section": section,
        "left_out": tested - len(section.lengths),
        "findings": said,
        "id": f"setting-{number}",
        "overview": f"overview-{number}",
        "legend": [
            {**look, "index": index, "label": group.label}
            for index, (look, group) in enumerate(zip(figures.styles(section), section.groups, strict=True))
        ],
        "baselines": [name for name, _ in baseline_lines(section)],
        "table": _table(section, {"all": ""}, section.lengths),
        "strata_table": _table(
            section, analysis.STRATA, [n for n in section.lengths if n > section.longest_trained]
        ),
        "beyond": [n for n in section.lengths if n > section.longest_trained],
        "facets": [],
        "bins": _bins(section),
        "perplexities": _perplexities(section),
        "stratified": any(stratum in analysis.STRATA for _, _, stratum in section.curves),
        "permutation": analysis.permutation_rows(section),
        "symmetry_note": length_note(section),
        "other_symmetries": _matrix(section),
        "success": _success(section),
        "protocols": section.protocols,
        "tested": format_lengths(section.compared_lengths),
        "compared": _compared(section) if section.trained_only else [],
        "crowded": len(section.groups) > MOST_DRAWN,
    }
    if section.measures and not section.trained_only and not view["crowded"]:
        specs[view["overview"]] = figures.overview(drawn)
        for index, (group, spec) in enumerate(figures.facets(drawn)):
            key = f"facet-{number}-{index}"
            specs[key] = spec
            view["facets"].append((key, group))
    return view


def _table(section: Section, strata: dict[str, str], lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Means with intervals: one row a variant, measure and stratum, one cell a length."""
    rows = []
    for group in section.groups:
        flagged = {n for flag, at in section.flags.get(group.key, {}).items() for n in at}
        for measure in section.measures:
            for stratum, name in strata.items():
                curve = section.curve(group, stratum, measure)
                if curve is None:
                    continue
                cells = [(curve.estimates.get(length), length in flagged) for length in lengths]
                label = [analysis.MEASURES[measure]] if len(section.measures) > 1 else []
                label += [f"evidence {name}"] if name else []
                rows.append({"group": group, "what": ", ".join(label), "cells": cells, "n": len(group.runs)})
    return rows


def _bins(section: Section) -> dict[str, Any]:
    """The bins that were tested, and one row a variant and measure, one cell a bin; nothing where there are none."""
    names = section.bin_names
    rows = []
    for group in section.groups:
        for measure, worded in analysis.MEASURES.items():
            curves = [section.bins.get((group.key, measure, name)) for name in names]
            cells = [curve.estimates[curve.lengths[0]] if curve else None for curve in curves]
            if any(cells):
                rows.append({"group": group, "what": worded, "cells": cells, "n": len(group.runs)})
    return {"names": [name.removeprefix("bin_") for name in names], "rows": rows} if rows else {}


def _perplexities(section: Section) -> dict[str, Any]:
    """The lengths that a text was tested at, and one row a variant and way of testing; nothing without a text."""
    lengths = sorted({length for at in section.perplexities.values() for length in at})
    rows = [
        {
            "group": group,
            "what": worded,
            "cells": [at.get(length) for length in lengths],
            "n": len(group.runs),
        }
        for group in section.groups
        for stratum, worded in analysis.PERPLEXITIES.items()
        if (at := section.perplexities.get((group.key, stratum)))
    ]
    return {"names": lengths, "rows": rows} if rows else {}


def _compared(section: Section) -> list[dict[str, Any]]:
    """Over the trained lengths, one row a variant: every seed, their mean and its interval."""
    rows = []
    for group in section.groups:
        if scores := scores_in_distribution(section, group):
            rows.append({"group": group, "at": estimate(scores), "n": len(group.runs)})
    return rows


def _matrix(section: Section) -> list[tuple[Group, dict[str, Any]]]:
    """What is measured besides random permutations: one row a variant, one cell an action."""
    rows: dict[str, dict[str, Any]] = {}
    for row in section.symmetry:
        rows.setdefault(row.group.key, {})[row.action] = row
    return [(group, rows[group.key]) for group in section.groups if group.key in rows]


def _success(section: Section) -> list[tuple[Group, dict[int, Any]]]:
    found: dict[str, tuple[Group, dict[int, Any]]] = {}
    for success in section.successes:
        found.setdefault(success.group.key, (success.group, {}))[1][success.length] = success
    return list(found.values())


def environment() -> Environment:
    """Of the templates of all pages."""
    environment = Environment(
        loader=PackageLoader("lengthwise.report", "template"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"points": _points, "interval": _interval, "fewer": _fewer, "error": _error}
    return environment


def _points(value: float) -> str:
    return f"{100 * value:.1f}"


def _interval(at: Estimate) -> str:
    return words.bracket(at.low, at.high).strip()


def _fewer(at: Estimate, seeds: int) -> str:
    return words.fewer_seeds(at, seeds)


def _error(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:#.2g}".rstrip(".") if 1e-3 <= value < 100 else f"{value:.1e}" if value else "0"


def to_json(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def asset(name: str) -> Markup:
    """A file of the template folder, as it is."""
    return Markup((resources.files("lengthwise.report") / "template" / name).read_text(encoding="utf-8"))


def plotly() -> Markup:
    """The library that draws, as a script to stand in a page."""
    script = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    return Markup(script.replace("</script", "<\\/script"))
