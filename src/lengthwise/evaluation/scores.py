"""What is counted for each sequence, before anything is averaged."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lengthwise.batch import IGNORE


@dataclass(frozen=True)
class Scores:
    """Sums per sequence, each (B,): averages of averages would weight short answers more.

    correct: answer symbols predicted right, of `symbols` (the end token is neither).
    exact:   True where every scored target, the end token included, is predicted right.
    loss:    summed cross-entropy in nats over `scored` targets, the end token included.
    """

    correct: np.ndarray
    symbols: np.ndarray
    exact: np.ndarray
    loss: np.ndarray
    scored: np.ndarray

    @staticmethod
    def join(parts: list[Scores]) -> Scores:
        """The scores of several batches, in order."""
        names = [field.name for field in fields(Scores)]
        return Scores(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def figures(self, chosen: np.ndarray) -> dict[str, float | int | None]:
        """n, n_tokens, token_accuracy, exact_match and loss of the sequences where `chosen` (B,) is True.

        token_accuracy is per answer symbol, exact_match per sequence, loss per scored target. None where
        nothing was counted: an empty stratum has no accuracy.
        """
        n, n_tokens = int(chosen.sum()), int(self.symbols[chosen].sum())
        scored = int(self.scored[chosen].sum())
        return {
            "n": n,
            "n_tokens": n_tokens,
            "token_accuracy": float(self.correct[chosen].sum() / n_tokens) if n_tokens else None,
            "exact_match": float(self.exact[chosen].mean()) if n else None,
            "loss": float(self.loss[chosen].sum() / scored) if scored else None,
        }


class Marks(NamedTuple):
    """What is right about predictions (B, N). An answer's symbols are its scored targets before the end token.

    scored, symbols, right: (B, N) bool. answered: (B,) anything is scored at all. exact: (B,) every scored target up to
    the end token, itself included, is right. What stands behind it (slots that an answer did not need) counts in the
    loss alone.
    """

    scored: Tensor
    symbols: Tensor
    right: Tensor
    answered: Tensor
    exact: Tensor


def mark(predictions: Tensor, targets: Tensor, end: int | None) -> Marks:
    """Predictions (B, N) against targets (B, N); symbol `end` closes an answer (None: answers have no end)."""
    scored = targets != IGNORE
    counted = symbols = scored
    if end is not None:
        ends = targets == end
        counted = scored & (ends.cumsum(1) - ends.long() == 0)
        symbols = counted & ~ends
    right = (predictions == targets) & counted
    answered = scored.any(1)
    return Marks(scored, symbols, right, answered, (right | ~counted).all(1) & answered)


def token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats of logits (B, N, V) at each target (B, N), 0 where not scored; at least float32."""
    dtype = torch.promote_types(logits.dtype, torch.float32)
    losses = F.cross_entropy(
        logits.flatten(0, 1).to(dtype), targets.flatten(), ignore_index=IGNORE, reduction="none"
    )
    return losses.view(targets.shape)


def score(logits: Tensor, targets: Tensor, end: int, predictions: Tensor | None = None) -> Scores:
    """Scores of logits (B, N, V) against targets (B, N); symbol `end` closes an answer and is not part of it.

    `predictions` (B, N), where given, replaces the logits' argmax (what was really decoded); the loss is then
    still the logits'.
    """
    marks = mark(logits.argmax(-1) if predictions is None else predictions, targets, end)
    losses = token_losses(logits, targets).cpu().double()

    def count(mask: Tensor) -> np.ndarray:
        return mask.sum(1).cpu().numpy()

    return Scores(
        correct=count(marks.right & marks.symbols),
        symbols=count(marks.symbols),
        exact=marks.exact.cpu().numpy(),
        loss=losses.sum(1).numpy(),
        scored=count(marks.scored),
    )
