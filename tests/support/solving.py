"""Tasks against slow solvers: generators, task cards, and perfect and random answers through every layout.

A solver takes the names of the input symbols (or the rows of features) and gives (names of the answer, evidence); an
unscored place is ".".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from lengthwise.batch import IGNORE
from lengthwise.evaluation.scores import mark
from lengthwise.keyed import philox
from lengthwise.tasks import Examples, Layout, Task
from lengthwise.tasks.layout import READOUTS, SHAPES

Solver = Callable[[Any], tuple[list[str], int]]


def drawn(task: Task, lengths: Sequence[int], count: int, *key: Any, split: str = "train") -> Examples:
    """`count` keyed examples, lengths drawn from `lengths`."""
    which = philox("solving", task.identity, *key, "lengths").choice(np.asarray(lengths), size=count)
    examples = task.generate(which, philox("solving", task.identity, *key), split)
    assert (examples.lengths == which).all()
    return examples


def names(task: Task, examples: Examples, b: int) -> Any:
    """What the solver of row b is given."""
    n = examples.lengths[b]
    if examples.features is not None:
        return examples.features[b, :n]
    return [task.symbols[i] for i in examples.inputs[b, :n]]


def mistakes(task: Task, examples: Examples, solve: Solver) -> int:
    """Rows whose answer or evidence is not the solver's, or that hold anything past their own length."""
    wrong = 0
    for b in range(len(examples)):
        n, m = examples.lengths[b], examples.answer_lengths[b]
        answer, evidence = solve(names(task, examples, b))
        given = ["." if i == IGNORE else (*task.symbols, "")[i] for i in examples.answers[b, :m]]
        clean = not examples.inputs[b, n:].any() and not examples.answers[b, m:].any()
        if examples.features is not None:
            clean &= not examples.features[b, n:].any()
        longest = task.answer_length(int(n))
        fits = m <= longest if task.variable_answers else m == longest
        wrong += not (clean and fits and given == answer and evidence == examples.evidence[b])
    return wrong


def check_card(task: Task, solve: Solver) -> None:
    """The three worked examples are made of the task's symbols, are of legal lengths, and are solved so."""
    assert task.definition and len(task.worked) == 3
    for asked, answer in task.worked:
        symbols = asked.split()
        task.check_length(len(symbols))
        if task.feature_dim is None:
            assert set(symbols) <= set(task.symbols), asked
        assert set(answer.split()) <= {*task.answer_symbols, "."}, answer
        assert solve(symbols)[0] == answer.split(), asked


def legal_layouts(task: Task) -> Iterator[Layout]:
    for shape in SHAPES:
        for readout in READOUTS:
            try:
                yield Layout(task, shape, readout)
            except ValueError:
                continue


def oracle(layout: Layout, examples: Examples, solve: Solver) -> torch.Tensor:
    """(B, N) what a model says that solves the task from the symbols that it sees at each position."""
    task, vocabulary = layout.task, layout.vocabulary
    batch = layout(examples)
    said = torch.full_like(batch.targets, -1)
    seen = batch if batch.source is None else batch.source

    def answer(b: int, stop: int) -> list[int]:
        tokens = seen.tokens[b, :stop]
        kept = (tokens < len(task.symbols)) | (tokens == vocabulary.patch)
        if seen.features is not None:
            given: Any = seen.features[b, :stop][kept].numpy()
        else:
            given = [task.symbols[i] for i in tokens[kept].tolist()]
        return [task.symbols.index(name) if name != "." else -1 for name in solve(given)[0]]

    starts = layout.scored_start(examples.lengths)
    for b in range(len(examples)):
        n = int(examples.lengths[b])
        whole = layout.input_start + n if batch.source is None else n
        if task.answer_format == "per_token" and not layout.ends:
            for t in range(n):  # from the symbols up to the place itself, where a decoder sees no others
                stop = layout.input_start + (t + 1 if layout.shape == "decoder" else n)
                said[b, starts[b] + t] = answer(b, stop)[t]
            continue
        full = answer(b, whole)
        if layout.ends or task.variable_answers:
            full = [*full, vocabulary.eos]
        said[b, starts[b] : starts[b] + len(full)] = torch.tensor(full)
    return said


def check_layouts(task: Task, examples: Examples, solve: Solver) -> int:
    """A perfect model scores 1 on every measure in each legal layout, a shifted one does not, and one that answers
    at random scores chance within three standard deviations. Returns the number of layouts."""
    count = 0
    for layout in legal_layouts(task):
        targets, end = layout(examples).targets, layout.vocabulary.eos
        said = oracle(layout, examples, solve)
        perfect = mark(said, targets, end)
        assert bool(perfect.exact.all()) and bool((perfect.right == perfect.symbols | (targets == end)).all())
        assert bool((perfect.symbols.sum(1) == torch.from_numpy(_counted(examples))).all())
        assert not bool(mark(said.roll(1, 0), targets, end).exact.all())

        generator = philox("random answers", task.identity, layout.shape, str(layout.readout))
        guess = torch.from_numpy(generator.choice(task.answer_ids, size=tuple(targets.shape)))
        marks = mark(guess, targets, end)
        asked = int(marks.symbols.sum())
        chance = 1 / len(task.answer_symbols)
        spread = np.sqrt(chance * (1 - chance) / asked)
        assert abs(int((marks.right & marks.symbols).sum()) / asked - chance) < 3 * spread
        count += 1
    return count


def _counted(examples: Examples) -> np.ndarray:
    """(B,) answer symbols that are scored."""
    there = np.arange(examples.answers.shape[1]) < examples.answer_lengths[:, None]
    return (there & (examples.answers != IGNORE)).sum(axis=1)


def chi_square_z(values: np.ndarray, probabilities: Any) -> float:
    """How many standard deviations chi-square is above its mean; `values` are 0…len(probabilities)-1."""
    probabilities = np.asarray(probabilities, dtype=float)
    assert np.isclose(probabilities.sum(), 1.0)
    counts = np.bincount(np.asarray(values).ravel(), minlength=len(probabilities))
    assert len(counts) == len(probabilities), "a value outside the stated range"
    possible = probabilities > 0
    assert not counts[~possible].any(), "an impossible value was drawn"
    expected = probabilities[possible] * counts.sum()
    degrees = max(possible.sum() - 1, 1)
    return float((((counts[possible] - expected) ** 2 / expected).sum() - degrees) / np.sqrt(2 * degrees))
