"""Figures as plain Plotly specifications; colours are names that the page's script resolves for light and dark.

``@3`` is the colour of variant 3, ``@inside`` a named one, ``@3/0.2`` the same at 20 % opacity.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from lengthwise.report.analysis import MEASURES, STRATA, Curve, Section
from lengthwise.report.blind import baseline_lines
from lengthwise.report.collect import Group
from lengthwise.report.words import bracket, percent, seeds_word

Spec = dict[str, Any]

DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "x",
    "star",
    "triangle-down",
    "cross",
    "pentagon",
    "hexagon",
)
COLOURS = 7
"""In the page's palette; variants beyond them take the next dash."""


def overview(section: Section) -> Spec:
    """Accuracy against length: a mean with its interval for every variant, and each seed as a thin line."""
    return _figure(section, {measure: _overview_traces(section, measure) for measure in section.measures})


def facets(section: Section) -> list[tuple[Group, Spec]]:
    """A small figure a variant: by where the evidence lies if the task says so, else the whole, with bands."""
    stratified = any(stratum in STRATA for _, _, stratum in section.curves)
    strata = STRATA if stratified else {"all": "all"}
    found = []
    for index, group in enumerate(section.groups):
        if not any(section.curve(group, stratum) for stratum in strata):
            continue
        views = {
            measure: _facet_traces(section, group, index, strata, measure) for measure in section.measures
        }
        found.append((group, _figure(section, views)))
    return found


