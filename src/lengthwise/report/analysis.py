"""From frames to what is shown: curves, contrasts, successes and symmetries of each setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lengthwise.evaluation.perplexity import perplexity
from lengthwise.evaluation.verdict import SUCCESS
from lengthwise.report.collect import Collection, Setting, baselines_of
from lengthwise.report.comparison import (
    Scores,
    compare,
    correct,
    estimate,
    headlines,
    ranking,
    scores_at,
    scores_in_distribution,
    successes,
)
from lengthwise.report.notes import flag_notes, length_notes, overlap_notes
from lengthwise.report.published.matching import beside
from lengthwise.report.section import (
    AGAINST,
    AS_DECLARED,
    BEST_BLIND,
    DTYPES,
    MEASURES,
    PERPLEXITIES,
    STRATA,
    Curve,
    Section,
    Success,
    SymmetryRow,
)
from lengthwise.report.statistics import Estimate, seed_interval
from lengthwise.report.symmetry import ACTIONS, AFTER, BEFORE, permutation_rows, symmetry_rows
from lengthwise.runs.lengths import SLIDING, bin_of
from lengthwise.sweeps.contrasts import stated_contrasts

__all__ = [
    "ACTIONS",
    "AFTER",
    "AGAINST",
    "AS_DECLARED",
    "BEFORE",
    "BEST_BLIND",
    "DTYPES",
    "MEASURES",
    "PERPLEXITIES",
    "STRATA",
    "SUCCESS",
    "Curve",
    "Scores",
    "Section",
    "Success",
    "SymmetryRow",
    "analyse",
    "estimate",
    "headlines",
    "permutation_rows",
    "ranking",
    "scores_at",
    "scores_in_distribution",
]


def analyse(collection: Collection, study: Mapping[str, Any] | None = None) -> list[Section]:
    """One section a setting. `study` may state contrasts, see `stated_contrasts`; all of them, in all sections, are
    one family for Holm's correction. Raises ConfigError for a contrast that is none.
    """
    stated = stated_contrasts(study or {})
    by_run = {run.name: run.config for run in collection.read}
    configs = {group.key: by_run.get(group.runs[0][1], {}) for group in collection.groups}
    sections = []
    for setting in collection.settings:
        groups = collection.groups_of(setting)
        everything = _records(_of(collection.lengths, setting))
        binned = [row for row in everything if bin_of(row.get("stratum"))]
        rows = [row for row in everything if not bin_of(row.get("stratum"))]
        section = Section(
            setting, groups, _curves(rows), _measures(rows), baselines_of(everything), _flags(rows),
            sorted({row["protocol"] for row in rows if "protocol" in row}), _shared_lengths(rows),
            bins=_curves(binned), perplexities=_perplexities(rows),
        )  # fmt: skip
        if section.measures:
            compare(section, stated)
            section.successes = successes(section)
            section.notes += length_notes(section)
            section.notes += overlap_notes(everything)
            section.published = beside(section, configs)
        section.symmetry = symmetry_rows(_records(_of(collection.symmetry, setting)), groups)
        section.notes += flag_notes(section)
        sections.append(section)
    correct(sections)
    return sections


def _of(frame: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    return frame[frame["setting"] == setting.key] if "setting" in frame else frame


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain dicts; what is not there is left out, so that ``get`` gives None."""
    names = list(frame.columns)
    columns = [frame[name].tolist() for name in names]
    return [
        {k: v for k, v in zip(names, row, strict=True) if v is not None and v == v}
        for row in zip(*columns, strict=True)
    ]


def _measures(rows: list[dict[str, Any]]) -> list[str]:
    """The measures to show; one alone where both say the same (a single answer symbol)."""
    rows = [row for row in rows if row.get("n", 0) > 0]
    known = [name for name in MEASURES if any(name in row for row in rows)]
    if len(known) < 2 or any(row.get("n") != row.get("n_tokens") for row in rows):
        return known
    pairs = [(row[known[0]], row[known[1]]) for row in rows if known[0] in row and known[1] in row]
    return known[:1] if all(abs(one - other) < 1e-9 for one, other in pairs) else known


def _curves(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], Curve]:
    points: dict[tuple[str, str, str], dict[int, dict[Any, tuple[float, int]]]] = {}
    for row in rows:
        for measure in MEASURES:
            if measure in row and row.get("n", 0) > 0:
                key = (row["group"], measure, row.get("stratum", "all"))
                points.setdefault(key, {}).setdefault(int(row["length"]), {})[row["seed"]] = (
                    row[measure],
                    int(row["n"]),
                )
    curves = {}
    for key, by_length in points.items():
        lengths = sorted(by_length)
        seeds: dict[Any, dict[int, float]] = {}
        for length in lengths:
            for seed, (value, _) in by_length[length].items():
                seeds.setdefault(seed, {})[length] = float(value)
        curves[key] = Curve(
            {length: estimate(by_length[length]) for length in lengths},
            seeds,
            {length: min(n for _, n in by_length[length].values()) for length in lengths},
        )
    return curves


def _shared_lengths(rows: list[dict[str, Any]]) -> list[int]:
    by_run: dict[str, set[int]] = {}
    for row in rows:
        by_run.setdefault(row["run"], set()).add(int(row["length"]))
    return sorted(set.intersection(*by_run.values())) if by_run else []


def _perplexities(rows: list[dict[str, Any]]) -> dict[tuple[str, str], dict[int, Estimate]]:
    if not any(row.get("stratum") == SLIDING for row in rows):
        return {}
    points: dict[tuple[str, str], dict[int, list[float]]] = {}
    for row in rows:
        value = perplexity(row.get("loss"))
        if value is not None and row.get("stratum") in ("all", SLIDING):
            by_length = points.setdefault((row["group"], row["stratum"]), {})
            by_length.setdefault(int(row["length"]), []).append(value)
    return {
        key: {length: seed_interval(values) for length, values in sorted(by_length.items())}
        for key, by_length in points.items()
    }


def _flags(rows: list[dict[str, Any]]) -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, set[int]]] = {}
    for row in rows:
        for flag in filter(None, (part.strip() for part in str(row.get("flags", "")).split(";"))):
            found.setdefault(row["group"], {}).setdefault(flag, set()).add(int(row["length"]))
    return {group: {flag: sorted(at) for flag, at in flags.items()} for group, flags in found.items()}
