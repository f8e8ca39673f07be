"""Accuracy against length, on test items that are the same for every run, seed and list of lengths."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lengthwise.batch import Batch
from lengthwise.evaluation.decoding import answer_steps, at_targets, decode
from lengthwise.evaluation.modes import device_of, evaluation_mode
from lengthwise.evaluation.scores import Scores, score
from lengthwise.evaluation.verdict import NOT_AS_TRAINED, SUCCESS
from lengthwise.keyed import digest
from lengthwise.nn.position import LengthError
from lengthwise.tasks.contract import TEACHER_FORCED, best_blind
from lengthwise.tasks.items import test_items

if TYPE_CHECKING:
    from lengthwise.nn.transformer import Transformer
    from lengthwise.tasks.contract import Examples, Task
    from lengthwise.tasks.layout import Layout

Row = dict[str, Any]

log = logging.getLogger(__name__)

NOT_DEFINED = "not_defined"


def evaluate_lengths(
    model: Transformer,
    task: Task,
    layout: Layout,
    lengths: Iterable[int],
    count: int = 1024,
    *,
    train_lengths: Sequence[int],
    max_tokens_per_batch: int = 16384,
) -> list[Row]:
    """One row per length, five where the task says where its evidence lies, one for each way to see a test that is a
    whole (`Task.whole_test`; `count` does not apply to it).

    Columns: split, protocol, length, stratum, n (sequences), n_tokens (answer symbols), token_accuracy (the end
    token excluded), exact_match and loss (nats per scored target; both with the end token), flags (joined by ";").

    protocol: "parallel" where the model reads none of its answers (an encoder, a single label, answers at the
    inputs), "teacher_forced" for a prefix-stable decoder (exact match is then the greedy one), else "greedy":
    accuracies of what was really decoded, loss still teacher-forced.
    stratum: "all"; "evidence_inside", evidence at an input position below the longest of `train_lengths`, and
    "evidence_outside"; "distance_inside", fewer symbols than that between the evidence and the end of the input, and
    "distance_outside". An empty stratum has n = 0 and None for its figures, as has a length that the encoding
    cannot represent, which is flagged "not_defined" and stops none of the others. "not_as_trained": see
    `Task.tests_what_is_trained`.

    `max_tokens_per_batch` bounds memory and nothing else. Raises ValueError for a length the task does not have.
    """
    lengths = [int(length) for length in lengths]
    for length in lengths:
        task.check_length(length)
    if count < 1 or max_tokens_per_batch < 1:
        raise ValueError(
            f"count={count} and max_tokens_per_batch={max_tokens_per_batch} must both be at least 1"
        )
    rows: list[Row] = []
    with evaluation_mode(model):
        for length in lengths:
            rows += _one_length(model, task, layout, length, count, max(train_lengths), max_tokens_per_batch)
    return rows


def protocol_of(model: Transformer, layout: Layout) -> str:
    """How answers are read: "parallel", "teacher_forced" or "greedy"."""
    if not layout.autoregressive:
        return "parallel"
    return "teacher_forced" if model.prefix_stable else "greedy"


def _one_length(
    model: Transformer,
    task: Task,
    layout: Layout,
    length: int,
    count: int,
    longest_trained: int,
    max_tokens: int,
) -> list[Row]:
    whole = task.whole_test(length)
    if whole is None:
        whole = {"all": test_items(task, length, count)}
    rows: list[Row] = []
    for name, examples in whole.items():
        rows += _one_set(model, layout, examples, length, longest_trained, max_tokens, name)
    if not task.tests_what_is_trained(length):
        for row in rows:
            if row["stratum"] == "all":
                row["flags"] = ";".join(filter(None, [row["flags"], NOT_AS_TRAINED]))
    return rows


def _one_set(
    model: Transformer,
    layout: Layout,
    examples: Examples,
    length: int,
    longest_trained: int,
    max_tokens: int,
    name: str,
) -> list[Row]:
    """The rows of one set of items of one length, all of them in the stratum `name`."""
    protocol = protocol_of(model, layout)
    strata = _strata(examples, longest_trained) if name == "all" else {name: _everything(examples)}
    head = {"split": "test", "protocol": protocol, "length": length}
    batch = layout(examples, "test", length)
    flags = flags_of(model, batch, layout.spans(length), length, length > longest_trained)
    if NOT_DEFINED in flags:
        nothing = {name: np.zeros(len(examples), dtype=bool) for name in strata}
        empty = Scores(*(np.zeros(len(examples)) for _ in range(5)))
        return _rows(head, empty, nothing, flags)
    scores = score_batch(model, layout, batch, length, protocol, max_tokens)
    return _rows(head, scores, strata, flags)


def flags_of(
    model: Transformer, batch: Batch, spans: tuple[int, ...], length: int, longer_than_trained: bool
) -> tuple[str, ...]:
    """What a reader must know of results at this length; NOT_DEFINED where the encoding refuses it.

    One sequence is tried. A ValueError that is no LengthError is taken for such a refusal only past the trained
    lengths: within them it is a fault, and is raised.
    """
    try:
        flags = tuple(model.position_flags(*spans))
        model(batch.rows(slice(0, 1)).to(device_of(model)))
    except ValueError as limit:
        if not (longer_than_trained or isinstance(limit, LengthError)):
            raise
        log.warning("length %d is not defined for this model: %s", length, limit)
        return (NOT_DEFINED,)
    return flags


def _rows(head: Row, scores: Scores, strata: Mapping[str, np.ndarray], flags: tuple[str, ...]) -> list[Row]:
    text = ";".join(flags)
    return [
        {**head, "stratum": name, **scores.figures(chosen), "flags": text} for name, chosen in strata.items()
    ]


def _everything(examples: Examples) -> np.ndarray:
    return np.ones(len(examples), dtype=bool)


def _strata(examples: Examples, longest_trained: int) -> dict[str, np.ndarray]:
    """Where the evidence lies, counted from the front (its position) and from the end of the input (its distance)."""
    known = examples.evidence >= 0
    if not known.any():
        return {"all": _everything(examples)}
    inside, near = (
        places < longest_trained for places in (examples.evidence, examples.lengths - 1 - examples.evidence)
    )
    return {
        "all": _everything(examples),
        "evidence_inside": known & inside,
        "evidence_outside": known & ~inside,
        "distance_inside": known & near,
        "distance_outside": known & ~near,
    }


def score_batch(
    model: Transformer,
    layout: Layout,
    batch: Batch,
    length: int,
    protocol: str,
    max_tokens: int,
) -> Scores:
    """Scores of the whole `batch`, computed in parts; it was padded as a whole, so parts do not change widths."""
    width = batch.tokens.shape[1] + (0 if batch.source is None else batch.source.tokens.shape[1])
    size = max(1, max_tokens // width)
    end, device, parts = layout.vocabulary.eos, device_of(model), []
    for start in range(0, len(batch), size):
        part = batch.rows(slice(start, start + size)).to(device)
        predictions = None
        if protocol == "greedy":
            answers = decode(model, part, steps=answer_steps(layout, length), end=end)
            predictions = at_targets(answers, part.targets)
        parts.append(score(model(part), part.targets, end, predictions))
    return Scores.join(parts)


def summarise(rows: Iterable[Row], train_lengths: Sequence[int]) -> dict[str, Any]:
    """Per measure ("token_accuracy", "exact_match"): `in_distribution`, `extrapolation` and `reach`.

    in_distribution: mean over the tested lengths among `train_lengths`; extrapolation: mean over those beyond the
    longest, and those flagged "not_as_trained". Either is None where there is no such length, and where one of them is
    not defined: a mean over the lengths that an encoding can do would flatter it (`not_defined` lists them).
    reach: the largest tested length up to which the measure is ≥ 0.9 at every tested length; 0 if at none.
    A length whose answers are all empty has no tokens, and no part in the token accuracy.
    """
    everything = sorted((row for row in rows if row["stratum"] == "all"), key=lambda row: row["length"])
    lengths = [row["length"] for row in everything]
    if len(set(lengths)) != len(lengths):
        raise ValueError(
            f"one row per length is needed, got the lengths {lengths}: summarise one evaluation at a time"
        )
    other = {row["length"] for row in everything if NOT_AS_TRAINED in str(row.get("flags", "")).split(";")}
    lacking = [row["length"] for row in everything if row["exact_match"] is None]
    trained, longest = set(train_lengths) - other, max(train_lengths)
    summary: dict[str, Any] = {"not_defined": lacking}
    for measure in ("token_accuracy", "exact_match"):
        figures = {row["length"]: row[measure] for row in everything if counts_in(row, measure)}
        summary[measure] = {
            "in_distribution": _mean([v for n, v in figures.items() if n in trained]),
            "extrapolation": _mean([v for n, v in figures.items() if n > longest or n in other]),
            "reach": _reach(figures),
        }
    return summary


def counts_in(row: Row, measure: str) -> bool:
    """Whether means of `measure` have a place for the row: answers that are all empty have no tokens to be right."""
    return row[measure] is not None or row["exact_match"] is None


def _mean(figures: list[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) / len(known) if known and len(known) == len(figures) else None


def _reach(figures: Mapping[int, float | None]) -> int:
    reach = 0
    for length in sorted(figures):
        figure = figures[length]
        if figure is None or figure < SUCCESS:
            break
        reach = length
    return reach


def with_baselines(rows: Iterable[Row], task: Task) -> list[Row]:
    """Copies of `rows` with `baselines` (name -> token accuracy at that length) and `best_blind`, the best of those
    that ignore the order of the input.

    Baselines that know the answer so far are left out unless the row's protocol is "teacher_forced".
    """
    rows = list(rows)
    known = {length: task.baselines(length) for length in {row["length"] for row in rows}}

    def apply(row: Row) -> dict[str, float]:
        forced = row["protocol"] == "teacher_forced"
        return {name: v for name, v in known[row["length"]].items() if forced or name not in TEACHER_FORCED}

    return [{**row, "baselines": apply(row), "best_blind": best_blind(apply(row))} for row in rows]


def evaluation_id(options: Mapping[str, Any] | None = None) -> str:
    """A short name for an evaluation with other options than training's; "trained" where there are none."""
    return digest("evaluation", dict(options), size=5).hex() if options else "trained"
