"""The Chomsky-hierarchy suite: generators against slow solvers, worked examples, and oracles through every layout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lengthwise.evaluation.scores import mark
from lengthwise.keyed import philox
from lengthwise.tasks import Examples, Layout, Parity
from support.chomsky_suite import TASKS, evidence, solver

SHAPES = ("encoder", "decoder", "encoder_decoder")
SAMPLES = 10_240


def legal(task, lengths):
    return [n for n in lengths if task.legal_length(n) is None]


def names(task, ids):
    return [task.symbols[i] for i in ids]


def mistakes(task, examples: Examples) -> int:
    """Examples with another answer or evidence than the solver's, or with anything past their lengths."""
    solve, wrong = solver(task), 0
    for b in range(len(examples)):
        n, m = examples.lengths[b], examples.answer_lengths[b]
        x = names(task, examples.inputs[b, :n])
        clean = not examples.inputs[b, n:].any() and not examples.answers[b, m:].any()
        fits = m <= task.answer_length(n) if task.variable_answers else m == task.answer_length(n)
        right = names(task, examples.answers[b, :m]) == list(solve(x))
        wrong += not (right and fits and clean and examples.evidence[b] == evidence(task, x))
    return wrong


@pytest.mark.parametrize("name", TASKS)
def test_generator_agrees_with_the_slow_solver(name):
    task = TASKS[name]
    lengths = np.resize(legal(task, range(1, 65)), SAMPLES)
    lengths = philox("lengths", name).permutation(lengths)
    examples = task.generate(lengths, philox("suite", name))
    assert (examples.lengths == lengths).all() and examples.inputs.shape == (SAMPLES, lengths.max())
    assert {a.dtype for a in (examples.inputs, examples.answers, examples.evidence)} == {np.dtype(np.int64)}
    assert mistakes(task, examples) == 0


@pytest.mark.parametrize("name", TASKS)
def test_nothing_overflows_at_long_lengths(name):
    task = TASKS[name]
    for lengths in ([65], [128, 129], [500, 501], [3, 500, 65]):
        examples = task.generate(np.resize(legal(task, lengths), 24), philox("long", name))
        assert mistakes(task, examples) == 0


@pytest.mark.parametrize("name", TASKS)
def test_the_slow_solver_sees_a_wrong_answer(name):
    task = TASKS[name]
    examples = task.generate(np.resize(legal(task, range(4, 10)), 64), philox("control", name))
    answers = examples.answers.copy()
    answered = examples.answer_lengths > 0
    ids = task.answer_ids
    answers[:, 0] = ids[(np.searchsorted(ids, answers[:, 0]) + 1) % len(ids)]
    assert mistakes(task, replace(examples, answers=answers)) >= answered.sum() > 40
    assert mistakes(task, replace(examples, evidence=examples.evidence + 1)) == 64
    if task.variable_answers:
        assert mistakes(task, replace(examples, answer_lengths=examples.answer_lengths + 1)) == 64


@pytest.mark.parametrize(
    "task", [task for name, task in TASKS.items() if "-" not in name], ids=lambda t: t.name
)
def test_worked_examples(task):
    assert len(task.worked) == 3 and len(set(task.worked)) == 3 and len(task.definition) > 40
    for question, answer in task.worked:
        x = question.split()
        assert set(x) <= set(task.symbols)
        task.check_length(len(x))
        assert list(solver(task)(x)) == answer.split()


EDGES = [
    ("solve_equation", 1, {"0": "0"}),
    ("solve_equation", 2, {"0 0": "0"}),
    ("missing_duplicate", 1, {"1": "1"}),
    ("binary_addition", 1, {"0": "0"}),
    ("binary_addition", 2, {"0 0": "0", "1 0": "1", "0 1": "0 1"}),
    ("binary_multiplication", 1, {"0": ""}),
    ("binary_multiplication", 2, {"0 0": "0", "1 0": "0", "0 1": "0"}),
    ("stack_manipulation", 1, {"0": "0", "1": "1"}),
    ("even_pairs", 1, {"0": "0", "1": "0"}),
    ("compute_sqrt", 1, {"1": "1"}),
]


@pytest.mark.parametrize(("name", "length", "expected"), EDGES, ids=lambda value: str(value)[:20])
def test_edges_are_those_of_the_published_code(name, length, expected):
    task = TASKS[name]
    examples = task.generate(np.full(200, length), philox("edges"))
    found = {
        " ".join(names(task, x)): " ".join(names(task, y[:m]))
        for x, y, m in zip(examples.inputs, examples.answers, examples.answer_lengths, strict=True)
    }
    assert found == expected


def test_even_lengths_of_modular_arithmetic_are_refused():
    with pytest.raises(ValueError, match="length 4 is not possible; use odd lengths"):
        TASKS["modular_arithmetic"].generate(np.array([4]), philox("even"))


@pytest.mark.parametrize("option", ["balanced", "scratchpad"])
def test_options_of_parity(option):
    with pytest.raises(ValueError, match=f"task parity: {option}='yes' is not possible; use true or false"):
        Parity(**{option: "yes"})


NUMBERED = [(name, kind) for name, task in TASKS.items() for kind in task.number_kinds]


