"""Greedy decoding: the model reads its own answers, one symbol at a time.

One teacher-forced pass gives the same *exact match* only for a prefix-stable model: then the first wrong symbol
fails both. Where a prefix's outputs depend on the total length (n/N, interpolated tables), the answer must
really be decoded. The free-running *token* accuracy is never the teacher-forced one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from lengthwise.batch import IGNORE, Batch
from lengthwise.evaluation.modes import device_of, evaluation_mode

if TYPE_CHECKING:
    from lengthwise.tasks.contract import Examples
    from lengthwise.tasks.layout import Layout


def greedy(model: nn.Module, examples: Examples, layout: Layout) -> Tensor:
    """Greedily decoded answers (B, T) on the CPU, T ≤ the longest legal answer plus its end token.

    A row that has ended is filled with the end token. Raises ValueError for an encoder, which decodes nothing.
    """
    if layout.shape == "encoder":
        raise ValueError(
            "greedy decoding needs a decoder or an encoder_decoder; an encoder answers in one pass"
        )
    batch = layout(examples)
    steps = max(answer_steps(layout, int(n)) for n in set(examples.lengths.tolist()))
    with evaluation_mode(model):
        return decode(model, batch.to(device_of(model)), steps=steps, end=layout.vocabulary.eos).cpu()


def answer_steps(layout: Layout, length: int) -> int:
    """Symbols a model may emit for an input of `length`: the longest answer and, unless it is a label, its end."""
    return layout.task.answer_length(length) + layout.ends


def decode(model: nn.Module, batch: Batch, *, steps: int, end: int) -> Tensor:
    """At most `steps` symbols (B, T) after each row's prompt; `batch` is the teacher-forced one.

    The prompt of a row ends where its first scored target is predicted (SEP, or BOS after an encoder). Each step
    is a pass over exactly the symbols known so far, without a cache: this is the definition, not the fast way.
    """
    prompt = (batch.targets != IGNORE).int().argmax(1)  # index of each prompt's last symbol
    rows = torch.arange(len(batch), device=batch.tokens.device)
    width = int(prompt.max()) + steps
    columns = torch.arange(width, device=batch.tokens.device)
    tokens = batch.tokens.new_full((len(batch), width), end)
    given = min(width, batch.tokens.shape[1])
    tokens[:, :given] = batch.tokens[:, :given]
    tokens = torch.where(columns <= prompt[:, None], tokens, end)  # nothing of the true answer stays

    answer: list[Tensor] = []
    ended = torch.zeros(len(batch), dtype=torch.bool, device=batch.tokens.device)
    for step in range(steps):
        known = int(prompt.max()) + 1 + step
        logits = model(_prefix(batch, tokens[:, :known], columns[:known] <= prompt[:, None] + step))
        symbol = logits[rows, prompt + step].argmax(-1).masked_fill(ended, end)
        answer.append(symbol)
        ended |= symbol == end
        if ended.all() or step + 1 == steps:
            break
        tokens[rows, prompt + step + 1] = symbol
    return torch.stack(answer, dim=1)


def at_targets(answers: Tensor, targets: Tensor) -> Tensor:
    """Predictions (B, N): `answers` (B, T) laid where `targets` are scored, in order; −1 where T is too short."""
    scored = targets != IGNORE
    order = scored.cumsum(1) - 1
    reached = scored & (order < answers.shape[1])
    picked = answers.gather(1, order.clamp(0, answers.shape[1] - 1))
    return torch.where(reached, picked, -1)


def _prefix(batch: Batch, tokens: Tensor, key_mask: Tensor) -> Batch:
    """`batch` cut or lengthened to the columns of `tokens`; symbols that were decoded carry no features."""
    known = tokens.shape[1]
    features = batch.features
    if features is not None:
        missing = max(0, known - features.shape[1])
        features = nn.functional.pad(features[:, :known], (0, 0, 0, missing))
    return replace(
        batch,
        tokens=tokens,
        key_mask=key_mask,
        targets=torch.full_like(tokens, IGNORE),  # a model that decodes is not shown the answers
        features=features,
        positions=None if batch.positions is None else batch.positions[:, :known],
    )
