"""The figures of a study as files, SVG and PNG, drawn with matplotlib; it is imported only when something is drawn.

The same runs give the same bytes: no dates, no random ids. In an SVG text stays text, so that it can be searched and
edited. Colours, dashes and markers are those of the page, in the same order.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from typing import TYPE_CHECKING, Any

from lengthwise.report.blind import baseline_lines
from lengthwise.report.comparison import estimate, scores_in_distribution
from lengthwise.report.figures import styles
from lengthwise.report.section import DTYPES, MEASURES, Section
from lengthwise.report.study import Part
from lengthwise.report.symmetry import AFTER, BEFORE, permutation_rows
from lengthwise.runs import format_lengths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#5f6673", "#a86500", "#c2377f", "#1f6fb5", "#c2501a", "#0b7a5f", "#7a4fb8", "#6b7a00")
"""As on the page in light mode (template/*.js); the first is the model without an encoding."""
_BASELINE, _SHADE, _GRID = "#8a92a0", "#8fa3bf", "#e8ebf0"
_DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (5, 2)),
    "dot": (0, (1, 1.5)),
    "dashdot": "-.",
    "longdash": (0, (9, 3)),
}
_MARKERS = {
    "circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "x": "X", "star": "*", "triangle-down": "v",
    "cross": "P", "pentagon": "p", "hexagon": "h",
}  # fmt: skip
_PLAIN: Any = {
    "svg.fonttype": "none",  # text, not outlines
    "svg.hashsalt": "lengthwise",
    "text.parse_math": False,  # a $ in a name is a dollar
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
WIDTH, _DPI = 8.4, 160  # inches, dots an inch
_LONGEST_NAME = 60
_SMALLEST = 1e-18
"""Where an error of exactly 0 is drawn on the logarithmic axis."""


def drawn(part: Part) -> dict[str, bytes]:
    """Every figure of a study: file name -> content, as SVG and as PNG; nothing for what is not shown."""
    files: dict[str, bytes] = {}
    for section in part.sections:
        name = _slug(section.setting.title)
        while any(file.startswith(f"{name}-") for file in files):
            name += "-x"
        for kind, figure in _figures(section).items():
            files[f"{name}-{kind}.svg"] = _bytes(figure, "svg")
            files[f"{name}-{kind}.png"] = _bytes(figure, "png")
    return files


def _figures(section: Section) -> dict[str, Figure]:
    import matplotlib

    found = {}
    with matplotlib.rc_context(_PLAIN):
        if section.measures and section.trained_only:
            found["accuracy"] = _seeds(section)
        elif section.measures:
            for measure in section.measures:
                found[MEASURES[measure].replace(" ", "-")] = _against_length(section, measure)
        if permutation_rows(section):
            found["equivariance"] = _equivariance(section)
    return found


def _bytes(figure: Figure, kind: str) -> bytes:
    import matplotlib

    stream = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with matplotlib.rc_context(_PLAIN), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name may hold anything
        figure.savefig(stream, format=kind, dpi=_DPI, metadata=metadata)
    return stream.getvalue()


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:80].strip("-")


def _new(height: float) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.grid(color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _looks(section: Section) -> list[dict[str, Any]]:
    return [
        {
            "color": COLOURS[int(look["colour"].removeprefix("@"))],
            "linestyle": _DASHES[look["dash"]],
            "marker": _MARKERS[look["symbol"]],
        }
        for look in styles(section)
    ]


def _shown(label: str) -> str:
    """A name that fits beside a figure; one that begins with _ would be left out of a legend."""
    plain = " ".join(label.split())
    plain = plain if len(plain) <= _LONGEST_NAME else f"{plain[: _LONGEST_NAME - 1]}…"
    return f"\u2009{plain}" if plain.startswith("_") else plain


def _against_length(section: Section, measure: str) -> Figure:
    """Mean and interval of each variant, each seed a small point; trained lengths shaded, baselines grey."""
    figure, axes = _new(4.2)
    trained = section.trained_lengths or section.setting.train_lengths
    low, high = min(trained), max(trained)
    spread = 1.02 if low < high else 1.05
    axes.axvspan(low / spread, high * spread, color=_SHADE, alpha=0.22, linewidth=0, label="trained lengths")
    if measure == "token_accuracy":
        for number, (name, blind) in enumerate(baseline_lines(section)):
            dash = list(_DASHES.values())[1 + number % (len(_DASHES) - 1)]
            values = [100 * value for value in blind.values()]
            label = _shown(f"baseline: {name}")
            axes.plot(list(blind), values, color=_BASELINE, linestyle=dash, linewidth=1.2, label=label)
    for group, look in zip(section.groups, _looks(section), strict=True):
        curve = section.curve(group, measure=measure)
        if curve is None:
            continue
        at = list(curve.estimates.items())
        banded = [(n, 100 * e.low, 100 * e.high) for n, e in at if e.low is not None and e.high is not None]
        if banded:
            lengths, lows, highs = zip(*banded, strict=True)
            axes.fill_between(lengths, lows, highs, color=look["color"], alpha=0.12, linewidth=0)
        for points in curve.seeds.values():
            values = [100 * value for value in points.values()]
            axes.plot(
                list(points), values, linestyle="none", marker=look["marker"], markersize=2.6,
                color=look["color"], alpha=0.5, markeredgewidth=0,
            )  # fmt: skip
        axes.plot(
            [n for n, _ in at], [100 * e.mean for _, e in at], linewidth=1.8, markersize=5,
            label=_shown(group.label), **look,
        )  # fmt: skip
    axes.set_xscale("log")
    _length_ticks(axes, section.lengths)
    axes.set_xlabel("length, input symbols")
    axes.set_ylim(top=102)
    axes.set_ylabel(f"{MEASURES[measure]}, %")
    _title(figure, f"{section.setting.title}; mean over seeds with its 95 % interval, each seed a point")
    _legend(figure, len(section.groups))
    return figure


def _length_ticks(axes: Axes, lengths: list[int]) -> None:
    from matplotlib.ticker import NullLocator

    kept = [lengths[-1]]
    for length in reversed(lengths[:-1]):
        if length * 1.25 <= kept[-1]:
            kept.append(length)
    axes.set_xticks(kept, [str(length) for length in kept])
    axes.xaxis.set_minor_locator(NullLocator())


def _title(figure: Figure, text: str) -> None:
    figure.suptitle(text, x=0.01, horizontalalignment="left", fontsize=8)


def _legend(figure: Figure, variants: int) -> None:
    figure.legend(loc="outside right center", frameon=False, fontsize=8, ncols=1 + variants // 20)


def _seeds(section: Section) -> Figure:
    """Over the trained lengths: one line a variant, each seed a point, the mean with its interval."""
    scored = [
        (group, look, scores)
        for group, look in zip(section.groups, _looks(section), strict=True)
        if (scores := scores_in_distribution(section, group))
    ]
    figure, axes = _new(1.2 + 0.42 * len(scored))
    for row, (_, look, scores) in enumerate(scored):
        at = estimate(scores)
        colour, marker = look["color"], look["marker"]
        if at.low is not None and at.high is not None:
            axes.plot([100 * at.low, 100 * at.high], [row, row], color=colour, linewidth=5, alpha=0.25)
        axes.plot(
            [100 * p for p in at.points],
            [row] * at.n,
            color=colour,
            linestyle="none",
            marker=marker,
            alpha=0.6,
        )
        axes.plot([100 * at.mean], [row], color=colour, marker="|", markersize=16, markeredgewidth=2)
    axes.set_yticks(range(len(scored)), [_shown(group.label) for group, _, _ in scored])
    axes.set_ylim(len(scored) - 0.5, -0.5)
    axes.set_xlabel(
        f"{MEASURES[section.measures[0]]} over the tested lengths {format_lengths(section.compared_lengths)}, %"
    )
    _title(figure, f"{section.setting.title}; each seed, mean and 95 % interval")
    return figure


def _equivariance(section: Section) -> Figure:
    """Errors under random permutations, relative to the outputs, before and after training in both precisions."""
    from matplotlib.ticker import LogLocator, NullFormatter

    rows = permutation_rows(section)
    figure, axes = _new(1.4 + 0.42 * len(rows))
    looks = {
        ("float32", BEFORE): ("#c2501a", "o", "none"), ("float32", AFTER): ("#c2501a", "o", "#c2501a"),
        ("float64", BEFORE): ("#1f6fb5", "s", "none"), ("float64", AFTER): ("#1f6fb5", "s", "#1f6fb5"),
    }  # fmt: skip
    for (kind, moment), (colour, marker, face) in looks.items():
        found = [(max(error, _SMALLEST), at) for at, row in enumerate(rows)
                 if (error := row.error.get((moment, kind))) is not None]  # fmt: skip
        if found:
            errors, places = zip(*found, strict=True)
            axes.plot(
                errors, places, linestyle="none", marker=marker, color=colour, markerfacecolor=face,
                markersize=9 if moment == BEFORE else 5, label=f"{DTYPES[kind]} {moment} training",
            )  # fmt: skip
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0e}")
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(rows)), [_shown(row.group.label) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("error under random permutations of the inputs, relative to ‖f(x)‖; mean over seeds")
    _title(figure, section.setting.title)
    _legend(figure, 0)
    return figure
