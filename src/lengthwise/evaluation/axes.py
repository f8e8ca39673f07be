"""Which length? Accuracy along each of the three things that a longer input changes.

A longer input has larger position numbers, larger distances between them, and more keys to attend to. Here a sequence
of the longest *trained* length is given one of these at a time, as much of it as a longer input would bring:

    index     every position number n becomes n + c; distances and the number of keys stay.
    distance  n becomes round(s·n), so that the last number is that of the longer input; the number of keys stays. A
              neighbour is then no longer at distance 1. (For an encoding that knows numbers rather than distances this
              moves the index too: see there.)
    gap       from one symbol on, numbers are raised by c, as if the neutral symbols of a longer input stood there:
              what is apart is farther apart, neighbours stay neighbours.
    keys      distractors are put between the symbols, under numbers that are there already: neither a number nor a
              distance is new. They are the task's neutral symbols where it has such, else further copies of the
              layout's own BOS or slot beside it.
    length    a truly longer input, to compare with.

How much that is, the rule of position numbers says (`Layout.spans`): the task's own numbers rise by what its highest
one rises by, and 0, "has no number", stays 0. Where longer inputs bring no larger numbers (drawn from one range,
whatever the length), there is nothing to imitate, and index, distance and gap are refused.

The right answer stays the same in all of them. The items are the test's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lengthwise.batch import IGNORE, Batch
from lengthwise.evaluation.length import NOT_DEFINED, evaluate_lengths, flags_of, protocol_of, score_batch
from lengthwise.evaluation.modes import evaluation_mode
from lengthwise.keyed import philox
from lengthwise.runs.tables import AXES_COLUMNS
from lengthwise.tasks.items import test_items

if TYPE_CHECKING:
    from lengthwise.nn.transformer import Transformer
    from lengthwise.tasks.contract import Examples, Task
    from lengthwise.tasks.layout import Layout

Row = dict[str, Any]

AXES = ("index", "distance", "gap", "keys")

COLUMNS = tuple(name for name in AXES_COLUMNS if name not in ("checkpoint", "step", "evaluation_id"))
"""Those of ``axes.csv`` but what says which model was tested."""


def evaluate_axes(
    model: Transformer,
    task: Task,
    layout: Layout,
    *,
    train_lengths: Sequence[int],
    test_lengths: Iterable[int],
    count: int = 1024,
    axes: Iterable[str] = AXES,
    max_tokens_per_batch: int = 16384,
) -> list[Row]:
    """One row per axis and per test length that is reached, with a row where nothing is changed first; then "length".

    Columns: axis; value, what n was raised by, stretched by, or how many distractors there are (of "length", the input
    symbols); length, input symbols of the items; reaches, the length whose numbers, distances or keys they have; n,
    n_tokens, token_accuracy, exact_match and loss as in `evaluate_lengths`; flags ("not_defined" where the encoding has
    no such positions, with no figures).

    Raises ValueError for an unknown axis, for test lengths none of which is longer than training, and for an axis that
    has no sound meaning here (see `refusal`).
    """
    axes, longest = tuple(dict.fromkeys(axes)), max(train_lengths)
    longer = sorted({int(length) for length in test_lengths if length > longest})
    if not longer:
        raise ValueError(
            f"no test length is longer than the trained {longest}: there is no longer input to explain"
        )
    for axis in axes:
        if (reason := refusal(axis, task, layout, (longest, *longer))) is not None:
            raise ValueError(reason)
    examples = test_items(task, longest, count)
    plain = layout(examples, "test", longest)
    rows: list[Row] = []
    with evaluation_mode(model):
        start = _score(
            model, layout, plain, longest, layout.spans(longest), max_tokens_per_batch, inside=True
        )
        for axis in axes:
            rows.append(
                {"axis": axis, "value": 1.0 if axis == "distance" else 0, "reaches": longest, **start}
            )
            for reached in longer:
                value, batch, spans = _changed(axis, task, layout, examples, plain, longest, reached)
                figures = _score(model, layout, batch, longest, spans, max_tokens_per_batch)
                rows.append({"axis": axis, "value": value, "reaches": reached, **figures})
    options: dict[str, Any] = {"train_lengths": train_lengths, "max_tokens_per_batch": max_tokens_per_batch}
    for row in evaluate_lengths(model, task, layout, [longest, *longer], count, **options):
        if row["stratum"] == "all":
            rows.append({"axis": "length", "value": row["length"], "reaches": row["length"], **row})
    return [{name: row[name] for name in COLUMNS} for row in rows]


def refusal(axis: str, task: Task, layout: Layout, lengths: Iterable[int]) -> str | None:
    """Why accuracy along `axis` would mean nothing for this task and layout, or None.

    lengths: the longest trained one, and the longer ones that are to be reached.
    """
    if axis not in AXES:
        return f"axis {axis!r} is unknown; known are {', '.join(AXES)}"
    if axis != "keys" and len({layout.spans(length) for length in lengths}) == 1:
        rule = layout.test_rule
        chosen = f"positions={type(rule).__name__.lower()}"
        if rule.supplied:
            chosen = f"positions=task (kind {rule.kind} of task {task.name})"
        return f"{axis}: {chosen} brings no larger numbers with length, so that there is nothing to imitate"
    if axis == "gap" and not task.neutral_symbols:
        return f"gap: task {task.name} has no neutral symbols, so that nothing says where a gap would change no answer"
    if axis != "keys" or task.neutral_symbols or layout.shape == "decoder":
        return None
    head = f"keys: task {task.name} has no neutral symbols, and "
    if layout.shape == "encoder_decoder":
        return head + "the encoder's side holds inputs alone, with no special token to copy"
    if layout.readout == "mean":
        return head + "its answer is read from the mean of all positions, which copies of a slot would enter"
    if layout.positions(2) == (2,):
        return head + "each input has an answer of its own, so that there is no special token to copy"
    return None


def _changed(
    axis: str, task: Task, layout: Layout, examples: Examples, plain: Batch, length: int, reached: int
) -> tuple[float, Batch, tuple[int, ...]]:
    """value, the changed batch, and what its numbers lie below on each side."""
    here, there = layout.spans(length), layout.spans(reached)
    supplied = layout.test_rule.supplied
    steps = tuple(b - a for a, b in zip(here, there, strict=True))
    if axis == "index":
        return steps[0], renumbered(plain, tuple(_raised_by(step, supplied) for step in steps)), there
    if axis == "distance":  # 0 stays 0, and the last number becomes that of the longer input
        factors = tuple((b - 1) / (a - 1) if a > 1 else 1.0 for a, b in zip(here, there, strict=True))
        batch = renumbered(plain, tuple(_stretched_by(factor) for factor in factors))
        last = (round((span - 1) * factor) for span, factor in zip(here, factors, strict=True))
        return factors[0], batch, tuple(number + 1 for number in last)
    if axis == "gap":
        places = philox("axes", "gap", task.identity, length)
        raised = there if supplied else (there[0], *here[1:])
        return steps[0], with_gap(plain, task, layout, examples, steps[0], places), raised
    extra = layout.positions(reached)[0] - layout.positions(length)[0]
    generator = philox("axes", "keys", task.identity, length, reached)
    return extra, with_distractors(plain, task, layout, examples, extra, generator), here


def _score(
    model: Transformer,
    layout: Layout,
    batch: Batch,
    length: int,
    spans: tuple[int, ...],
    max_tokens: int,
    inside: bool = False,
) -> Row:
    flags = flags_of(model, batch, spans, length, not inside)
    figures: Row = dict.fromkeys(("token_accuracy", "exact_match", "loss")) | {"n": 0, "n_tokens": 0}
    if NOT_DEFINED not in flags:
        protocol = protocol_of(model, layout)
        scores = score_batch(model, layout, batch, length, protocol, max_tokens)
        figures = scores.figures(np.ones(len(batch), dtype=bool))
    return {"length": length, **figures, "flags": ";".join(flags)}


Renumber = Callable[[Tensor], Tensor]


def _raised_by(step: int, supplied: bool) -> Renumber:
    """supplied: 0 is no number."""
    if supplied:
        return lambda numbers: torch.where(numbers > 0, numbers + step, numbers)
    return lambda numbers: numbers + step


def _stretched_by(factor: float) -> Renumber:
    def stretch(numbers: Tensor) -> Tensor:
        stretched = numbers.double() * factor
        return stretched.to(numbers.dtype) if numbers.is_floating_point() else stretched.round().long()

    return stretch


def renumbered(batch: Batch, how: tuple[Renumber, ...]) -> Batch:
    """`batch` with its position numbers, given or 0…N-1, changed; `how` is one function a side, the source's first."""
    if batch.source is None:
        return replace(batch, positions=_renumbered(batch, how[0]))
    source = replace(batch.source, positions=_renumbered(batch.source, how[0]))
    return replace(batch, source=source, positions=_renumbered(batch, how[1]))