@pytest.mark.parametrize(("name", "kind"), [case for case in NUMBERED if case[0] != "bucket_sort"])
def test_position_numbers(name, kind):
    """coupled: equal numbers, equal symbols (of strings), or the same power of two; index: the place from 1."""
    task = TASKS[name]
    examples = task.generate(np.array([7, 3, 6, 12]), philox("numbers", name))
    inputs, answers = task.position_numbers(examples, task.answer_length(12), kind)
    assert inputs.shape == examples.inputs.shape and answers.shape == (4, task.answer_length(12))
    for b in range(4):
        n, m = examples.lengths[b], examples.answer_lengths[b]
        x = names(task, examples.inputs[b, :n])
        if task.symbols[-1] in "+*":
            k = x.index(task.symbols[-1])
            assert inputs[b, :n].tolist() == [*range(1, k + 1), 0, *range(1, n - k)]
            assert answers[b, :m].tolist() == list(range(1, m + 1))
        else:
            assert inputs[b, :n].tolist() == list(range(1, n + 1))
            y = names(task, examples.answers[b, :m])
            if kind == "coupled":
                assert y == [x[number - 1] for number in answers[b, :m]]
            else:
                assert answers[b, :m].tolist() == list(range(1, m + 1))


# -- oracles that are given what a model sees


def layouts():
    for name, task in TASKS.items():
        for shape in SHAPES:
            choice = shape == "encoder" and task.answer_format == "label"
            for readout in ("front", "end", "mean") if choice else ("end",):
                yield pytest.param(task, shape, readout, id=f"{name}-{shape}-{readout}")


def seen(layout, batch, b):
    """The input symbols in row b: what stands before a decoder's separator, everywhere but specials and slots."""
    side = batch if batch.source is None else batch.source
    tokens = side.tokens[b, : int(side.key_mask[b].sum())].tolist()
    if layout.shape == "decoder":
        tokens = tokens[: tokens.index(layout.vocabulary.sep)]
    return [token for token in tokens if token < len(layout.task.symbols)]


def first_scored(layout, batch, b):
    tokens = batch.tokens[b].tolist()
    if layout.shape == "encoder_decoder" or layout.readout in ("front", "mean"):
        return 0
    vocabulary = layout.vocabulary
    return tokens.index(vocabulary.slot if layout.shape == "encoder" else vocabulary.sep)


def predictions(layout, batch, answers):
    """(B, N) ids that say `answers` (id lists) and then the end, from the first scored position on."""
    said = torch.zeros_like(batch.targets)
    for b, answer in enumerate(answers):
        closed = [*answer, layout.vocabulary.eos][: int((batch.targets[b] != -100).sum())]
        start = first_scored(layout, batch, b)
        said[b, start : start + len(closed)] = torch.tensor(closed)
    return said


def measured(layout, batch, said):
    marks = mark(said, batch.targets, layout.vocabulary.eos)
    return float((marks.right & marks.symbols).sum() / marks.symbols.sum()), float(marks.exact.float().mean())


@pytest.mark.parametrize(("task", "shape", "readout"), list(layouts()))
def test_oracles(task, shape, readout):
    """The perfect one scores 1 on every measure, also one symbol off it does not; a random one scores chance."""
    lengths = np.resize(legal(task, [1, 2, 3, 6, 9, 20, 33, 50]), 256)
    examples = task.generate(lengths, philox("oracle", task.identity))
    layout = Layout(task, shape, readout)
    batch = layout(examples)
    answers = [
        [task.symbols.index(symbol) for symbol in solver(task)(names(task, seen(layout, batch, b)))]
        for b in range(len(batch))
    ]
    assert measured(layout, batch, predictions(layout, batch, answers)) == (1.0, 1.0)

    shifted = predictions(layout, batch, answers).roll(1, dims=0)
    accuracy, exact = measured(layout, batch, shifted)
    assert accuracy < 1.0 and exact < 1.0

    generator = philox("guesses", task.identity, shape)
    guesses = [task.answer_ids[generator.integers(0, len(task.answer_ids), len(a))].tolist() for a in answers]
    accuracy, exact = measured(layout, batch, predictions(layout, batch, guesses))
    chance, count = 1 / len(task.answer_ids), sum(len(a) for a in answers)
    assert abs(accuracy - chance) < 3 * np.sqrt(chance * (1 - chance) / count)
    each = np.array([chance ** len(a) for a in answers])
    assert abs(exact - each.mean()) < 3 * np.sqrt((each * (1 - each)).sum()) / len(each) + 1e-12


def test_an_encoder_has_as_many_slots_as_published():
    slots = {
        "stack_manipulation": 10,
        "binary_addition": 10,
        "binary_multiplication": 9,
        "compute_sqrt": 5,
        "duplicate_string": 18,
        "odds_first": 9,
        "parity": 1,
    }
    for name, count in slots.items():
        layout = Layout(TASKS[name], "encoder")
        batch = layout(TASKS[name].generate(np.full(4, 9), philox("slots")))
        assert (batch.tokens == layout.vocabulary.slot).sum(1).tolist() == [count] * 4, name


def test_symbols_that_change_nothing():
    for name, symbol in (("parity", "0"), ("parity-balanced", "0"), ("cycle_navigation", "stay")):
        task = TASKS[name]
        assert task.neutral_symbols == (symbol,)
        examples = task.generate(np.full(32, 6), philox("neutral"))
        for x in examples.inputs:
            before = names(task, x)
            for gap in np.flatnonzero(task.neutral_gaps(examples)[0]):
                assert solver(task)([*before[:gap], symbol, *before[gap:]]) == solver(task)(before)
    assert TASKS["parity-scratchpad"].neutral_symbols == ()


def test_sorting_and_reordering_of_other_alphabets():
    for cls in (type(TASKS["bucket_sort"]), type(TASKS["odds_first"]), type(TASKS["duplicate_string"])):
        task = cls(symbols=7)
        assert mistakes(task, task.generate(np.resize(np.arange(1, 30), 500), philox("seven"))) == 0
        assert task.options == {"symbols": 7}
        assert task.baselines(5)["uniform"] == 1 / 7
