"""Dyck words and words of k blocks: solvers with a stack, every small string, and what a negative gives away."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from lengthwise.keyed import philox
from lengthwise.tasks.brackets import balanced_brackets
from lengthwise.tasks.dyck import Dyck, DyckNext
from lengthwise.tasks.prefix_blocks import PrefixBlocks
from support.solving import check_card, check_layouts, chi_square_z, drawn, mistakes

PARTNER = {")": "(", "]": "[", "}": "{", ">": "<"} | {f"){i}": f"({i}" for i in range(5, 65)}
CLOSING = {opening: closing for closing, opening in PARTNER.items()}


def dyck(x):
    """Reads with a stack; the evidence is the first symbol that fits nothing."""
    stack = []
    for t, symbol in enumerate(x):
        if symbol in CLOSING:
            stack.append(symbol)
        elif not stack or stack.pop() != PARTNER[symbol]:
            return ["no"], t
    return ["no" if stack else "yes"], len(x) if stack else -1


def dyck_next(depth=None):
    def solve(x):
        stack, answers = [], []
        for symbol in x:
            if symbol in CLOSING:
                stack.append(symbol)
            else:
                assert stack.pop() == PARTNER[symbol]
            full = "!" if len(stack) == depth else ""
            answers.append(full + CLOSING[stack[-1]] if stack else "open")
        return answers, -1

    return solve


def blocks(k):
    def solve(x):
        runs = [len(list(run)) for _, run in itertools.groupby(x)]
        assert x[0] == "a" and set(x) <= {"a", "b"} and len(runs) <= k
        inside = runs[-1] if len(runs) == k else 0
        return ["0"] * (len(x) - inside) + ["1"] * inside, len(x) - inside if inside else -1

    return solve


EVEN = range(2, 65, 2)
CASES = [
    (Dyck(), dyck, EVEN),
    (Dyck(kinds=1), dyck, EVEN),
    (Dyck(kinds=6, depth=3), dyck, EVEN),
    (DyckNext(), dyck_next(), EVEN),
    (DyckNext(kinds=1, depth=1), dyck_next(1), EVEN),
    (DyckNext(kinds=5, depth=4), dyck_next(4), EVEN),
    (PrefixBlocks(), blocks(3), range(3, 65)),
    (PrefixBlocks(blocks=2), blocks(2), range(2, 65)),
    (PrefixBlocks(blocks=12), blocks(12), range(12, 65)),
]
LONG = [
    (Dyck(kinds=3), dyck, (66, 128, 500)),
    (DyckNext(kinds=3), dyck_next(), (66, 128, 500)),
    (DyckNext(depth=4), dyck_next(4), (66, 128, 500)),
    (PrefixBlocks(blocks=9), blocks(9), (65, 128, 500)),
]


def named(value):
    """Of a task its name and options, of a solver and lengths nothing."""
    return "-".join([value.name, *map(str, value.options.values())]) if hasattr(value, "name") else ""


@pytest.mark.parametrize(("task", "solve", "lengths"), CASES, ids=named)
def test_generators_agree_with_the_slow_solvers(task, solve, lengths):
    assert mistakes(task, drawn(task, lengths, 10_000, "solver"), solve) == 0


@pytest.mark.parametrize(("task", "solve", "lengths"), LONG, ids=named)
def test_also_at_long_lengths(task, solve, lengths):
    assert mistakes(task, drawn(task, lengths, 200, "long"), solve) == 0


@pytest.mark.parametrize(("task", "solve", "lengths"), CASES, ids=named)
def test_the_slow_solvers_see_a_wrong_answer(task, solve, lengths):
    examples = drawn(task, lengths, 50, "control")
    answers = examples.answers.copy()
    answers[:, 0] += 1
    assert mistakes(task, replace(examples, answers=answers), solve) == 50
    assert mistakes(task, replace(examples, evidence=examples.evidence + 1), solve) == 50


@pytest.mark.parametrize(
    ("task", "solve"), [(Dyck(), dyck), (DyckNext(), dyck_next()), (PrefixBlocks(), blocks(3))], ids=named
)
def test_worked_examples(task, solve):
    check_card(task, solve)


@pytest.mark.parametrize(
    ("task", "solve", "lengths", "layouts"),
    [
        (Dyck(), dyck, (2, 10), 5),
        (DyckNext(kinds=2, depth=2), dyck_next(2), (2, 10), 3),
        (PrefixBlocks(), blocks(3), (3, 9), 3),
    ],
    ids=named,
)
def test_perfect_and_random_answers_through_every_layout(task, solve, lengths, layouts):
    assert check_layouts(task, drawn(task, lengths, 300, "layouts"), solve) == layouts


# -- balanced strings are uniform


def all_balanced(length, depth):
    """Every path, by trying all."""
    for steps in itertools.product((1, -1), repeat=length):
        heights = list(itertools.accumulate(steps))
        if min(heights) >= 0 and heights[-1] == 0 and max(heights) <= (depth or length):
            yield steps


@pytest.mark.parametrize("depth", [None, 1, 2, 3, 5])
@pytest.mark.parametrize("length", [2, 8, 10])
def test_every_path_is_as_likely_as_every_other(length, depth):
    lengths = np.array([length, 4, 12] * 20_000)  # among others of other lengths
    strings = balanced_brackets(lengths, 1, depth, philox("paths", length, depth))
    drawn_here = Counter(map(tuple, strings.steps[lengths == length][:, :length].tolist()))
    possible = list(all_balanced(length, depth))
    assert set(drawn_here) <= set(possible)
    counts = [drawn_here[path] for path in possible]
    assert (
        chi_square_z(np.repeat(np.arange(len(possible)), counts), np.full(len(possible), 1 / len(possible)))
        < 5
    )


def test_the_number_of_paths_is_catalans():
    assert [len(list(all_balanced(n, None))) for n in (2, 4, 6, 8)] == [1, 2, 5, 14]


def test_long_bounded_strings_stay_uniform_in_their_height():
    """Against the exact share of paths of 200 steps at each height half-way, counted in whole numbers."""
    depth, length = 3, 200
    ways = [1, 0, 0, 0]
    for _ in range(length // 2):
        ways = [(ways[h - 1] if h else 0) + (ways[h + 1] if h < depth else 0) for h in range(depth + 1)]
    expected = np.array([float(w * w / sum(v * v for v in ways)) for w in ways])
    strings = balanced_brackets(np.full(20_000, length), 1, depth, philox("half-way"))
    assert chi_square_z(strings.heights[:, length // 2 - 1], expected) < 5


def test_kinds_are_uniform_and_independent_between_pairs():
    strings = balanced_brackets(np.full(20_000, 8), 3, None, philox("kinds"))
    opening = strings.kinds[strings.steps > 0].reshape(-1, 4)
    code = opening @ (3 ** np.arange(4))
    assert chi_square_z(code, np.full(81, 1 / 81)) < 5
    rows = np.arange(len(opening))[:, None]
    assert (strings.kinds == strings.kinds[rows, strings.partner]).all()
    assert (strings.partner[rows, strings.partner] == np.arange(8)).all()


# -- what is not balanced


def test_labels_are_even_and_the_bag_says_nothing():
    task = Dyck(kinds=2)
    examples = task.generate(np.full(40_000, 8), philox("labels"))
    yes = examples.answers[:, 0] == task.symbols.index("yes")
    assert chi_square_z(yes.astype(int), [0.5, 0.5]) < 5
    bag = (examples.inputs == 0).sum(axis=1)  # of "(", and so of all four: they come in pairs
    assert ((examples.inputs == 1).sum(axis=1) == bag).all()
    shares = np.array([yes[bag == count].mean() for count in range(5)])
    assert np.abs(shares - 0.5).max() < 0.04
    assert task.baselines(8)["bag_optimal"] == 0.5


def negatives(kinds, length, depth=None):
    task = Dyck(kinds=kinds, depth=depth)
    examples = task.generate(np.full(10_000, length), philox("negatives", kinds, length))
    return examples.inputs[examples.answers[:, 0] == task.symbols.index("no")]


def counted(inputs, kind):
    """(B, n) how many brackets of `kind` are open, seen by itself."""
    return ((inputs == 2 * kind).astype(int) - (inputs == 2 * kind + 1)).cumsum(axis=1)


@pytest.mark.parametrize(("kinds", "length"), [(2, 6), (2, 20), (4, 12)])
def test_no_counter_tells_where_there_are_two_kinds(kinds, length):
    inputs = negatives(kinds, length)
    mixed = (inputs // 2 != inputs[:, :1] // 2).any(axis=1)
    assert abs(mixed.mean() - (1 - kinds ** (1 - length / 2))) < 0.03
    for kind in range(kinds):
        heights = counted(inputs, kind)
        assert (heights[mixed].min(axis=1) >= 0).all() and (heights[:, -1] == 0).all()
        assert (heights[~mixed & (inputs[:, 0] // 2 == kind)].min(axis=1, initial=0) <= 0).all()
    assert (counted(negatives(1, length), 0).min(axis=1) == -1).all(), "control: with one kind it tells"


def closes_another(inputs):
    """(B,) a closing bracket right behind an opening one of another kind: seen by neighbours alone."""
    before, after = inputs[:, :-1], inputs[:, 1:]
    return ((before % 2 == 0) & (after % 2 == 1) & (before // 2 != after // 2)).any(axis=1)


def test_neighbours_tell_only_where_nothing_else_is_possible():
    assert closes_another(negatives(2, 40)).mean() < 0.05
    assert closes_another(negatives(2, 100)).mean() < 0.002
    short = negatives(2, 4)
    possible = {"([)]", "[(])", "())(", "[]][", ")()(", "][[]", "(])[", "[)]("}
    symbols = np.array(list("()[]"))
    seen = {"".join(symbols[row]) for row in short}
    assert {"([)]", "[(])"} <= seen and closes_another(short).any()
    assert all(dyck(list(string))[0] == ["no"] for string in seen) and len(seen & possible) >= 4


def test_every_kind_of_exchange_occurs_and_keeps_the_bag():
    task = Dyck(kinds=2)
    examples = task.generate(np.full(20_000, 14), philox("exchange"))
    no = examples.answers[:, 0] == task.symbols.index("no")
    wrong = examples.inputs[np.arange(len(no)), examples.evidence]
    assert (wrong[no] % 2 == 1).all(), "the first wrong symbol closes"
    place = examples.evidence[no]
    assert set(place) >= set(range(2, 12)) and 1 not in place
    one_kind = (examples.inputs[no] // 2 == examples.inputs[no][:, :1] // 2).all(axis=1)
    assert one_kind.any() and (one_kind[place == 0]).all(), (
        "only there does a string begin with a closing bracket"
    )
    assert (examples.evidence[~no] == -1).all()


# -- words of k blocks


@pytest.mark.parametrize(("k", "length"), [(2, 5), (3, 7), (4, 6)])
def test_every_choice_of_switches_is_as_likely(k, length):
    examples = PrefixBlocks(blocks=k).generate(np.array([length, 9] * 20_000), philox("switches", k))
    words = examples.inputs[::2, :length]
    codes = (words[:, 1:] != words[:, :-1]) @ (1 << np.arange(length - 1))
    chances = np.array([bin(code).count("1") == k - 1 for code in range(1 << (length - 1))], dtype=float)
    assert chi_square_z(codes, chances / chances.sum()) < 5


@pytest.mark.parametrize(("k", "length"), [(2, 6), (3, 8), (4, 9)])
def test_the_formulas_of_the_baselines_against_every_word(k, length):
    by_place, by_token, words = Counter(), Counter(), 0
    for switches in itertools.combinations(range(1, length), k - 1):
        words += 1
        for t in range(length):
            block = sum(s <= t for s in switches)
            by_place[t, block == k - 1] += 1
            by_token[t, block % 2, block == k - 1] += 1

    def best(counts):
        cues = {cue[:-1] for cue in counts}
        return sum(max(counts[*cue, False], counts[*cue, True]) for cue in cues) / words / length

    known = PrefixBlocks(blocks=k).baselines(length)
    assert known["position_only"] == pytest.approx(best(by_place))
    assert known["token_only"] == pytest.approx(best(by_token))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Dyck(kinds=0), ("kinds=0", "from 1 to 64")),
        (lambda: Dyck(depth=0), ("depth=0", "from 1")),
        (lambda: DyckNext(kinds="two"), ("kinds='two'", "integer")),
        (lambda: PrefixBlocks(blocks=1), ("blocks=1", "from 2")),
        (lambda: Dyck().check_length(7), ("length 7", "even lengths")),
        (lambda: DyckNext().check_length(0), ("length 0", "at least 2")),
        (lambda: PrefixBlocks(blocks=4).check_length(3), ("length 3", "at least 4")),
    ],
)
def test_what_is_impossible_is_said(build, words):
    with pytest.raises(ValueError) as error:
        build()
    for word in ("task ", *words):
        assert word in str(error.value), error.value


def test_names_of_many_kinds_differ():
    for task in (Dyck(kinds=64), DyckNext(kinds=64, depth=3)):
        assert len(set(task.symbols)) == len(task.symbols)
        assert set(task.answer_symbols) <= set(task.symbols)
        assert type(task)(**task.options).identity == task.identity