def _numbers(batch: Batch) -> Tensor:
    """(B, N) or (B, N, levels)."""
    if batch.positions is not None:
        return batch.positions
    return torch.arange(batch.tokens.shape[1], device=batch.tokens.device).expand(batch.tokens.shape)


def _renumbered(batch: Batch, how: Renumber) -> Tensor:
    numbers = how(_numbers(batch))
    if numbers.ndim > 2:
        return numbers
    # What a pad is called means nothing, and must not be what an encoding has no row for.
    last = numbers.gather(1, batch.key_mask.sum(1, keepdim=True) - 1)
    return torch.where(batch.key_mask, numbers, last)


def with_gap(
    batch: Batch, task: Task, layout: Layout, examples: Examples, step: int, generator: np.random.Generator
) -> Batch:
    """`batch` with numbers raised by `step` from one input on, in the encoder's side where there is one.

    That input is drawn among those that a neutral symbol may precede, the first one excepted. Of the task's own numbers
    its number and all larger ones are raised, on both sides, so that what belongs together still does.
    Raises ValueError where there is no such input (among those that have a number, where the task gives them).
    """
    side = batch if batch.source is None else batch.source
    allowed = task.neutral_gaps(examples)
    allowed[:, [0, -1]] = False
    numbers = _numbers(side)
    inputs = slice(layout.input_start, layout.input_start + len(examples.inputs[0]))
    supplied = layout.test_rule.supplied
    if supplied:
        allowed[:, :-1] &= (numbers[:, inputs] > 0).numpy()
    starts = torch.from_numpy(layout.input_start + _pick(allowed, 1, generator))
    if supplied:
        first = numbers.gather(1, starts)
        return renumbered(batch, (lambda given: given + step * (given >= first).to(given.dtype),) * 2)
    behind = torch.arange(numbers.shape[1]) >= starts
    raised = numbers + step * (behind if numbers.ndim == 2 else behind.unsqueeze(-1)).to(numbers.dtype)
    changed = replace(side, positions=raised)
    return changed if batch.source is None else replace(batch, source=changed)


