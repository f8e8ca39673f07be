"""What a model claims, beside what was measured of it: the lines of a symmetry certificate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lengthwise.evaluation.verdict import judge, kept

if TYPE_CHECKING:
    from lengthwise.nn.transformer import Transformer
    from lengthwise.tasks.layout import Layout

Row = dict[str, Any]

PROPERTIES = {
    "adjacent_swap": "permutation: two neighbours exchanged",
    "cyclic_shift": "permutation: cyclic shift",
    "block": "permutation: two blocks exchanged",
    "uniform": "permutation: any",
    "reversal": "permutation: inputs reversed",
    "whole_reversal": "reversal of the whole sequence",
    "translation": "translation of position numbers",
    "padding": "padding changes nothing",
    "batch": "alone as in a batch",
    "causality": "causality: nothing from later symbols",
    "prefix": "prefix stability: a prefix alone as in the whole",
}
"""Action -> what it is called."""

_PERMUTING = ("adjacent_swap", "cyclic_shift", "block", "uniform", "reversal")


def claims(model: Transformer, layout: Layout) -> dict[str, bool | None]:
    """Action -> whether the declared facts of the model's parts say that it holds.

    Padding and batch-mates change no model here. Inputs reversed around a slot or BOS are any permutation, and without
    such a thing a reversal of the whole.
    """
    symmetries = kept(model, layout)
    inputs_alone = layout.shape == "encoder_decoder" or layout.positions(2) == (2,)
    declared: dict[str, bool | None] = dict.fromkeys(_PERMUTING, "permutation" in symmetries)
    declared["reversal"] = "permutation" in symmetries or (inputs_alone and "reversal" in symmetries)
    declared["whole_reversal"] = "reversal" in symmetries
    declared["translation"] = "translation" in symmetries
    declared |= {"padding": True, "batch": True}
    declared |= {"causality": model.causal, "prefix": model.prefix_stable}
    return declared


def module_claims(module: Any) -> dict[str, bool | None]:
    """As `claims`, of any module: its own `symmetries`, `causal` and `prefix_stable` where it has them, else None."""
    symmetries = getattr(module, "symmetries", None)
    declared: dict[str, bool | None] = dict.fromkeys(PROPERTIES)
    if symmetries is not None:
        declared |= dict.fromkeys(_PERMUTING, "permutation" in symmetries)
        backwards = bool({"permutation", "reversal"} & set(symmetries))
        declared |= {"reversal": backwards, "whole_reversal": backwards}
        declared["translation"] = "translation" in symmetries
    declared |= {"padding": True, "batch": True}
    for action, fact in (("causality", "causal"), ("prefix", "prefix_stable")):
        declared[action] = getattr(module, fact, None)
    return declared


def findings(rows: Iterable[Row], declared: Mapping[str, bool | None]) -> list[Row]:
    """One row per action that was measured: action, property, declared, measured, agrees, the worst errors, flags.

    measured: "holds", "fails", "unclear", "collapsed" (outputs hardly depend on the input, so that nothing can be
    said) or "not measured". agrees: None where the measure cannot tell, or nothing is declared.
    float32, float32_difference, float64, float64_difference: the largest error of the logits over draws, relative to
    ‖f(x)‖ and to ‖f(x) − f(x′)‖.
    """
    rows = list(rows)
    found = []
    for action in dict.fromkeys(row["action"] for row in rows):
        own = [row for row in rows if row["action"] == action]
        logits = [row for row in own if not row["quantity"].startswith("hidden")]
        measured = judge(own)
        flags = sorted({flag for row in logits for flag in (row["flags"] or "").split(";") if flag})
        if measured == "unclear" and "collapsed" in flags:
            measured = "collapsed"
        line: Row = {
            "action": action,
            "property": PROPERTIES[action],
            "declared": declared.get(action),
            "measured": measured,
        }
        line["agrees"] = None
        if line["declared"] is not None and measured in ("holds", "fails"):
            line["agrees"] = line["declared"] == (measured == "holds")
        for dtype in ("float32", "float64"):
            of_dtype = [row for row in logits if row["dtype"] == dtype]
            line[dtype] = _worst(row["error_max"] for row in of_dtype)
            line[f"{dtype}_difference"] = _worst(row["difference_max"] for row in of_dtype)
        line["flags"] = ";".join(flags)
        found.append(line)
    return found


def broken(found: Iterable[Row]) -> list[Row]:
    """The rows where something declared was not seen to hold: it fails, is unclear, or the model is collapsed."""
    return [row for row in found if row["declared"] and row["measured"] not in ("holds", "not measured")]


def undeclared(found: Iterable[Row]) -> list[Row]:
    """The rows where something holds that nobody declared: a symmetry of these weights or of this length, or a fact
    that was not stated."""
    return [row for row in found if row["declared"] is False and row["measured"] == "holds"]


def _worst(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
