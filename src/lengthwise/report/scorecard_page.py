"""The page of a scorecard: the table, and the pictures of each encoding."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lengthwise.errors import RunError
from lengthwise.report import page, scorecard_words
from lengthwise.report.scorecard_words import COLUMNS, Card, cell, reasons
from lengthwise.runs.atomic import explain, write_atomic

Picture = dict[str, Any]

DIMENSIONS = (0, 10, 40, 100)
"""Whose curves are drawn, as far as there are that many."""


def write_page(path: Path, cards: Sequence[Card], shown: Mapping[str, Any]) -> None:
    """Replace the page at `path`.  Raises RunError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write {path}: {explain(error)}.") from error
    write_atomic(path, render(cards, shown).encode("utf-8", "backslashreplace"))


def render(cards: Sequence[Card], shown: Mapping[str, Any]) -> str:
    """The page's text; it holds everything and fetches nothing.

    cards: plain containers as the command makes them.  shown: `version` and the `sizes` that all share.
    """
    specs: dict[str, Any] = {}
    views = []
    possible = [card for card in cards if not card["error"]]
    for number, card in enumerate(possible):
        drawn = _pictures(card)
        for at, picture in enumerate(drawn):
            picture["id"] = f"picture-{number}-{at}"
            specs[picture["id"]] = picture.pop("spec")
        cells = [cell(card, column) for column in COLUMNS]
        views.append({"id": f"encoding-{number}", "card": card, "cells": cells, "pictures": drawn})
    return (
        page.environment()
        .get_template("scorecard.html.j2")
        .render(
            title="Scorecard"
            + (f": {possible[0]['encoding']}" if len(possible) == 1 else " of position encodings"),
            sizes=shown["sizes"],
            version=shown["version"],
            views=views,
            impossible=[card for card in cards if card["error"]],
            columns=COLUMNS,
            reasons=reasons(possible),
            words=scorecard_words,
            made=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
            figures=page.to_json(specs),
            style=page.asset("page.css"),
            script=page.asset("scorecard.js"),
            plotly=page.plotly(),
        )
    )


def _pictures(card: Card) -> list[Picture]:
    """Title, caption and what is drawn."""
    drawn, found = card["pictures"], []
    if "vectors" in drawn:
        found += _of_vectors(drawn)
    found.append(_score_curves(drawn["scores"]))
    for head, scores in enumerate(drawn["maps"]):
        several = f", head {head + 1}" if len(drawn["maps"]) > 1 else ""
        inside = "vectors" not in drawn
        what = (
            "with equal content everywhere" if inside else "of the vectors alone, through random projections"
        )
        found.append(
            {
                "title": f"Scores{several}" if not inside else f"Bias map{several}",
                "caption": f"The attention score of a query (row) and a key, {what}.",
                "spec": {"z": scores, "x": "key", "y": "query"},
            }
        )
    return found


def _of_vectors(drawn: Mapping[str, Any]) -> list[Picture]:
    vectors, dots = drawn["vectors"], drawn["dots"]
    shown = [i for i in DIMENSIONS if i < len(vectors[0])]
    return [
        {
            "title": "Vectors",
            "caption": f"{len(vectors)} positions by {len(vectors[0])} dimensions.",
            "spec": {"z": vectors, "x": "dimension", "y": "position"},
        },
        {
            "title": "Single dimensions",
            "caption": f"Dimension{'s' * (len(shown) > 1)} {', '.join(map(str, shown))} against the position.",
            "spec": {
                "lines": [{"name": f"dimension {i}", "values": [row[i] for row in vectors]} for i in shown],
                "x": "position",
                "y": "value",
            },
        },
        {
            "title": "Similarity",
            "caption": "The cosine of the vectors of two positions.",
            "spec": {"z": drawn["similarity"], "x": "position", "y": "position"},
        },
        {
            "title": "Dot product by distance",
            "caption": "The mean of ⟨r_n, r_n+k⟩ over n, relative to k = 0, without projections.",
            "spec": {
                "lines": [{"name": "dot product", "values": dots}],
                "x": "distance k",
                "y": "relative to k = 0",
            },
        },
    ]


def _score_curves(scores: Sequence[Sequence[float]]) -> Picture:
    lines = [{"name": f"head {head + 1}", "values": values} for head, values in enumerate(scores[:4])]
    return {
        "title": "Score by distance",
        "caption": "The mean score of a key k behind its query, less that at k = 0, through random projections.",
        "spec": {"lines": lines, "x": "distance k", "y": "score"},
    }