def with_distractors(
    batch: Batch, task: Task, layout: Layout, examples: Examples, extra: int, generator: np.random.Generator
) -> Batch:
    """`batch` with `extra` distractors in each sequence, in the encoder's side where there is one.

    Neutral symbols stand in front of an input, in gaps that the task allows, and have its number. BOS is repeated in
    front of a decoder's sequence, a slot behind itself, under their own numbers. Nothing is scored at a distractor.
    """
    side = batch if batch.source is None else batch.source
    size = (len(batch), extra)
    width = len(examples.inputs[0])
    if task.neutral_symbols:
        gaps = _pick(task.neutral_gaps(examples), extra, generator)
        before = layout.input_start + gaps
        beside = layout.input_start + np.minimum(gaps, width - 1)
        ids = [task.symbols.index(symbol) for symbol in task.neutral_symbols]
        symbols = np.array(ids)[generator.integers(len(ids), size=size)]
    elif layout.shape == "decoder":
        before = beside = np.zeros(size, dtype=np.int64)
        symbols = np.full(size, layout.vocabulary.bos)
    else:
        slots = np.flatnonzero(batch.tokens[0].numpy() == layout.vocabulary.slot)
        beside = np.broadcast_to(np.resize(slots, extra), size)
        before = beside + 1
        symbols = np.full(size, layout.vocabulary.slot)
    changed = _inserted(side, *(torch.from_numpy(np.ascontiguousarray(a)) for a in (before, beside, symbols)))
    return changed if batch.source is None else replace(batch, source=changed)


def _pick(allowed: np.ndarray, extra: int, generator: np.random.Generator) -> np.ndarray:
    """(B, extra) indices, uniform over where `allowed` (B, G) is True. Raises ValueError where it is nowhere."""
    if not allowed.any(axis=1).all():
        raise ValueError("these sequences are too short to put a neutral symbol anywhere")
    rank = np.floor(generator.random((len(allowed), extra)) * allowed.sum(1, keepdims=True))
    return (allowed.cumsum(1)[:, None, :] > rank[:, :, None]).argmax(2)


def _inserted(batch: Batch, before: Tensor, beside: Tensor, symbols: Tensor) -> Batch:
    """`batch` with `symbols` (B, E) in front of the positions `before`, under the numbers of the positions `beside`."""
    width = batch.tokens.shape[1]
    places = torch.cat([2 * torch.arange(width).expand(len(batch), width) + 1, 2 * before], 1)
    order = places.argsort(dim=1, stable=True)

    def placed(values: Tensor, more: Tensor) -> Tensor:
        both = torch.cat([values, more.to(values.dtype)], 1)
        index = order if both.ndim == 2 else order.unsqueeze(-1).expand(-1, -1, both.shape[2])
        return both.gather(1, index)

    def at(values: Tensor, index: Tensor) -> Tensor:
        return values.gather(
            1, index if values.ndim == 2 else index.unsqueeze(-1).expand(-1, -1, values.shape[2])
        )

    numbers = _numbers(batch)
    targets, features = batch.targets, batch.features
    return replace(
        batch,
        tokens=placed(batch.tokens, symbols),
        key_mask=placed(batch.key_mask, torch.ones_like(symbols)),
        targets=placed(targets, torch.full_like(symbols, IGNORE)) if targets.shape[1] == width else targets,
        features=None
        if features is None
        else placed(features, features.new_zeros(*symbols.shape, features.shape[2])),
        positions=placed(numbers, at(numbers, beside)),
    )
