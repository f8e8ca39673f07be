"""What every test of a task needs: a solver's verdict, and an oracle that sees what a model sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from lengthwise.batch import Batch
from lengthwise.evaluation.scores import Scores, score
from lengthwise.tasks import READOUTS, SHAPES, Examples, Layout, Task

Solver = Callable[[list[str]], tuple[list[str], int]]
"""Names of the input symbols -> names of the answer symbols, and the position that decides (-1 = none)."""


def legal_lengths(task: Task, candidates: range) -> list[int]:
    """Those of `candidates` that `task` takes."""

    def legal(length: int) -> bool:
        try:
            task.check_length(length)
        except ValueError:
            return False
        return True

    return [length for length in candidates if legal(length)]


def at_least(task: Task, length: int) -> int | None:
    """The first legal length from `length` on, within the next ten; None past the task's longest."""
    return next(iter(legal_lengths(task, range(length, length + 10))), None)


def mistakes(task: Task, examples: Examples, solve: Solver) -> int:
    """Examples whose answer or evidence is not the solver's, or that hold anything behind their own length."""
    names, wrong = task.symbols, 0
    widths = zip(
        examples.inputs.tolist(), examples.lengths.tolist(), examples.answers.tolist(),
        examples.answer_lengths.tolist(), examples.evidence.tolist(), strict=True,
    )  # fmt: skip
    for inputs, n, answers, m, evidence in widths:
        clean = not any(inputs[n:]) and not any(answers[m:])
        said = solve([names[i] for i in inputs[:n]])
        fits = m <= task.answer_length(n) if task.variable_answers else m == task.answer_length(n)
        wrong += not (clean and fits and said == ([names[i] for i in answers[:m]], evidence))
    return wrong


def layouts(task: Task) -> Iterator[Layout]:
    """Every layout that `task` allows."""
    for shape in SHAPES:
        for readout in READOUTS:
            try:
                yield Layout(task, shape, readout)
            except ValueError:
                continue


def oracle(task: Task, layout: Layout, batch: Batch, solve: Solver) -> torch.Tensor:
    """Predictions (B, N) from the tokens alone; where it answers in turn, from those up to the position."""
    vocabulary = layout.vocabulary
    said = torch.full_like(batch.targets, -1)

    def answer(tokens: torch.Tensor) -> list[int]:
        kept = [task.symbols[i] for i in tokens.tolist() if i < len(task.symbols)]
        return [task.symbols.index(name) for name in solve(kept)[0]]

    for b in range(len(batch)):
        row = batch.tokens[b, : int(batch.key_mask[b].sum())]
        if layout.shape == "encoder_decoder":
            assert batch.source is not None
            asked = batch.source.tokens[b, : int(batch.source.key_mask[b].sum())]
            words = [*answer(asked), vocabulary.eos]
            start = 0
        elif layout.shape == "decoder":
            start = int((row == vocabulary.sep).nonzero()[0])
            words = [*answer(row[:start]), vocabulary.eos]
        else:
            slots = (row == vocabulary.slot).nonzero().flatten().tolist()
            start = slots[0] if slots else 0
            words = answer(row)
            if task.variable_answers:
                words = [*words, vocabulary.eos]
            words += [int(task.answer_ids[0])] * (len(slots) - len(words))
        words = words[: said.shape[1] - start]
        said[b, start : start + len(words)] = torch.tensor(words)
    return said


def scores(layout: Layout, batch: Batch, said: torch.Tensor) -> Scores:
    """The project's own scores of these predictions."""
    logits = torch.zeros(*batch.targets.shape, len(layout.vocabulary))
    return score(logits, batch.targets, layout.vocabulary.eos, said)


def guesses(task: Task, batch: Batch, generator: np.random.Generator) -> torch.Tensor:
    """A uniform answer symbol everywhere."""
    return torch.from_numpy(generator.choice(task.answer_ids, size=tuple(batch.targets.shape)))
