"""Options, lengths and identities: one clear message for what is impossible; task cards are complete."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

import lengthwise.tasks as tasks
from lengthwise.keyed import philox
from lengthwise.tasks import (
    AboveMean,
    Copy,
    Digits,
    First,
    Last,
    Majority,
    Offsets,
    Reverse,
    SetMax,
    Sort,
    Task,
    UniqueCopy,
    WordOrder,
)
from support.lengths import CONF, test_lengths, train_lengths

CLASSES = [
    value
    for value in vars(tasks).values()
    if isinstance(value, type) and issubclass(value, Task) and value is not Task
]


def takes(cls, *lengths):
    try:
        for length in lengths:
            cls().check_length(length)
    except ValueError:
        return False
    return True


def test_every_choice_is_exported():
    chosen = {yaml.safe_load(path.read_text())["task"]["_target_"] for path in CONF.glob("*.yaml")}
    assert chosen == {f"{cls.__module__}.{cls.__name__}" for cls in CLASSES}


@pytest.mark.parametrize("cls", CLASSES)
def test_task_cards(cls):
    task = cls()
    assert cls.__doc__ and "\n" not in cls.__doc__ and len(task.definition) > 20
    assert len(set(task.worked)) == 3 or task.feature_dim is not None  # numbers are no symbols
    assert all(
        (task.symmetry.on_input, task.symmetry.on_answer, task.evidence_meaning, task.source, task.deviations)
    )
    assert set(task.answer_symbols) <= set(task.symbols) and len(set(task.symbols)) == len(task.symbols)
    assert set(train_lengths(task)) <= set(test_lengths(task))
    for lengths in (train_lengths(task), test_lengths(task)):
        assert isinstance(lengths, list) and lengths == sorted(set(lengths)) and lengths
        for length in lengths:
            task.check_length(length)
    assert json.loads(json.dumps(task.identity)) == task.identity
    assert task.identity["task"] == cls.__name__
    assert cls(**task.options).identity == task.identity


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if takes(cls, 501, 3)])
def test_long_lengths_work(cls):
    examples = cls().generate(np.array([501, 3]), philox("long"))
    assert examples.inputs.shape == (2, 501)
    values = cls().baselines(501).values()
    assert all(0 < value <= 1 for value in values)


@pytest.mark.parametrize(
    ("cls", "option", "value", "words"),
    [
        (WordOrder, "fillers", 0, "from 1 to"),
        (Last, "symbols", 1, "from 2 to"),
        (Last, "symbols", 2.5, "integer"),
        (First, "symbols", True, "integer"),
        (Majority, "margins", [2], "odd"),
        (Majority, "margins", 3, "list"),
        (Majority, "margins", [], "list"),
        (Offsets, "offsets", [0, 1], "from 1"),
        (Offsets, "offsets", [1, 1], "different"),
        (Offsets, "offsets", "12", "list"),
        (Offsets, "offsets", list(range(1, 10)), "at most 8"),
        (SetMax, "symbols", "many", "integer"),
        (AboveMean, "symbols", 1, "from 2 to"),
        (Reverse, "symbols", -1, "from 2 to"),
        (Copy, "symbols", None, "integer"),
        (Sort, "symbols", 1, "from 2 to"),
        (UniqueCopy, "symbols", 1, "from 2 to"),
        (Digits, "patch", 3, "1, 2 or 4"),
    ],
)
def test_impossible_options(cls, option, value, words):
    with pytest.raises(ValueError) as error:
        cls(**{option: value})
    for word in (cls.name, f"{option}=", repr(value), words):
        assert word in str(error.value), error.value


@pytest.mark.parametrize(
    ("task", "length", "words"),
    [
        (WordOrder(), 2, "at least 3"),
        (Last(), 0, "at least 1"),
        (Last(), -1, "at least 1"),
        (Last(), 2.5, "at least 1"),
        (Majority(), 6, "odd"),
        (Majority(margins=[3, 5]), 1, "at least 3"),
        (Sort(), 151, "from 1 to 150"),
        (UniqueCopy(symbols=20), 30, "from 1 to 20"),
        (Digits(), 15, "use length 16"),
    ],
)
def test_impossible_lengths(task, length, words):
    with pytest.raises(ValueError) as error:
        task.check_length(length)
    for word in (task.name, str(length), words):
        assert word in str(error.value), error.value
    if isinstance(length, int):
        with pytest.raises(ValueError, match=task.name):
            task.generate(np.array([train_lengths(task)[-1], length]), philox("bad"))


def test_bad_calls():
    with pytest.raises(ValueError, match="split='dev'"):
        Last().generate(np.array([3]), philox("bad"), "dev")
    with pytest.raises(ValueError, match="non-empty"):
        Last().generate(np.array([], dtype=int), philox("bad"))


def test_an_option_that_is_not_kept_is_noticed():
    class Forgetful(Last):
        options = Task.options

        def __init__(self, *, size: int = 3) -> None:
            super().__init__(symbols=size)

    with pytest.raises(TypeError, match="size"):
        _ = Forgetful().identity


def test_option_order_does_not_matter():
    assert Offsets(offsets=[5, 1, 3]).identity == Offsets(offsets=(1, 3, 5)).identity
