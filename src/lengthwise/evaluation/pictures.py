"""What the pictures of a scorecard show, as plain numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lengthwise.evaluation import position_codes
from lengthwise.evaluation.position_codes import Subject
from lengthwise.evaluation.relations import DISTANCES, dot_curve, score_curve, score_windows
from lengthwise.evaluation.verdict import HOLDS

POSITIONS, COLUMNS = 100, 128
"""Of the heat map of the vectors."""

SQUARE = 64
"""Positions of a matrix."""

HEADS = 4
"""Whose maps are shown."""

_DIGITS = 3


@torch.no_grad()
def pictures(subject: Subject, defined: int, *, movable: bool) -> dict[str, Any]:
    """Lists of numbers rounded to three digits, each there only where it applies.

    vectors (100, ≤ 128): r_n.  similarity (64, 64): cosines of r_n and r_m.  dots: mean ⟨r_n, r_{n+k}⟩ by distance,
    relative to k = 0.  scores: for each head the mean score by distance behind, less that at distance 0.  maps: for
    some heads (64, 64) scores of query (row) and key, None where the key may not be read.

    movable: as of `score_windows`.
    """
    found: dict[str, Any] = {}
    exact = subject.to(torch.float64)
    rows = position_codes.table(exact, min(defined, 2 * DISTANCES[3]), torch.float64)
    if rows is not None and rows.any():
        found["vectors"] = _plain(rows[:POSITIONS, :COLUMNS])
        unit = torch.nn.functional.normalize(rows[:SQUARE], dim=1)
        found["similarity"] = _plain(unit @ unit.T)
        found["dots"] = _plain(dot_curve(rows, DISTANCES[3]))
    windows = score_windows(exact, defined, movable)
    curve = score_curve(windows)
    change = curve - curve[:, :1]
    rounding = change.abs() <= HOLDS * windows[0].tril().abs().max()
    found["scores"] = _plain(change.masked_fill(rounding, 0.0))
    heads = HEADS if subject.in_attention is not None else 1
    side = min(SQUARE, windows[0].shape[-1])
    maps = windows[0][:heads, :side, :side]
    if subject.sizes.causal:
        maps = maps.masked_fill(~torch.ones(side, side, dtype=torch.bool).tril(), float("nan"))
    found["maps"] = _plain(maps)
    return found


def _plain(values: Tensor) -> Any:
    """Nested lists; what is no number becomes None."""
    if values.ndim > 1:
        return [_plain(part) for part in values]
    return [float(f"{v:.{_DIGITS}g}") if v == v else None for v in values.tolist()]
