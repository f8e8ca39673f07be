"""Every generator against a slow solver that reads symbol names, and perfect oracles through every layout."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from lengthwise.keyed import philox
from lengthwise.tasks import (
    AboveMean,
    BinMajority,
    Copy,
    Digits,
    First,
    Last,
    Layout,
    Majority,
    Offsets,
    Reverse,
    SetMax,
    Sort,
    UniqueCopy,
    WordOrder,
)
from support.lengths import test_lengths, train_lengths

TASKS = {
    task.name: task
    for task in (
        WordOrder(),
        Last(),
        First(),
        Majority(),
        BinMajority(),
        Offsets(),
        SetMax(),
        AboveMean(),
        Reverse(),
        Copy(),
        Sort(),
        UniqueCopy(),
        Digits(),
    )
}
OTHERS = [
    WordOrder(fillers=1),
    Majority(margins=[3, 7]),
    Offsets(offsets=[4, 2]),
    Reverse(symbols=5),
    Copy(symbols=7),
    Sort(symbols=12),
    Digits(patch=1),
    Digits(patch=4),
]
SHAPES = ("encoder", "decoder", "encoder_decoder")


def lengths_of(task, count, key):
    """`count` mixed lengths: trained and longer ones."""
    choices = [*train_lengths(task), *[n for n in test_lengths(task) if n <= 51]]
    if task.name == "bin_majority":
        choices += [2, 4, 20]
    return philox("lengths", task.name, key).choice(choices, size=count)


def is_legal(task, length):
    try:
        task.check_length(length)
    except ValueError:
        return False
    return True


# -- slow solvers: list of symbol names in, (answer names, evidence) out


def word_order(x):
    places = [i for i, symbol in enumerate(x) if symbol == "not"]
    assert len(places) == 1 and sorted(s for s in x if s in ("good", "bad")) == ["bad", "good"]
    return [x[places[0] + 1]], places[0]


def commonest(x):
    (first, many), *rest = Counter(x).most_common()
    assert not rest or rest[0][1] < many
    return [first], -1


def offsets_solver(offsets):
    def solve(x):
        return [
            "=" + "".join(x[t - o] if t >= o else "0" for o in sorted(offsets)) for t in range(len(x))
        ], -1

    return solve


def set_max(x):
    numbers = [int(s) for s in x]
    return [str(max(numbers))], numbers.index(max(numbers))


def above_mean(x):
    numbers = [int(s) for s in x]
    return ["yes" if number > sum(numbers) / len(numbers) else "no" for number in numbers], -1


def distinct(solve):
    def solver(x):
        assert len(set(x)) == len(x)
        return solve(x), -1

    return solver


SOLVERS = {
    "word_order": word_order,
    "last": lambda x: ([x[-1]], len(x) - 1),
    "first": lambda x: ([x[0]], 0),
    "majority": commonest,
    "bin_majority": commonest,
    "set_max": set_max,
    "above_mean": above_mean,
    "reverse": lambda x: (x[::-1], -1),
    "copy": lambda x: (list(x), -1),
    "sort": distinct(lambda x: sorted(x, key=int)),
    "unique_copy": distinct(list),
}

PICTURES, DIGITS = load_digits(return_X_y=True)
BY_PICTURE = {(p / 16).astype(np.float32).tobytes(): str(d) for p, d in zip(PICTURES, DIGITS, strict=True)}


def digit_of(patches, patch):
    """The label of a picture put together again from its patches, one by one."""
    image = np.zeros((8, 8), dtype=np.float32)
    across = 8 // patch
    for k, values in enumerate(patches):
        top, left = k // across * patch, k % across * patch
        image[top : top + patch, left : left + patch] = np.asarray(values).reshape(patch, patch)
    return BY_PICTURE[image.ravel().tobytes()]


def solve(task, inputs, features=None):
    """(answer names, evidence) for one example without pads."""
    if features is not None:
        return [digit_of(features, task.patch)], -1
    names = [task.symbols[i] for i in inputs]
    solver = offsets_solver(task.offsets) if task.name == "offsets" else SOLVERS[task.name]
    return solver(names)


def mistakes(task, examples):
    """Examples whose answer or evidence is not the solver's, or that hold anything past their length."""
    wrong = 0
    for b in range(len(examples)):
        n, m = examples.lengths[b], examples.answer_lengths[b]
        features = None if examples.features is None else examples.features[b, :n]
        answer, evidence = solve(task, examples.inputs[b, :n], features)
        given = [task.symbols[i] for i in examples.answers[b, :m]]
        clean = not examples.inputs[b, n:].any() and not examples.answers[b, m:].any()
        wrong += not (
            given == answer and evidence == examples.evidence[b] and m == task.answer_length(n) and clean
        )
    return wrong


