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
from lengthwise.report.analysis import Section, analyse
from lengthwise.report.collect import Collection, Group, collect
from lengthwise.report.findings import findings
from lengthwise.report.statistics import VERDICT_SEEDS, Estimate
from lengthwise.runs.atomic import explain, write_atomic


def build_report(
    outputs: str | Path,
    *,
    runs: Sequence[str] | None = None,
    study: Mapping[str, Any] | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Path:
    """Write the page of the runs under `outputs` (or of the named run folders alone) and return where it is.

    `study` may hold `question`, `description` and `contrasts` ``[{a, b, at_length}]``; `path` is
    ``<outputs>/report.html`` by default and is replaced atomically. Raises RunError if there is no run, or the page
    cannot be written.
    """
    collection = collect(outputs, runs=runs)
    sections = analyse(collection, study)
    path = Path(path) if path is not None else Path(outputs) / "report.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write {path}: {explain(error)}.") from error
    page = render(collection, sections, study=study, title=title or "Lengthwise report")
    # A file name may hold bytes that are no UTF-8 (surrogates in Python).
    write_atomic(path, page.encode("utf-8", "backslashreplace"))
    return path


def render(
    collection: Collection, sections: Sequence[Section], *, study: Mapping[str, Any] | None = None, title: str
) -> str:
    """The page's text."""
    specs: dict[str, Any] = {}
    shown = [_section(section, number, specs) for number, section in enumerate(sections)]
    states = collection.runs["state"].value_counts().to_dict() if len(collection.runs) else {}
    fewest = min((len(group.runs) for group in collection.groups), default=0)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            study={"question": None, "description": None, **(study or {})},
            sections=shown,
            problems=collection.problems,
            notes=collection.notes,
            runs=collection.runs.fillna("").to_dict("records"),
            states=states,
            groups=collection.groups,
            fewest=fewest,
            verdict_seeds=VERDICT_SEEDS,
            version=lengthwise.__version__,
            made=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
            figures=_json(specs),
            style=_asset("page.css"),
            script=_asset("page.js"),
            plotly=_plotly(),
            analysis=analysis,
            words=words,
        )
    )


def _section(section: Section, number: int, specs: dict[str, Any]) -> dict[str, Any]:
    """What the template shows of one setting; figures go into `specs` under the ids of their elements."""
    view: dict[str, Any] = {
        "section": section,
        "findings": findings(section),
        "id": f"setting-{number}",
        "overview": f"overview-{number}",
        "legend": [
            {**look, "index": index, "label": group.label}
            for index, (look, group) in enumerate(zip(figures.styles(section), section.groups, strict=True))
        ],
        "baselines": [name for name, _ in figures.baseline_names(section)],
        "table": _table(section, {"all": ""}, section.lengths),
        "strata_table": _table(
            section, analysis.STRATA, [n for n in section.lengths if n > section.longest_trained]
        ),
        "beyond": [n for n in section.lengths if n > section.longest_trained],
        "facets": [],
        "stratified": any(stratum in analysis.STRATA for _, _, stratum in section.curves),
        "permutation": analysis.permutation_rows(section),
        "other_symmetries": _matrix(section),
        "success": _success(section),
        "protocols": section.protocols,
    }
    if section.measures:
        specs[view["overview"]] = figures.overview(section)
        for index, (group, spec) in enumerate(figures.facets(section)):
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


def _matrix(section: Section) -> list[tuple[Group, dict[str, Any]]]:
    """What is measured besides random permutations: one row a variant, one cell an action."""
    found = []
    for group in section.groups:
        rows = {row.action: row for row in section.symmetry if row.group == group}
        if rows:
            found.append((group, rows))
    return found


def _success(section: Section) -> list[tuple[Group, dict[int, Any]]]:
    found: dict[str, tuple[Group, dict[int, Any]]] = {}
    for success in section.successes:
        found.setdefault(success.group.key, (success.group, {}))[1][success.length] = success
    return list(found.values())


def _environment() -> Environment:
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


def _json(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _asset(name: str) -> Markup:
    return Markup((resources.files("lengthwise.report") / "template" / name).read_text(encoding="utf-8"))


def _plotly() -> Markup:
    script = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    return Markup(script.replace("</script", "<\\/script"))
