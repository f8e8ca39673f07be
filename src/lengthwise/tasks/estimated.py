"""Baselines that are measured: rules fitted on one set of keyed samples and scored on another.

A rule that is fitted and scored on the same samples would look better than it is. What is measured is a lower bound of
the best rule of its kind, close to it where the rule has few cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from lengthwise.batch import IGNORE
from lengthwise.keyed import digest, philox

if TYPE_CHECKING:
    from lengthwise.tasks.contract import Examples, Task

SAMPLES = 4096
"""Sequences that a rule is fitted on, and as many that it is scored on."""

BAG_SAMPLES, BAG_LENGTH = 32768, 16
"""The same for rules that know the bag of the inputs, and the longest inputs that they are measured at: the bags of
longer ones hardly repeat, so that nothing is learned from samples."""

SEEN = 3
"""Cases of a cue that its own answer needs; under rarer ones the rule answers as if it knew the place alone."""

KINDS = ("position_only", "token_only", "previous_only", "bag_optimal", "remaining_bag")


def estimated_baselines(
    task: Task, length: int, wanted: Sequence[str] = KINDS, known: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Token accuracy (end symbol excluded) of the rules in `wanted` that apply; see `Task.baselines`.

    Each knows the place in the answer, and besides: position_only nothing, token_only the input token there
    (per_token), previous_only the answer symbol before (sequence), bag_optimal the bag of the input tokens (and the one
    there, per_token), remaining_bag that and the answer so far (sequence). None scores below a rule
    that knows less, those in `known` included.
    Raises ValueError for a rule that is not known.
    """
    if unknown := set(wanted) - set(KINDS):
        raise ValueError(f"no such rule: {', '.join(sorted(unknown))}; known are {', '.join(KINDS)}")
    if task.feature_dim is not None or task.fixed_items("test") is not None:
        return {}
    measured = _estimated(_Key(task), length, tuple(name for name in KINDS if name in wanted))
    found = {"uniform": 1.0 / len(task.answer_symbols), **(known or {})}
    for name, accuracy in measured.items():
        found[name] = max([accuracy, *(found[less] for less in _LESS[name] if less in found)])
    return {name: found[name] for name in wanted if name in measured}


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
    task, found = key.task, dict[str, float]()
    for names, samples in ((KINDS[:3], SAMPLES), (KINDS[3:], BAG_SAMPLES if length <= BAG_LENGTH else 0)):
        asked = [name for name in names if name in wanted and _applies(task, name)]
        if not samples or not asked:
            continue
        generator = philox("baselines", task.identity, length)
        fitted, scored = (task.generate(np.full(samples, length), generator) for _ in range(2))
        for name in asked:
            cues = [_cues(task, examples, name) for examples in (fitted, scored)]
            accuracy = _accuracy(cues[0], fitted, cues[1], scored)
            if not np.isnan(accuracy):
                found[name] = accuracy
    return found


_LESS = {
    "position_only": ("uniform",),
    "token_only": ("position_only",),
    "previous_only": ("position_only",),
    "bag_optimal": ("position_only", "token_only"),
    "remaining_bag": ("position_only", "previous_only", "bag_optimal"),
}
"""What a rule may do without all that it knows."""


def _applies(task: Task, name: str) -> bool:
    formats = {"token_only": ("per_token",), "previous_only": ("sequence",), "remaining_bag": ("sequence",)}
    return task.answer_format in formats.get(name, (task.answer_format,))


def _cues(task: Task, examples: Examples, name: str) -> np.ndarray:
    """(B, m) int64: what the rule knows at each place of the answer, as a number."""
    shape, names = examples.answers.shape, len(task.symbols)
    places = np.broadcast_to(np.arange(shape[1]), shape)
    before = np.concatenate([np.zeros((shape[0], 1), np.int64), 1 + examples.answers[:, :-1]], axis=1)
    if name == "token_only":
        return places * names + examples.inputs
    if name == "previous_only":
        return places * (names + 1) + before
    if name == "position_only":
        return places
    code = philox("bags").integers(1, 2**63 - 1, size=names + 1)  # sums of random numbers: a bag's own
    bag = np.broadcast_to(code[examples.inputs].sum(axis=1)[:, None], shape)
    cue = _mixed(bag, places * names + examples.inputs if task.answer_format == "per_token" else places)
    if name == "remaining_bag":
        so_far = np.zeros(len(cue), np.int64)
        for place in range(shape[1]):
            so_far = _mixed(so_far, before[:, place])
            cue[:, place] = _mixed(cue[:, place], so_far)
    return cue


def _mixed(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """int64 numbers that hardly ever agree unless both parts do."""
    mixed = (one.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ (
        other.astype(np.uint64) + np.uint64(0x632BE59B)
    )
    return ((mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)).astype(np.int64)


def _accuracy(cues: np.ndarray, fitted: Examples, test_cues: np.ndarray, scored: Examples) -> float:
    """Share of the answer symbols of `scored` that are the most frequent one of `fitted` under the same cue."""
    known, answers = (part[_answered(fitted)] for part in (cues, fitted.answers))
    asked, right = (part[_answered(scored)] for part in (test_cues, scored.answers))
    if not len(answers) or not len(right):
        return float("nan")
    guess = np.full(len(right), np.bincount(answers).argmax())
    places = [
        np.broadcast_to(np.arange(e.answers.shape[1]), e.answers.shape)[_answered(e)]
        for e in (fitted, scored)
    ]
    for seen, wanted in (places, (known, asked)):  # the place alone, where the whole cue is too rare
        cue, best, count = _commonest(seen, answers)
        at = np.searchsorted(cue, wanted).clip(max=len(cue) - 1)
        guess = np.where((cue[at] == wanted) & (count[at] >= SEEN), best[at], guess)
    return float((guess == right).mean())


def _commonest(cues: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each cue, in order; its most frequent answer; how often the cue was seen."""
    cue, index = np.unique(cues, return_inverse=True)
    symbols = int(answers.max()) + 1
    pairs, counts = np.unique(index * symbols + answers, return_counts=True)
    order = np.lexsort((counts, pairs // symbols))  # the most frequent last among those of one cue
    pairs = pairs[order]
    last = np.append(pairs[1:] // symbols != pairs[:-1] // symbols, True)
    return cue, pairs[last] % symbols, np.bincount(index)


def _answered(examples: Examples) -> np.ndarray:
    """(B, m) bool, True where there is an answer symbol that counts."""
    there = np.arange(examples.answers.shape[1])[None, :] < examples.answer_lengths[:, None]
    return there & (examples.answers != IGNORE)
