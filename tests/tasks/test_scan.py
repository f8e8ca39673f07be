"""SCAN: the grammar against another way to read commands, the counts that were published, splits and lengths."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from lengthwise.keyed import philox
from lengthwise.tasks import test_items as items_of
from lengthwise.tasks import validation_items
from lengthwise.tasks.scan import Scan, split_commands
from lengthwise.tasks.scan_grammar import commands
from support.solving import check_card, check_layouts, chi_square_z, drawn, mistakes

TURN = {"left": "I_TURN_LEFT", "right": "I_TURN_RIGHT"}


def read(words):
    """The actions of a command, from its outside in: `and`, `after`, then how often, then how, then what."""
    for joint in ("and", "after"):
        if joint in words:
            at = words.index(joint)
            first, second = read(words[:at]), read(words[at + 1 :])
            return first + second if joint == "and" else second + first
    if words[-1] in ("twice", "thrice"):
        return read(words[:-1]) * (2 if words[-1] == "twice" else 3)
    verb, *rest = words
    do = [] if verb == "turn" else ["I_" + verb.upper()]
    if not rest:
        return do
    turn = TURN[rest[-1]]
    how = rest[0] if len(rest) == 2 else ""
    return {"": [turn, *do], "opposite": [turn, turn, *do], "around": [turn, *do] * 4}[how]


def scan(x):
    return read(list(x)), -1


def test_generator_agrees_with_the_slow_solver():
    for split in ("train", "val", "test"):
        examples = drawn(Scan(), range(1, 10), 4_000, "solver", split=split)
        assert mistakes(Scan(), examples, scan) == 0


def test_the_slow_solver_sees_a_wrong_answer():
    examples = drawn(Scan(), range(1, 10), 50, "control")
    answers = examples.answers.copy()
    answers[:, 0] = (answers[:, 0] + 1) % 6
    assert mistakes(Scan(), replace(examples, answers=answers), scan) == 50


def test_worked_examples():
    check_card(Scan(), scan)


def test_the_grammar_gives_each_of_the_published_number_of_commands_once():
    pairs = commands()
    assert len(pairs) == 20_910 and all(pairs.values())
    assert all(list(actions) == read(list(words)) for words, actions in pairs.items())
    lengths = Counter(map(len, pairs.values()))
    assert (min(lengths), max(lengths)) == (1, 48) and lengths[48] == 8 * 8 * 2
    assert ("turn",) not in pairs and ("turn", "twice") not in pairs and ("walk", "opposite") not in pairs


def test_the_published_length_splits():
    actions = np.array([len(actions) for actions in commands().values()])
    assert ((actions <= 22).sum(), (actions > 22).sum()) == (16_990, 3_920)
    sizes = {split: len(places) for split, places in split_commands(25).items()}
    assert sizes == {"train": 15_997, "val": 889, "short": 888, "test": 3_136}
    places = np.concatenate(list(split_commands(25).values()))
    assert sorted(places) == list(range(20_910)), "no command is in two splits"
    assert actions[split_commands(25)["test"]].min() == 26
    assert max(actions[split_commands(25)[split]].max() for split in ("train", "val", "short")) == 25
    other = set(split_commands(24)["val"]) & set(split_commands(25)["val"])
    assert len(other) < 1_000, "another split holds out others"


def rows_of(examples):
    return {
        tuple(row) for row in np.concatenate([examples.lengths[:, None], examples.inputs], axis=1).tolist()
    }


@pytest.mark.parametrize("words", range(1, 10))
def test_which_commands_each_split_draws_from(words):
    task = Scan()
    every = [tuple(names) for names in commands() if len(names) == words]
    pools = {
        split: rows_of(task.generate(np.full(20_000, words), philox("pool", split), split))
        for split in ("train", "val", "test")
    }
    short = {names for names in every if len(commands()[names]) <= 25}
    drawn_names = {
        split: {tuple(task.symbols[i] for i in row[1 : 1 + words]) for row in pool}
        for split, pool in pools.items()
    }
    assert drawn_names["train"] <= short and drawn_names["val"] <= short
    if words >= 7:
        assert drawn_names["test"] == set(every) - short, "the long ones, all of them"
    else:
        assert drawn_names["test"] <= short
        assert not drawn_names["test"] & drawn_names["val"] or words < 3
    assert task.tests_what_is_trained(words) == (words < 7)
    if words >= 3:
        assert (
            not drawn_names["train"] & drawn_names["val"] and not drawn_names["train"] & drawn_names["test"]
        )
        assert len(drawn_names["train"]) > 0.8 * len(short)


def test_commands_are_drawn_evenly():
    task = Scan()
    examples = task.generate(np.array([2, 5] * 20_000), philox("even"))
    codes = examples.inputs[::2, 0] * 32 + examples.inputs[::2, 1]
    kinds, places = np.unique(codes, return_inverse=True)
    assert 12 <= len(kinds) <= 18
    assert chi_square_z(places, np.full(len(kinds), 1 / len(kinds))) < 5


def test_the_whole_test_is_each_long_command_once():
    tests = {words: Scan().whole_test(words) for words in range(1, 10)}
    for words, strata in tests.items():
        assert [*strata] == (["all", "short"] if words >= 7 else ["all"])
        for items in strata.values():
            assert (items.lengths == words).all() and len(rows_of(items)) == len(items)
    long = [strata["all"] for words, strata in tests.items() if words >= 7]
    assert all((items.answer_lengths > 25).all() for items in long) and sum(map(len, long)) == 3_136
    short = [strata["short" if words >= 7 else "all"] for words, strata in tests.items() if words >= 3]
    assert all((items.answer_lengths <= 25).all() for items in short)
    trained = rows_of(Scan().generate(np.full(50_000, 9), philox("trained")))
    assert not trained & rows_of(tests[9]["short"]) and not trained & rows_of(tests[9]["all"])


@pytest.mark.parametrize(("words", "there"), [(1, 4), (7, 512), (8, 1280), (9, 1344)])
def test_items_of_a_length_are_the_commands_of_that_many_words(words, there):
    items = items_of(Scan(), words, 2_000)
    assert (items.lengths == words).all() and len(rows_of(items)) == len(items) == there
    assert (validation_items(Scan(), words, 300).lengths == words).all()


def test_perfect_and_random_answers_through_every_layout():
    assert check_layouts(Scan(), drawn(Scan(), (1, 4, 9), 200, "layouts"), scan) == 3


def test_the_longest_answers():
    longest = [Scan().answer_length(n) for n in range(1, 10)]
    assert longest == [1, 3, 8, 24, 9, 25, 27, 32, 48]


def test_baselines_against_counting():
    task, answers = Scan(), [a for w, a in commands().items() if len(w) == 8 and len(a) > 25]
    by_place = Counter((t, a[t]) for a in answers for t in range(len(a)))
    by_pair = Counter((t, a[t - 1] if t else "", a[t]) for a in answers for t in range(len(a)))
    total = sum(map(len, answers))

    def best(counts):
        cues = {}
        for (*cue, _), count in counts.items():
            cues[tuple(cue)] = max(count, cues.get(tuple(cue), 0))
        return sum(cues.values()) / total

    known = task.baselines(8)
    assert known["position_only"] == pytest.approx(best(by_place))
    assert known["previous_only"] == pytest.approx(best(by_pair))
    assert known["uniform"] == 1 / 6 < known["position_only"] < known["previous_only"] < 1


def test_every_split_has_something_to_train_on():
    for longest in range(8, 48):
        for split in ("train", "val", "test"):
            Scan(longest=longest).generate(np.arange(1, 10), philox("some"), split)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Scan(longest=7), ("longest=7", "from 8 to 47")),
        (lambda: Scan(longest=48), ("longest=48", "from 8 to 47")),
        (lambda: Scan().check_length(10), ("length 10", "from 1 to 9")),
    ],
)
def test_what_is_impossible_is_said(build, words):
    with pytest.raises(ValueError) as error:
        build()
    for word in ("task scan", *words):
        assert word in str(error.value), error.value


def test_the_short_test_is_not_the_validation():
    """By validation the best checkpoint is chosen: what is tested must be other commands."""
    task = Scan()
    for words in range(3, 10):
        validated = rows_of(validation_items(task, words, 512))
        tested = {name: rows_of(examples) for name, examples in task.whole_test(words).items()}
        assert all(not validated & rows for rows in tested.values()), words
    assert {"all", "short"} == set(task.whole_test(7))