@pytest.mark.parametrize("task", [*TASKS.values(), *OTHERS], ids=lambda task: f"{task.name}-{task.options}")
def test_generator_agrees_with_the_slow_solver(task):
    """On lengths from 1 to 64, and far ones, as far as the task has them."""
    near = [n for n in range(1, 65) if is_legal(task, n)]
    lengths = np.repeat(near, -(-10_240 // len(near)))
    assert_solved(task, lengths)
    for length in (65, 128, 129, 500, 501):
        if is_legal(task, length):
            assert_solved(task, np.full(64, length))


def assert_solved(task, lengths):
    examples = task.generate(lengths, philox("solver", task.identity))
    assert (examples.lengths == lengths).all() and examples.inputs.shape[1] == lengths.max()
    assert examples.inputs.dtype == examples.answers.dtype == examples.evidence.dtype == np.int64
    assert mistakes(task, examples) == 0
    assert set(np.unique(examples.answers[:, 0])) <= set(task.answer_ids)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_slow_solver_sees_a_wrong_answer(task):
    examples = task.generate(lengths_of(task, 64, "control"), philox("control", task.identity))
    ids = task.answer_ids
    answers = examples.answers.copy()
    answers[:, 0] = ids[(np.searchsorted(ids, answers[:, 0]) + 1) % len(ids)]
    assert mistakes(task, replace(examples, answers=answers)) == 64
    assert mistakes(task, replace(examples, evidence=examples.evidence + 1)) == 64


@pytest.mark.parametrize(
    "task", [t for t in TASKS.values() if t.feature_dim is None], ids=lambda task: task.name
)
def test_worked_examples_of_the_cards(task):
    assert len(set(task.worked)) == 3
    for question, answer in task.worked:
        x = [task.symbols.index(symbol) for symbol in question.split()]
        task.check_length(len(x))
        assert solve(task, x)[0] == answer.split()


# -- a perfect oracle that sees only what a model sees


def legal_layouts():
    for task in TASKS.values():
        for shape in SHAPES:
            readouts = (
                ("front", "end", "mean") if (shape, task.answer_format) == ("encoder", "label") else ("end",)
            )
            for readout in readouts:
                yield pytest.param(task, shape, readout, id=f"{task.name}-{shape}-{readout}")


def read(task, vocabulary, batch, b, stop):
    """Symbols and features of row b up to position `stop`, without pads and specials."""
    tokens = batch.tokens[b, :stop].tolist()
    kept = [i for i, token in enumerate(tokens) if token < len(task.symbols) or token == vocabulary.patch]
    features = None if batch.features is None else batch.features[b, kept].numpy()
    return [tokens[i] for i in kept], features


def oracle(task, layout, batch):
    """{(b, position): predicted id}. A decoder's prediction uses the tokens up to that position only."""
    vocabulary, said = layout.vocabulary, {}

    def answer(inputs, features):
        return [task.symbols.index(name) for name in solve(task, inputs, features)[0]]

    for b in range(len(batch)):
        real = int(batch.key_mask[b].sum())
        assert batch.key_mask[b, :real].all()
        if layout.shape == "encoder":
            full = answer(*read(task, vocabulary, batch, b, real))
            places = [i for i in range(real) if batch.tokens[b, i] == vocabulary.slot]
            if layout.readout == "mean":
                places = [0]
            said |= {(b, place): symbol for place, symbol in zip(places or range(real), full, strict=True)}
            continue
        for t in range(real):
            if layout.shape == "encoder_decoder":
                inputs, features = read(
                    task, vocabulary, batch.source, b, int(batch.source.key_mask[b].sum())
                )
                spoken = t
            else:
                prefix = batch.tokens[b, : t + 1].tolist()
                if vocabulary.sep in prefix:
                    inputs, features = read(task, vocabulary, batch, b, prefix.index(vocabulary.sep))
                    spoken = t - prefix.index(vocabulary.sep)
                elif task.causal and t > 0:
                    inputs, features = read(task, vocabulary, batch, b, t + 1)
                    spoken = t - 1
                else:
                    continue
            said[b, t] = [*answer(inputs, features), vocabulary.eos][spoken]
    return said


def accuracy(batch, said):
    targets = batch.targets.numpy()
    scored = np.argwhere(targets != -100)
    return np.mean([said.get((b, t)) == targets[b, t] for b, t in scored])


@pytest.mark.parametrize(("task", "shape", "readout"), list(legal_layouts()))
def test_a_perfect_oracle_scores_one(task, shape, readout):
    examples = task.generate(lengths_of(task, 48, "oracle"), philox("oracle", task.identity))
    layout = Layout(task, shape, readout)
    batch = layout(examples)
    said = oracle(task, layout, batch)
    assert accuracy(batch, said) == 1.0

    scored = (batch.targets != -100).sum(dim=1).numpy()
    assert (scored == examples.answer_lengths + layout.ends).all()
    starts = layout.scored_start(examples.lengths)
    assert all(batch.targets[b, starts[b]] == examples.answers[b, 0] for b in range(len(examples)))

    shifted = {(b, t + 1): symbol for (b, t), symbol in said.items()}
    assert accuracy(batch, shifted) < 1.0
