"""The columns of a scorecard in words: what each means, and how a card's figures are said in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Card = Mapping[str, Any]
DASH = "–"


class Column(NamedTuple):
    """name, its meaning, the figure without which there is only a dash, and what is said of a card."""

    name: str
    meaning: str
    figure: str
    say: Callable[[Mapping[str, Any]], str]


def whole(number: int) -> str:
    """With a thin space between thousands: 65 537."""
    return f"{number:,}".replace(",", "\u202f")


def short(number: float) -> str:
    """Three digits."""
    if number == 0 or 1e-3 <= abs(number) < 1e4:
        return f"{number:.3g}"
    return f"{number:.0e}" if abs(number) < 1e-3 else f"{number:.2g}"


def cell(card: Card, column: Column) -> str:
    """What stands in the table: a dash where the figure does not apply."""
    return DASH if card["figures"].get(column.figure) is None else column.say(card["figures"])


def reasons(cards: Sequence[Card]) -> list[tuple[str, list[str]]]:
    """Why there is a dash, each reason once: "column: why", and the encodings of which it is said."""
    found: dict[str, list[str]] = {}
    for card in cards:
        by_reason: dict[str, list[str]] = {}
        for column in COLUMNS:
            reason = card["reasons"].get(column.figure)
            if reason is not None and card["figures"].get(column.figure) is None:
                by_reason.setdefault(reason, []).append(column.name)
        for reason, names in by_reason.items():
            found.setdefault(f"{', '.join(names)}: {reason}", []).append(card["encoding"])
    return list(found.items())


def symmetries(card: Card) -> str:
    """Declared ones; a mark where the measure disagrees."""
    return ", ".join(card["declared"].get("symmetries", [])) or "none"


def _apart(figures: Mapping[str, Any]) -> str:
    total, kind = figures["codes_of"].split()
    if figures["unique"]:
        return f"all {whole(int(total))} {kind}"
    if figures["codes"] == int(total):
        return "not across lengths"
    return f"{whole(figures['codes'])} of {whole(int(total))} {kind}"


def _range(figures: Mapping[str, Any]) -> str:
    return f"{short(figures['low'])} … {short(figures['high'])}"


def _grows(figures: Mapping[str, Any]) -> str:
    return "no" if figures["bounded"] else f"×{figures['growth']:.2f} a doubling"


def _alone(kind: str) -> Callable[[Mapping[str, Any]], str]:
    def say(figures: Mapping[str, Any]) -> str:
        spread = short(figures[f"{kind}_spread"])
        return f"yes ({spread})" if figures[f"{kind}_consistent"] else f"no ({spread})"

    return say


def _at(prefix: str, distances: Sequence[int]) -> Callable[[Mapping[str, Any]], str]:
    def say(figures: Mapping[str, Any]) -> str:
        values = [figures.get(f"{prefix}_{k}") for k in distances]
        return " / ".join(DASH if value is None else short(value) for value in values)

    return say


def _decay(prefix: str) -> Callable[[Mapping[str, Any]], str]:
    def say(figures: Mapping[str, Any]) -> str:
        said = figures[f"{prefix}decay"]
        return (
            f"at {100 * figures[f'{prefix}falling']:.0f} % of steps" if said == "not monotone" else str(said)
        )

    return say


def _shift(figures: Mapping[str, Any]) -> str:
    residual = figures.get("shift_residual")
    if residual is None:
        return "exact, by translation" if figures["shift_exact"] else "no"
    return f"exact ({short(residual)})" if figures["shift_exact"] else f"no ({short(residual)})"


def _bf16(figures: Mapping[str, Any]) -> str:
    told, codes, total = (figures[f"bf16_{name}"] for name in ("told_apart", "codes", "codes_of"))
    if told == total:
        return f"all {whole(total)}"
    return f"first {whole(told)}; {whole(codes)} of {whole(total)}"


def _time(figures: Mapping[str, Any]) -> str:
    return f"×{figures['time']:.2f} ({figures['time_low']:.2f}–{figures['time_high']:.2f})"


COLUMNS = (
    Column(
        "told apart",
        "uniqueness: how many positions (or distances, for what acts in the attention) have a vector (or what they add "
        "to the logits) of their own, in float32",
        "unique",
        _apart,
    ),
    Column(
        "range", "smallest and largest entry of the vectors, or of what is added to the logits", "low", _range
    ),
    Column(
        "grows",
        "boundedness: the root mean square over the far half of a sequence as its length doubles, three times; no = "
        "not each time",
        "bounded",
        _grows,
    ),
    Column(
        "past the trained length",
        "defined, flagged, clamped or refused, as tried up to position 65 536",
        "past_training",
        lambda figures: figures["past_training"],
    ),
    Column(
        "dot product: distance alone",
        "whether ⟨r_n, r_n+k⟩ is the same for all n at k = 1, 10, 100, 1 000; in brackets the largest spread over n, "
        "relative to k = 0",
        "dot_spread",
        _alone("dot"),
    ),
    Column(
        "dot product at 1 / 10 / 100 / 1000",
        "mean ⟨r_n, r_n+k⟩ relative to k = 0",
        "dot_1",
        _at("dot", (1, 10, 100, 1000)),
    ),
    Column(
        "dot product falls",
        "whether the mean dot product falls with each step away, up to 100",
        "dot_decay",
        _decay("dot_"),
    ),
    Column(
        "score: distance alone",
        "the same of the attention score through random W_q and W_k: vectors alone, or equal content at all positions "
        "where the encoding acts in the attention; spread relative to the largest score",
        "score_spread",
        _alone("score"),
    ),
    Column(
        "weight at 1 / 10 / 100",
        "locality: how much such a key k behind weighs against the query's own position, e to the difference of "
        "scores, geometric mean over heads and positions",
        "weight_1",
        _at("weight", (1, 10, 100)),
    ),
    Column(
        "weight falls",
        "whether the score of every head falls with each step away, up to 100; flat = it does not change",
        "decay",
        _decay(""),
    ),
    Column(
        "shift map",
        "whether one matrix M_k takes r_n to r_n+k for all n ≥ 1 (least squares in float64, k = 1, 10, 100; in "
        "brackets the largest relative residual of a dimension)",
        "shift_exact",
        _shift,
    ),
    Column(
        "in bfloat16",
        "how many positions from 0 on are all told apart in bfloat16, and how many different codes there are in all",
        "bf16_told_apart",
        _bf16,
    ),
    Column(
        "parameters",
        "more than the same model without an encoding has",
        "parameters",
        lambda figures: whole(figures["parameters"]),
    ),
    Column(
        "time",
        "CPU time of one attention layer, forward and backward, against none: median of pairs run in turn, and their "
        "quartiles",
        "time",
        _time,
    ),
    Column(
        "memory",
        "bytes of tensors alive at the peak of that step, against none",
        "memory",
        lambda figures: f"×{figures['memory']:.2f}",
    ),
)
