"""From figures to a verdict: declared symmetries against measured ones, and when an accuracy is a success.

A float64 error of at most 1e-9 is rounding: the symmetry *holds*. Above 1e-4 it *fails*. What lies between is
*unclear*, and so is a model whose outputs hardly depend on its input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

Row = dict[str, Any]

NOT_AS_TRAINED = "not_as_trained"
"""The flag of a length whose test items are not drawn as training draws that length: it counts as beyond training."""

SUCCESS = 0.9
"""Accuracy from which a test counts as a success: a seed's at one length, and at every length up to its reach."""

HOLDS = 1e-9
FAILS = 1e-4
MEASURED_BY = {"permutation": "uniform", "reversal": "whole_reversal", "translation": "translation"}


def judge(rows: Iterable[Row]) -> str:
    """ "holds", "fails", "unclear" or "not measured", from the float64 rows of one action.

    Only logits count (hidden states explain, they are not outputs), and both relative errors must agree.
    """
    rows = [row for row in rows if row["dtype"] == "float64" and row["quantity"] in ("inputs", "answer")]
    rows = [row for row in rows if row["error_max"] is not None]
    if not rows:
        return "not measured"
    if any(row["difference_max"] is not None and row["difference_max"] > FAILS for row in rows):
        return "fails"
    if all(row["difference_max"] is not None and row["difference_max"] <= HOLDS for row in rows):
        return "holds"
    return "unclear"


def kept(model: Any, layout: Any) -> frozenset[str]:
    """What the outputs of `model` (a Transformer) follow with the position numbers that `layout` gives in the test.

    Read backwards, a sequence has the same distances only if these are even; where order changes nothing, none matters.
    """
    symmetries: frozenset[str] = model.symmetries
    uneven = not layout.test_rule.evenly_spaced
    return symmetries - {"reversal"} if uneven and "permutation" not in symmetries else symmetries


def verdicts(rows: Iterable[Row], declared: Collection[str]) -> list[Row]:
    """One row per symmetry: symmetry, action, declared, measured, agrees (None where the measure cannot tell).

    declared: what the whole model keeps, its `symmetries` ("permutation", "reversal", "translation").
    """
    rows = list(rows)
    table = []
    for symmetry, action in MEASURED_BY.items():
        expected = symmetry in declared
        measured = judge(row for row in rows if row["action"] == action)
        agrees = {"holds": expected, "fails": not expected}.get(measured)
        table.append(
            {
                "symmetry": symmetry,
                "action": action,
                "declared": expected,
                "measured": measured,
                "agrees": agrees,
            }
        )
    return table
