"""The scorecard of a position encoding: what can be known of it before anything is trained.

The criteria are the textbook's four (a vector of its own for each position, bounded, defined for longer sequences, a
distance that is the same wherever it is measured), locality, the linearity of shifts, and what they cost. Each figure
is measured on an untrained model; what an encoding declares of itself is shown beside it, and where the two disagree
that is named. A criterion that does not apply has no figure but a reason.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from lengthwise.evaluation import cost, position_codes
from lengthwise.evaluation.card import MEASURES, Scorecard, declared_facts, name_mismatches
from lengthwise.evaluation.position_codes import WHOLE, Subject
from lengthwise.evaluation.relations import (
    DISTANCES,
    dot_curve,
    falling,
    follow,
    score_curve,
    score_windows,
    shift_residual,
    symmetries,
)
from lengthwise.evaluation.verdict import HOLDS
from lengthwise.nn.position.contract import TRANSLATION, LengthError

COST_LENGTH, COST_REPEATS = 512, 9
"""Positions of the step that is timed, and how often."""

GROWS = 1.02
"""Growth of the root mean square with each doubling of the position from which values are called unbounded: even a
logarithm of 65 536 positions grows by 6 %."""

NOT_ON_EMBEDDING = "acts in the attention: it gives no vector to a position"
NOWHERE = "it acts neither on the embedding nor on the logits"


@torch.no_grad()
def measure(subject: Subject) -> Scorecard:
    """Everything but the costs, for which see `measure_cost`."""
    card = Scorecard()
    defined, refusal = position_codes.reach(subject)
    card.declared = declared_facts(subject)
    _reach(card, subject, defined, refusal)
    _codes(card, subject, defined)
    _prefix(card, subject, defined)
    _dots(card, subject, defined)
    _scores(card, subject, defined)
    _low_precision(card, subject, defined)
    name_mismatches(card)
    return card


@torch.no_grad()
def measure_distinct(subject: Subject) -> Scorecard:
    """Of `measure`, what is declared, and what is told apart in bfloat16."""
    card = Scorecard(declared=declared_facts(subject))
    _low_precision(card, subject, position_codes.reach(subject)[0])
    return card


def measure_cost(
    card: Scorecard,
    subject: Subject,
    baseline: Subject,
    *,
    length: int = COST_LENGTH,
    repeats: int = COST_REPEATS,
) -> None:
    """Time and memory of a step against `baseline`, the same without an encoding; see `cost.compare`."""
    length = min(length, card.figures["positions_defined"])
    try:
        found = cost.compare(subject, baseline, length, repeats)
    except LengthError as error:
        card.leave_out(str(error), "time", "time_low", "time_high", "memory", "cost_length")
        return
    card.figures |= found._asdict() | {"cost_length": length}


# --- up to where it is defined ---


def _reach(card: Scorecard, subject: Subject, defined: int, refusal: str | None) -> None:
    card.figures["positions_defined"] = defined
    trained = subject.sizes.trained_length
    said: list[str] = []
    if trained is not None and defined > trained:
        beyond = min(2 * trained, defined)
        flags = dict.fromkeys(flag for e in subject.encodings() for flag in e.flags(beyond))
        said += [f"flagged {flag.replace('_', ' ')}" for flag in flags]
    if refusal is not None:
        kind = (
            refusal.partition(":")[0] if refusal.startswith(("IndexError", "RuntimeError")) else "LengthError"
        )
        said.append(f"{kind} past {defined:,} positions".replace(",", " "))
        card.notes.append(refusal)
    card.figures["past_training"] = ", ".join(said) or "defined"


# --- uniqueness and bounds ---


def _codes(card: Scorecard, subject: Subject, defined: int) -> None:
    """How many differ in float32, and the range of their entries."""
    subject = subject.to(torch.float32)
    rows = _rows(subject, defined, torch.float32)
    kind = "distances" if subject.position is None else "positions"
    if rows is None:
        names = (
            "unique",
            "codes",
            "codes_of",
            "first_confused",
            "bounded",
            "low",
            "high",
            "growth",
            "one_code_from",
        )
        card.leave_out(NOWHERE, *names)
        return
    figures = card.figures
    figures["codes"], figures["first_confused"] = position_codes.distinct(rows)
    figures["codes_of"] = f"{len(rows)} {kind}"
    figures["unique"] = figures["codes"] == len(rows)
    if figures["unique"]:
        card.leave_out("none are confused", "first_confused")
    if len(rows) < defined:
        card.notes.append(f"it answers for all queries at once: distances below {WHOLE} were looked at")
    figures["low"], figures["high"] = float(rows.min()), float(rows.max())
    figures["one_code_from"] = position_codes.one_code_from(rows)
    if figures["one_code_from"] is None:
        card.leave_out(f"the last {kind} still differ", "one_code_from")
    elif figures["one_code_from"]:
        more = f"the same from {kind[:-1]} {figures['one_code_from']:,} on".replace(",", " ")
        past = figures["past_training"]
        figures["past_training"] = more if past == "defined" else f"{past}, {more}"
    _growth(card, subject, rows)


def _growth(card: Scorecard, subject: Subject, rows: Tensor) -> None:
    """Of the root mean square over the far half of a sequence, with each doubling of its length, over three of them."""
    count = len(rows)
    if count < 16:
        card.leave_out(f"{count} positions are too few to see growth", "growth", "bounded")
        return
    shorter = [_rows(subject, count // part, torch.float32) for part in (8, 4, 2)]
    sizes = [
        float(found[len(found) // 2 :].double().square().mean().sqrt())
        for found in (*shorter, rows)
        if found is not None
    ]
    if not all(sizes):
        card.leave_out("all its values are zero", "growth")
        card.figures["bounded"] = not any(sizes)
        return
    card.figures["growth"] = (sizes[-1] / sizes[0]) ** (1 / 3)
    card.figures["bounded"] = not all(later > GROWS * earlier for earlier, later in pairwise(sizes))


def _rows(subject: Subject, count: int, dtype: torch.dtype) -> Tensor | None:
    """Vectors on the embedding where there are some, else what distances add to the logits; or None."""
    rows = position_codes.table(subject, count, dtype)
    return position_codes.by_distance(subject, count, dtype) if rows is None else rows


def _prefix(card: Scorecard, subject: Subject, defined: int) -> None:
    """Whether a prefix is encoded as it is in a longer sequence; if not, a vector may stand for two positions."""
    subject = subject.to(torch.float64)
    long = min(1024, defined)
    short = long // 2
    if short < 2:
        card.leave_out(f"it has {defined} positions", "prefix_stable")
        return
    rows = [position_codes.table(subject, n, torch.float64) for n in (short, long)]
    stable = rows[0] is None or rows[1] is None or torch.equal(rows[0], rows[1][:short])
    if stable and subject.in_attention is not None:
        few = min(64, long)
        x = position_codes.content(few, subject.sizes.width, torch.float64).transpose(0, 1)
        whole, part = position_codes.scores(subject, x), position_codes.scores(subject, x[:, : few // 2])
        change = (whole[:, : few // 2, : few // 2] - part).tril().abs().max()
        stable = bool(change <= 1e-12 * whole.abs().max())
    card.figures["prefix_stable"] = stable
    if not stable and rows[0] is not None and rows[1] is not None:
        single = [r.float() for r in rows if r is not None]
        shared = position_codes.shared_between_lengths(*single)
        if shared is not None:
            card.figures["unique"] = False
            card.notes.append(
                f"a vector does not name a position: number {shared[0]} of {short} has that of number {shared[1]} of "
                f"{long}"
            )


# --- distance, locality, shifts ---


def _dots(card: Scorecard, subject: Subject, defined: int) -> None:
    """⟨r_n, r_{n+k}⟩ of the vectors themselves."""
    names = [name for name in MEASURES if name.startswith(("dot_", "shift_"))]
    rows = position_codes.table(subject.to(torch.float64), defined, torch.float64)
    if rows is None:
        card.leave_out(NOT_ON_EMBEDDING, *(name for name in names if name.startswith("dot_")))
        return
    if not rows.any():
        card.leave_out("all its vectors are zero", *names)
        return
    at_zero = float(rows.square().sum(1).mean())
    spreads = []
    for k in DISTANCES:
        if k >= len(rows) // 2:
            card.leave_out(f"too few positions ({len(rows)}) for a distance of {k}", f"dot_{k}")
            continue
        products = (rows[:-k] * rows[k:]).sum(1)
        spreads.append(float(products.max() - products.min()) / at_zero)
        card.figures[f"dot_{k}"] = float(products.mean()) / at_zero
    if not spreads:
        card.leave_out(
            f"too few positions ({len(rows)})", "dot_spread", "dot_consistent", "dot_decay", "dot_falling"
        )
    else:
        share, card.figures["dot_decay"] = falling(dot_curve(rows, DISTANCES[2])[None], 1.0)
        card.figures["dot_falling"] = share
        card.figures["dot_spread"] = max(spreads)
        card.figures["dot_consistent"] = max(spreads) <= HOLDS
    _shift(card, rows)


def _shift(card: Scorecard, rows: Tensor) -> None:
    """The residual of r_{n+k} ≈ M_k r_n by least squares, n ≥ 1 spread over all positions, more of them than columns.

    In an odd number of columns the last sine of the sinusoid has no cosine, and no M_k is exact; from about a hundred
    columns on the others make up for it to within rounding.
    """
    columns = rows.shape[1]
    residuals = [shift_residual(rows, k) for k in DISTANCES[:3] if len(rows) - 1 - k > columns]
    if not residuals:
        reason = f"{len(rows)} positions are too few for the {columns}×{columns} numbers of M_k"
        card.leave_out(reason, "shift_exact", "shift_residual")
        return
    card.figures["shift_residual"] = max(residuals)
    card.figures["shift_exact"] = max(residuals) <= HOLDS


def _scores(card: Scorecard, subject: Subject, defined: int) -> None:
    """The attention score through the layer's random projections, with equal content at all positions."""
    subject = subject.to(torch.float64)
    movable = card.figures["prefix_stable"] is not False
    windows = score_windows(subject, defined, movable)
    count = windows[0].shape[-1]
    if count < 3:
        names = (
            "score_consistent",
            "score_spread",
            "decay",
            "falling",
            "weight_1",
            "weight_10",
            "weight_100",
        )
        card.leave_out(f"it has {defined} positions", *names)
        return
    kept, spread, size = symmetries(windows, causal=subject.sizes.causal)
    # Scores of equal content, or of vectors alone, can be symmetric where those of different contents are not.
    card.symmetries = {
        name: holds and follow(subject, name, defined, movable) for name, holds in kept.items()
    }
    card.figures["score_spread"], card.figures["score_consistent"] = spread, kept[TRANSLATION]
    if subject.position is None:
        exact = bool(kept[TRANSLATION])
        card.figures["shift_exact"] = exact
        card.leave_out(
            "a shift leaves every score as it is: nothing is fitted"
            if exact
            else "scores depend on the place, and there are no vectors to fit a map to",
            "shift_residual",
        )
    _locality(card, windows, size)


def _locality(card: Scorecard, windows: list[Tensor], size: float) -> None:
    """How much a key k behind weighs against the query's own position, e to the difference of their scores."""
    curve = score_curve(windows)
    for k in DISTANCES[:3]:
        if k < curve.shape[1]:
            card.figures[f"weight_{k}"] = float((curve[:, k] - curve[:, 0]).mean().exp())
        else:
            card.leave_out(f"too few positions for a distance of {k}", f"weight_{k}")
    card.figures["falling"], card.figures["decay"] = falling(curve, size)


# --- bfloat16 ---


def _low_precision(card: Scorecard, subject: Subject, defined: int) -> None:
    """Codes after a cast of the whole encoding to bfloat16."""
    subject = subject.to(torch.bfloat16)
    rows = _rows(subject, defined, torch.bfloat16)
    if rows is None:
        card.leave_out(NOWHERE, "bf16_codes", "bf16_told_apart", "bf16_codes_of")
        return
    card.figures["bf16_codes_of"] = len(rows)
    codes, first = position_codes.distinct(rows)
    card.figures["bf16_codes"], card.figures["bf16_told_apart"] = codes, len(rows) if first is None else first
