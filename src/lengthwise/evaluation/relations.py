"""How what an encoding says of two positions depends on their distance and on their place.

Dot products of vectors, scores of an attention layer, the linear map from positions to later ones; float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lengthwise.evaluation import position_codes
from lengthwise.evaluation.position_codes import Subject, content, scores
from lengthwise.evaluation.verdict import HOLDS
from lengthwise.keyed import philox
from lengthwise.nn.position.contract import PERMUTATION, REVERSAL, TRANSLATION

DISTANCES = (1, 10, 100, 1000)
"""At which the dot product of two positions is looked at."""

WINDOW = 128
"""Positions of one matrix of scores; distances up to 100 fit."""

STARTS = (0, 1000, 10_000)
"""Where such windows begin."""


def dot_curve(rows: Tensor, last: int) -> Tensor:
    """Mean over n of ⟨r_n, r_{n+k}⟩ for k = 0, 1, … `last` (or half of the rows), relative to k = 0; of the first
    2·`last` rows."""
    rows = rows[: 2 * last]
    products = rows @ rows.T
    last = min(last, len(rows) // 2)
    return torch.stack([products.diagonal(k).mean() for k in range(last + 1)]) / products.diagonal().mean()


def shift_residual(rows: Tensor, k: int) -> float:
    """Of the best linear map M from the rows n ≥ 1 to those k later: the largest ‖(R M - R′)_i‖/‖R′_i‖ of a column i;
    float64. With n = 0 among them, or no more rows than columns, it would be small for anything."""
    there_are, columns = len(rows) - 1 - k, rows.shape[1]
    numbers = torch.linspace(1, there_are, min(there_are, max(4 * columns, 512))).long()
    here, there = rows[numbers], rows[numbers + k]
    shift = torch.linalg.lstsq(here, there, driver="gelsd").solution
    off, size = ((x**2).sum(0).sqrt() for x in (here @ shift - there, there))
    return float((off[size > 0] / size[size > 0]).max())


def score_windows(subject: Subject, defined: int, movable: bool) -> list[Tensor]:
    """Logits (H, n, n) in float64 of windows that begin at `STARTS`, as far as the encoding is defined.

    Vectors on the embedding are taken alone; with none, and in the attention, there is the same random content at every
    position. movable: False where an encoding depends on the sequence's length, so that only the first window has a
    meaning.
    """
    count = min(WINDOW, defined)
    rows = position_codes.table(subject, count, torch.float64)
    if subject.in_attention is not None or rows is None or not rows.any():
        x = content(1, subject.sizes.width, torch.float64)
    else:
        x = torch.zeros(1, 1, subject.sizes.width, dtype=torch.float64)
    return [scores(subject, x.expand(1, count, -1), start=s) for s in _starts(count, defined, movable)]


def _starts(count: int, defined: int, movable: bool) -> list[int]:
    return sorted({max(0, min(start, defined - count)) for start in STARTS}) if movable else [0]


def follow(subject: Subject, symmetry: str, defined: int, movable: bool) -> bool:
    """Whether scores of different contents follow when these are permuted or reversed among the positions, or all
    positions are moved."""
    count = min(WINDOW, defined)
    x = content(count, subject.sizes.width, torch.float64).transpose(0, 1)
    plain, order = scores(subject, x), torch.arange(count)
    if symmetry == TRANSLATION:
        moved = [scores(subject, x, start=start) for start in _starts(count, defined, movable)]
    else:
        drawn = torch.from_numpy(philox("scorecard", "order", count).permutation(count))
        order = order.flip(0) if symmetry == REVERSAL else drawn
        moved = [scores(subject, x[:, order])]
    expected = plain[:, order][:, :, order]
    if subject.sizes.causal:
        expected, moved = expected.tril(), [found.tril() for found in moved]
    return all(bool((found - expected).abs().max() <= HOLDS * expected.abs().max()) for found in moved)


def score_curve(windows: list[Tensor]) -> Tensor:
    """(H, distances): the mean score of a key k = 0, 1, … behind its query, up to 100 (or what there is)."""
    count = min(DISTANCES[2] + 1, windows[0].shape[-1])
    return torch.stack(
        [torch.cat([window.diagonal(-k, 1, 2) for window in windows], dim=1).mean(1) for k in range(count)],
        dim=1,
    )


def symmetries(windows: list[Tensor], *, causal: bool) -> tuple[dict[str, bool | None], float, float]:
    """What the scores (H, n, n) of some windows keep (None = a causal mask forbids the comparison); how far scores of
    the same distance differ; and the largest score, by which that is divided."""
    readable = torch.ones(windows[0].shape[-2:], dtype=torch.bool)
    if causal:
        readable = readable.tril()
    size = max(float(window.masked_fill(~readable, 0.0).abs().max()) for window in windows) or 1.0
    spread = 0.0
    for k in range(1, len(readable)):
        for side in (-k,) if causal else (-k, k):
            along = torch.cat([window.diagonal(side, 1, 2) for window in windows], dim=1)
            spread = max(spread, float((along.amax(1) - along.amin(1)).max()) / size)
    kept: dict[str, bool | None] = {TRANSLATION: spread <= HOLDS, REVERSAL: None, PERMUTATION: None}
    if not causal:
        turned = max(float((window - window.flip(1, 2)).abs().max()) for window in windows)
        varied = max(float((window.amax((1, 2)) - window.amin((1, 2))).max()) for window in windows)
        kept[REVERSAL], kept[PERMUTATION] = turned <= HOLDS * size, varied <= HOLDS * size
    return kept, spread, size


def falling(curves: Tensor, size: float) -> tuple[float, str]:
    """Of the steps from one distance to the next, over all curves (H, distances), the share that goes down; and
    "flat", "monotone" or "not monotone". Steps below 1e-9 of `size` are none."""
    steps, tolerance = curves.diff(dim=1), 1e-9 * size
    share = float((steps < -tolerance).double().mean())
    if bool((steps.abs() <= tolerance).all()):
        return share, "flat"
    return share, "monotone" if bool((steps <= tolerance).all()) else "not monotone"
