"""What the figures show as plain tables: one row a mean, one row a contrast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from lengthwise.report.comparison import blind_at, normalised
from lengthwise.report.section import Section
from lengthwise.report.statistics import Estimate
from lengthwise.report.study import Part
from lengthwise.report.words import sentence, verdict
from lengthwise.runs import format_lengths

ACCURACY_COLUMNS = (
    "task", "trained", "variant", "measure", "stratum", "length", "mean", "low", "high", "n", "best", "items",
    "best_blind", "normalised",
)  # fmt: skip
CONTRAST_COLUMNS = (
    "task", "trained", "a", "b", "length", "difference", "low", "high", "n", "correlation", "p", "p_holm",
    "alike_within", "p_alike", "p_alike_holm", "stated", "stated_at_start", "verdict", "sentence",
)  # fmt: skip


def accuracy_table(part: Part) -> pd.DataFrame:
    """One row a variant, measure, stratum and length (of a bin its longest): mean over seeds with its 95 % interval.

    Columns: `ACCURACY_COLUMNS`. n: seeds; best: the best seed's value; items: test sequences behind each seed's;
    normalised: see `normalised`. Perplexities are rows too, without test items or a baseline.
    """
    rows = (
        _about(section) | row
        for section in part.sections
        for row in (*_accuracies(section), *_texts(section))
    )
    return pd.DataFrame(rows, columns=list(ACCURACY_COLUMNS))


def contrast_table(part: Part) -> pd.DataFrame:
    """One row a contrast; columns: `CONTRAST_COLUMNS`. length is empty where the trained lengths are compared."""
    rows = [
        {
            **_about(section),
            "a": c.a, "b": c.b, "length": c.at, "difference": c.difference, "low": c.low, "high": c.high,
            "n": c.n, "correlation": c.correlation, "p": c.p, "p_holm": c.p_holm,
            "alike_within": c.alike_within, "p_alike": c.p_alike, "p_alike_holm": c.p_alike_holm,
            "stated": section.stated, "stated_at_start": c.at_start, "verdict": verdict(c), "sentence": sentence(c),
        }
        for section in part.sections
        for c in section.contrasts
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(CONTRAST_COLUMNS)).astype({"length": "Int64"})


def _about(section: Section) -> dict[str, Any]:
    title, _, _ = section.setting.title.partition(", trained on lengths ")
    return {"task": title, "trained": format_lengths(section.setting.train_lengths)}


def _accuracies(section: Section) -> Iterator[dict[str, Any]]:
    groups = {group.key: group for group in section.groups}
    for curves in (section.curves, section.bins):
        for (key, measure, stratum), curve in curves.items():
            for length, at in curve.estimates.items():
                blind = blind_at(section, groups[key], length, measure) if stratum == "all" else None
                yield {
                    "variant": groups[key].label, "measure": measure, "stratum": stratum, "length": length,
                    **_estimate(at), "items": curve.items[length], "best_blind": blind,
                    "normalised": normalised(at.mean, blind),
                }  # fmt: skip


def _texts(section: Section) -> Iterator[dict[str, Any]]:
    labels = {group.key: group.label for group in section.groups}
    for (key, stratum), estimates in section.perplexities.items():
        for length, at in estimates.items():
            about = {"variant": labels[key], "measure": "perplexity", "stratum": stratum, "length": length}
            yield about | _estimate(at) | {"best": min(at.points)}


def _estimate(at: Estimate) -> dict[str, Any]:
    return {"mean": at.mean, "low": at.low, "high": at.high, "n": at.n, "best": at.best}
