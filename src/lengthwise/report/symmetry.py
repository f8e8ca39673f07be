"""Equivariance errors of each variant, and what they say of its symmetries."""

from __future__ import annotations

from typing import Any

from lengthwise.evaluation.verdict import MEASURED_BY, judge
from lengthwise.report.collect import Group
from lengthwise.report.section import Section, SymmetryRow
from lengthwise.report.words import listed
from lengthwise.runs import format_lengths

ACTIONS = {
    "adjacent_swap": "two neighbours swapped",
    "cyclic_shift": "cyclic shift",
    "block": "two blocks exchanged",
    "reversal": "inputs reversed",
    "uniform": "random permutation",
    "whole_reversal": "whole sequence reversed",
    "translation": "positions + c",
    "padding": "padding added",
}
BEFORE, AFTER = "before", "after"
QUANTITIES = ("inputs", "answer")
JUDGED = ("dtype", "quantity", "error_max", "difference_max")


def symmetry_rows(rows: list[dict[str, Any]], groups: list[Group]) -> list[SymmetryRow]:
    last: dict[str, float] = {}
    for row in rows:
        last[row["run"]] = max(last.get(row["run"], 0), row.get("step", 0))
    by_action: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        moment = _moment(row, last[row["run"]])
        if moment and row.get("quantity") in QUANTITIES and row.get("action") in ACTIONS:
            by_action.setdefault((row["group"], row["action"]), []).append({**row, "moment": moment})
    found = []
    for group in groups:
        for action in ACTIONS:
            own = by_action.get((group.key, action), [])
            after: dict[str, list[dict[str, Any]]] = {}
            for row in own:
                if row["moment"] == AFTER:
                    after.setdefault(row["run"], []).append(dict.fromkeys(JUDGED) | row)
            judged = {judge(one) for one in after.values()} or {"not measured"}
            measured = judged.pop() if len(judged) == 1 else "mixed"
            for quantity in QUANTITIES:
                part = [row for row in own if row["quantity"] == quantity]
                if part:
                    flips = _means([row for row in part if row["moment"] == AFTER], "flips").values()
                    found.append(
                        SymmetryRow(
                            group, action, quantity, _means(part, "error_mean"), _means(part, "difference_mean"),
                            max(flips, default=None), measured, _declared(group, action), len(after),
                            tuple(sorted({int(row["length"]) for row in part if "length" in row})),
                        )
                    )  # fmt: skip
    return found


def length_note(section: Section) -> str:
    """What is to be said where errors were not all measured at one length: they are not alike; "" otherwise."""
    measured = {length for row in section.symmetry for length in row.lengths}
    if len(measured) < 2:
        return ""
    joined = list(dict.fromkeys(row.group.label for row in section.symmetry if len(row.lengths) > 1))
    mean = f"; the means of {listed(joined)} join several" if joined else ""
    return f"Symmetry errors were measured at different lengths ({format_lengths(measured)}){mean}: compare with care."


def _moment(row: dict[str, Any], last_step: float) -> str:
    """before or after training; "" for what was measured in between, or on another checkpoint than the last."""
    if row.get("step", last_step) == 0 and last_step > 0:
        return BEFORE
    return (
        AFTER if row.get("step", last_step) == last_step and row.get("checkpoint", "last") == "last" else ""
    )


def _means(rows: list[dict[str, Any]], column: str) -> dict[tuple[str, str], float]:
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if column in row:
            values.setdefault((row["moment"], row["dtype"]), []).append(float(row[column]))
    return {key: sum(found) / len(found) for key, found in values.items()}


def _declared(group: Group, action: str) -> bool | None:
    """Whether the model declares to keep what this action tests; None where it says nothing about it.

    Padding must never matter. A model that keeps all permutations keeps each kind; one that does not may keep some.
    """
    if action == "padding":
        return True
    declared = dict(group.declared)
    for symmetry, measured_by in MEASURED_BY.items():
        if action == measured_by:
            return declared.get(symmetry)
    return declared.get("permutation") or None


def permutation_rows(section: Section) -> list[SymmetryRow]:
    """Random permutations of the inputs, at the inputs where they have logits: one row a group."""
    rows = [row for row in section.symmetry if row.action == "uniform"]
    at_inputs = {row.group.key for row in rows if row.quantity == "inputs"}
    return [row for row in rows if row.quantity == "inputs" or row.group.key not in at_inputs]
