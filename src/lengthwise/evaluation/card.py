"""A scorecard: figures, or why there are none; declared facts, and where measured ones disagree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lengthwise.evaluation.position_codes import LAST, Subject
from lengthwise.nn.position.contract import ALL_SYMMETRIES

_BFLOAT16_PROMISE = 4096
"""Up to here an encoding that declares no limit says that it tells positions apart in bfloat16."""

MEASURES = (
    "unique", "codes", "codes_of", "first_confused", "bounded", "low", "high", "growth",
    "past_training", "positions_defined", "one_code_from", "prefix_stable",
    "dot_consistent", "dot_spread", "score_consistent", "score_spread",
    "dot_1", "dot_10", "dot_100", "dot_1000", "dot_decay", "dot_falling",
    "weight_1", "weight_10", "weight_100", "decay", "falling",
    "shift_exact", "shift_residual", "bf16_told_apart", "bf16_codes", "bf16_codes_of",
    "parameters", "time", "time_low", "time_high", "memory", "cost_length",
)  # fmt: skip
"""Names of the figures, in order; the columns of the table say what they mean."""


@dataclass
class Scorecard:
    """figures: by the names of `MEASURES`, None where one does not apply, for which `reasons` has a sentence.

    symmetries: of the encoding's scores, as measured (None = the mask forbids the comparison).
    mismatches: where a declared fact and a measured one disagree.  notes: what a reader must know.
    """

    figures: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(MEASURES))
    reasons: dict[str, str] = field(default_factory=dict)
    declared: dict[str, Any] = field(default_factory=dict)
    symmetries: dict[str, bool | None] = field(default_factory=dict)
    mismatches: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def leave_out(self, reason: str, *names: str) -> None:
        self.reasons |= dict.fromkeys(names, reason)


def declared_facts(subject: Subject) -> dict[str, Any]:
    """What all encodings of the subject declare together."""
    encodings = subject.encodings()
    kept = ALL_SYMMETRIES.intersection(*(e.symmetries for e in encodings))
    limits = [e.distinct_until for e in encodings]
    return {
        "symmetries": sorted(kept),
        "prefix_stable": all(e.prefix_stable for e in encodings),
        "max_length": min((e.max_length for e in encodings if e.max_length is not None), default=None),
        "distinct_until": None if None in limits else max((n for n in limits if n is not None), default=None),
        "paper": "; ".join(dict.fromkeys(e.paper for e in encodings if e.paper)),
    }


def name_mismatches(card: Scorecard) -> None:
    """Into `card.mismatches`."""
    declared, figures = card.declared, card.figures
    defined = figures["positions_defined"]
    for symmetry, measured in card.symmetries.items():
        said = symmetry in declared["symmetries"]
        if measured is not None and said != measured:
            card.mismatches.append(
                f"{symmetry} is declared, and measured to fail"
                if said
                else f"{symmetry} is not declared, and scores keep it"
            )
    limit = declared["max_length"]
    if (LAST + 1 if limit is None else min(limit, LAST + 1)) != defined:
        card.mismatches.append(f"max_length={limit} is declared, and {defined} positions are defined")
    stable = figures["prefix_stable"]
    if stable is not None and stable != declared["prefix_stable"]:
        card.mismatches.append(
            f"prefix_stable={declared['prefix_stable']} is declared, and {stable} measured"
        )
    if (wrong := distinct_mismatch(card)) is not None:
        card.mismatches.append(wrong)


def distinct_mismatch(card: Scorecard) -> str | None:
    """Where fewer positions or distances are told apart in bfloat16 than declared: that, in words."""
    shown, told = card.declared["distinct_until"], card.figures["bf16_told_apart"]
    if told is None or told >= min(shown or _BFLOAT16_PROMISE, card.figures["bf16_codes_of"]):
        return None
    return (
        f"distinct_until={shown}{'' if shown else f' (all up to {_BFLOAT16_PROMISE})'} is declared, and {told} are "
        f"told apart in bfloat16"
    )