def styles(section: Section) -> list[Spec]:
    """Colour, dash and marker of each variant: never colour alone. Grey belongs to the model without an encoding."""
    found: list[Spec] = []
    seen = {True: 0, False: 0}
    for index, group in enumerate(section.groups):
        grey = group.encoding == "none"
        number, colours = seen[grey], 1 if grey else COLOURS
        seen[grey] += 1
        found.append(
            {
                "colour": "@0" if grey else f"@{1 + number % colours}",
                "dash": DASHES[number // colours % len(DASHES)],
                "symbol": SYMBOLS[index % len(SYMBOLS)],
            }
        )
    return found


def text(value: Any) -> str:
    """For Plotly's own little markup, in which ``<b>`` and ``<a>`` have a meaning."""
    return html.escape(str(value), quote=False)


def _figure(section: Section, views: dict[str, list[Spec]]) -> Spec:
    trained = section.trained_lengths or section.setting.train_lengths
    return {
        "views": views,
        "range": {measure: _range(section, measure) for measure in views},
        "labels": {measure: MEASURES[measure] for measure in views},
        "ticks": _ticks(section.lengths),
        "span": [min(section.lengths), max(section.lengths)],
        "trained": [min(trained), max(trained)],
    }


def _range(section: Section, measure: str) -> list[float]:
    """The same for all figures of a section; from the points, not the intervals, which may reach 0 with few seeds."""
    values = [
        at
        for (_, name, _), c in section.curves.items()
        if name == measure
        for s in c.seeds.values()
        for at in s.values()
    ]
    if measure == section.measures[0]:
        values += [at for group in section.groups for at in section.best_blind(group).values()]
    return [max(-0.03, min(values, default=0.0) - 0.07), 1.03]


def _ticks(lengths: Sequence[int]) -> list[int]:
    """Tested lengths, leaving out those whose labels would touch on a logarithmic axis."""
    kept = [lengths[-1]]
    for length in reversed(lengths[:-1]):
        if length * 1.35 <= kept[-1]:
            kept.append(length)
    return kept[::-1]


def _overview_traces(section: Section, measure: str) -> list[Spec]:
    traces = _baseline_traces(section, measure)
    count = len(section.groups)
    step = min(0.012, 0.07 / max(count, 1))
    for index, group in enumerate(section.groups):
        curve = section.curve(group, measure=measure)
        if curve is None:
            continue
        look = styles(section)[index]
        # Side by side, or the intervals of variants with equal means would hide one another.
        dodge = 1 + step * (index - (count - 1) / 2)
        traces += [
            _seed_lines(curve, group, look, index, dodge),
            _mean_line(curve, group, look, index, dodge, error_bars=True),
        ]
    return traces


def _facet_traces(
    section: Section, group: Group, index: int, strata: dict[str, str], measure: str
) -> list[Spec]:
    traces = _baseline_traces(section, measure)
    for stratum, name in strata.items():
        curve = section.curve(group, stratum, measure)
        if curve is None:
            continue
        look = styles(section)[index]
        if stratum != "all":
            look = {"colour": f"@{name}", "dash": "solid" if name == "inside" else "dash"}
            look["symbol"] = "circle" if name == "inside" else "square"
        traces += [
            *_band(curve, look, index),
            _seed_lines(curve, group, look, index, 1.0),
            _mean_line(
                curve, group, look, index, 1.0, where="" if stratum == "all" else f", evidence {name}"
            ),
        ]
    return traces


def _seed_lines(curve: Curve, group: Group, look: Spec, index: int, dodge: float) -> Spec:
    x: list[float | None] = []
    y: list[float | None] = []
    shown: list[str] = []
    for seed, at in curve.seeds.items():
        x += [length * dodge for length in at] + [None]
        y += [*at.values(), None]
        shown += [
            f"{text(group.label)}, seed {text(seed)}<br>length {n}: {percent(v)}" for n, v in at.items()
        ] + [""]
    return {
        "x": x, "y": y, "text": shown, "hovertemplate": "%{text}<extra></extra>", "mode": "lines+markers",
        "line": {"color": f"{look['colour']}/0.35", "width": 1, "dash": look["dash"]},
        "marker": {"color": f"{look['colour']}/0.55", "size": 3.5, "symbol": look["symbol"]},
        "meta": {"variant": index}, "connectgaps": False,
    }  # fmt: skip


def _mean_line(
    curve: Curve,
    group: Group,
    look: Spec,
    index: int,
    dodge: float,
    *,
    error_bars: bool = False,
    where: str = "",
) -> Spec:
    at = [curve.estimates[length] for length in curve.lengths]
    trace: Spec = {
        "x": [length * dodge for length in curve.lengths],
        "y": [e.mean for e in at],
        "text": [
            f"<b>{text(group.label)}</b>{where}<br>length {n}: {percent(e.mean)}{bracket(e.low, e.high)}"
            f"<br>mean of {seeds_word(e.n)}, {curve.items[n]} test sequences"
            for n, e in curve.estimates.items()
        ],
        "hovertemplate": "%{text}<extra></extra>", "mode": "lines+markers",
        "line": {"color": look["colour"], "width": 2.5, "dash": look["dash"]},
        "marker": {"color": look["colour"], "size": 7, "symbol": look["symbol"]},
        "meta": {"variant": index},
    }  # fmt: skip
    if error_bars:
        trace["error_y"] = {
            "type": "data", "symmetric": False, "thickness": 1.2, "width": 3, "color": f"{look['colour']}/0.6",
            "array": [(e.high or e.mean) - e.mean for e in at],
            "arrayminus": [e.mean - (e.mean if e.low is None else e.low) for e in at],
        }  # fmt: skip
    return trace


def _band(curve: Curve, look: Spec, index: int) -> list[Spec]:
    known = [
        (n, e.low, e.high) for n, e in curve.estimates.items() if e.low is not None and e.high is not None
    ]
    if not known:
        return []
    x = [n for n, _, _ in known]
    edge = {"x": x, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "meta": {"variant": index}}
    return [
        {**edge, "y": [low for _, low, _ in known]},
        {
            **edge,
            "y": [high for _, _, high in known],
            "fill": "tonexty",
            "fillcolor": f"{look['colour']}/0.14",
        },
    ]


def _baseline_traces(section: Section, measure: str) -> list[Spec]:
    if measure != section.measures[0]:
        return []  # baselines are token accuracies
    return [
        {
            "x": list(at), "y": list(at.values()), "mode": "lines",
            "text": [f"baseline: {text(name)}<br>length {n}: {percent(v)}" for n, v in at.items()],
            "hovertemplate": "%{text}<extra></extra>",
            "line": {"color": "@baseline", "width": 1.5, "dash": ("dash", "dot", "longdash", "dashdot")[number % 4]},
            "meta": {"baseline": name},
        }
        for number, (name, at) in enumerate(baseline_lines(section))
    ]  # fmt: skip
