"""Baselines that are measured: rules fitted on one set of keyed samples and scored on another.

A rule that is fitted and scored on the same samples would look better than it is. What is measured is a lower bound of
the best rule of its kind, close to it where the rule has few cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from lengthwise.batch import IGNORE
from lengthwise.keyed import digest, philox

if TYPE_CHECKING:
    from lengthwise.tasks.contract import Examples, Task

SAMPLES = 4096
"""Sequences that a rule is fitted on, and as many that it is scored on."""

KINDS = ("position_only", "token_only", "previous_only")


def estimated_baselines(task: Task, length: int, wanted: Sequence[str] = KINDS) -> dict[str, float]:
    """Token accuracy (end symbol excluded) of the rules in `wanted` that apply; see `Task.baselines`.

    Each knows the place in the answer, and besides: position_only nothing, token_only the input token there
    (per_token), previous_only the answer symbol before (sequence).
    Raises ValueError for a rule that is not known.
    """
    if unknown := set(wanted) - set(KINDS):
        raise ValueError(f"no such rule: {', '.join(sorted(unknown))}; known are {', '.join(KINDS)}")
    if task.feature_dim is not None or task.fixed_items("test") is not None:
        return {}
    return _estimated(_Key(task), length, tuple(wanted))


class _Key:
    """A task, equal to any of the same identity."""

    def __init__(self, task: Task) -> None:
        self.task, self._digest = task, digest(task.identity)

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._digest == self._digest


@lru_cache(maxsize=1024)
def _estimated(key: _Key, length: int, wanted: tuple[str, ...]) -> dict[str, float]:
    task = key.task
    generator = philox("baselines", task.identity, length)
    fitted, scored = (task.generate(np.full(SAMPLES, length), generator) for _ in range(2))
    found = {}
    for name in wanted:
        cues = [_cues(task, examples, name) for examples in (fitted, scored)]
        if cues[0] is not None and cues[1] is not None:
            accuracy = _accuracy(cues[0], fitted, cues[1], scored)
            if not np.isnan(accuracy):
                found[name] = accuracy
    return found


def _cues(task: Task, examples: Examples, name: str) -> np.ndarray | None:
    """(B, m) int64: what the rule knows at each place of the answer; None where it does not apply."""
    shape, names = examples.answers.shape, len(task.symbols)
    places = np.broadcast_to(np.arange(shape[1]), shape)
    if name == "position_only":
        return places
    if name == "token_only" and task.answer_format == "per_token":
        return places * names + examples.inputs
    if name == "previous_only" and task.answer_format == "sequence":
        before = np.concatenate([np.zeros((shape[0], 1), np.int64), 1 + examples.answers[:, :-1]], axis=1)
        return places * (names + 1) + before
    return None


def _accuracy(cues: np.ndarray, fitted: Examples, test_cues: np.ndarray, scored: Examples) -> float:
    """Share of the answer symbols of `scored` that are the most frequent one of `fitted` under the same cue."""
    known, answers = (part[_answered(fitted)] for part in (cues, fitted.answers))
    asked, right = (part[_answered(scored)] for part in (test_cues, scored.answers))
    if not len(answers) or not len(right):
        return float("nan")
    symbols = int(answers.max()) + 1
    pairs, counts = np.unique(known * symbols + answers, return_counts=True)
    order = np.lexsort((counts, pairs // symbols))  # the most frequent last among those of one cue
    cue, best = pairs[order] // symbols, pairs[order] % symbols
    last = np.append(cue[1:] != cue[:-1], True)
    cue, best = cue[last], best[last]
    usual = np.bincount(answers).argmax()  # for cues that were never seen
    place = np.searchsorted(cue, asked).clip(max=len(cue) - 1)
    return float((np.where(cue[place] == asked, best[place], usual) == right).mean())


def _answered(examples: Examples) -> np.ndarray:
    """(B, m) bool, True where there is an answer symbol that counts."""
    there = np.arange(examples.answers.shape[1])[None, :] < examples.answer_lengths[:, None]
    return there & (examples.answers != IGNORE)
