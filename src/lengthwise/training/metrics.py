"""Figures of a set of answers, as sums and counts: exact on any number of processes and any split into batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torchmetrics import Metric

from lengthwise.batch import IGNORE
from lengthwise.evaluation.scores import mark, token_losses


def summed_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats, summed over scored targets: logits (B, N, V), targets (B, N) -> (), at least float32."""
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return F.cross_entropy(
        logits.flatten(0, 1).to(dtype), targets.flatten(), ignore_index=IGNORE, reduction="sum"
    )


class AnswerMetrics(Metric):
    """Loss per scored target, accuracy per answer symbol, exact match per sequence.

    Accuracy is micro-averaged, every symbol counting once, and leaves the end-of-answer symbol `eos` out; loss and
    exact match include it. A sequence without scored targets counts nowhere.
    """

    full_state_update = False
    higher_is_better = None
    is_differentiable = False

    loss_sum: Tensor
    scored: Tensor
    correct: Tensor
    symbols: Tensor
    exact: Tensor
    sequences: Tensor

    def __init__(self, eos: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.eos = eos
        self.add_state("loss_sum", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        for name in ("scored", "correct", "symbols", "exact", "sequences"):
            self.add_state(name, torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, logits: Tensor, targets: Tensor) -> None:
        """Count logits (B, N, V) against targets (B, N)."""
        marks = mark(logits.argmax(-1), targets, self.eos)
        self.loss_sum += token_losses(logits, targets).double().sum()
        self.scored += marks.scored.sum()
        self.correct += (marks.right & marks.symbols).sum()
        self.symbols += marks.symbols.sum()
        self.exact += marks.exact.sum()
        self.sequences += marks.answered.sum()

    def compute(self) -> dict[str, Tensor]:
        """{"loss", "token_accuracy", "exact_match"}, nan where nothing was counted."""
        return {
            "loss": self.loss_sum / self.scored,
            "token_accuracy": self.correct.double() / self.symbols,
            "exact_match": self.exact.double() / self.sequences,
        }
