"""Addition in every format, against Python's own integers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from lengthwise.keyed import philox
from lengthwise.positions.task import TaskSupplied
from lengthwise.tasks import Addition, AdditionBinary, AdditionForward, AdditionPadded, Layout
from lengthwise.tasks import test_items as items_of
from lengthwise.tasks.numerals import add, random_numerals
from support.lengths import test_lengths, train_lengths
from support.task_oracle import at_least, guesses, layouts, legal_lengths, mistakes, oracle, scores

TASKS = [Addition(), AdditionForward(), AdditionBinary(), AdditionPadded()]
OTHERS = [
    Addition(scratchpad=True), AdditionForward(scratchpad=True), AdditionBinary(scratchpad=True),
    AdditionPadded(scratchpad=True), Addition(most_digits=20), Addition(base=3, operands="msb", zero=True),
    Addition(base=2, answer="msb", most_digits=4, scratchpad=True),
]  # fmt: skip


def named(task):
    return "-".join([task.name, *map(str, task.options.values())])


def in_base(number, base):
    digits = ""
    while number or not digits:
        number, digit = divmod(number, base)
        digits = str(digit) + digits
    return digits


def solver_of(task):
    """Reads the text as a person would, and adds with integers of any size."""

    def turned(text, order):
        return text[::-1] if order == "lsb" else text

    def solve(x):
        first, second = "".join(x[:-1]).split("+")
        assert x[-1] == "="
        if task.padded:  # one of the two fills its digits
            assert len(first) == len(second)
            assert len(first) == 1 or first[0] != "0" or second[0] != "0"
        values = []
        for text in (first, second):
            usual = turned(text, task.operands)
            assert task.padded or usual[0] != "0" or (usual == "0" and task.zero)
            values.append(int(usual, task.base))
        total = in_base(sum(values), task.base)
        width = max(len(first), len(second))
        answer = turned(total.zfill(width + 1) if task.padded else total, task.answer)
        if not task.scratchpad:
            return list(answer), -1
        steps, carry = [], 0
        columns = [turned(text, task.operands)[::-1].ljust(width, "0") for text in (first, second)]
        for a, b in zip(*columns, strict=True):
            column = int(a) + int(b) + carry
            steps.append(f"{a}{b}{carry}{column % task.base}")
            carry = column // task.base
        return list(",".join(steps) + "=" + answer), -1

    return solve


# -- the definition


@pytest.mark.parametrize("task", [*TASKS, *OTHERS], ids=named)
def test_ten_thousand_samples_of_lengths_up_to_64(task):
    lengths = philox("up to 64", task.identity).choice(legal_lengths(task, range(1, 65)), size=10_000)
    examples = task.generate(lengths, philox("solver", task.identity))
    assert (examples.lengths == lengths).all() and examples.answers.dtype == np.int64
    assert mistakes(task, examples, solver_of(task)) == 0


@pytest.mark.parametrize("task", [*TASKS, *OTHERS], ids=named)
def test_long_samples(task):
    long = [at_least(task, length) for length in (65, 128, 500)]
    examples = task.generate(np.repeat(long, 20), philox("long", task.identity))
    assert mistakes(task, examples, solver_of(task)) == 0


@pytest.mark.parametrize("task", TASKS, ids=named)
def test_worked_examples_of_the_card(task):
    assert len(task.worked) == 3
    for inputs, answer in task.worked:
        task.check_length(len(inputs.split()))
        assert solver_of(task)(inputs.split()) == (answer.split(), -1)


def test_a_scratchpad_written_by_hand():
    """709 + 536 with the units first: 7 + 5 = 12, 0 + 3 + 1 = 4, 9 + 6 = 15."""
    task = Addition(scratchpad=True)
    assert solver_of(task)(list("709+536="))[0] == list("7502,0314,9605=2451")
    assert solver_of(AdditionForward(scratchpad=True))(list("99+1="))[0] == list("9100,9010=100")


@pytest.mark.parametrize("task", [TASKS[0], TASKS[3]], ids=named)
def test_the_solver_sees_a_wrong_digit_and_a_lost_one(task):
    lengths = np.array(train_lengths(task))
    examples = task.generate(lengths, philox("control", task.identity))
    answers = examples.answers.copy()
    answers[:, 0] = (answers[:, 0] + 1) % 10
    assert mistakes(task, replace(examples, answers=answers), solver_of(task)) == len(lengths)
    shorter = replace(examples, answer_lengths=examples.answer_lengths - 1)
    assert mistakes(task, shorter, solver_of(task)) == len(lengths)


def test_every_carry_of_all_small_pairs():
    pairs = np.array([(a, b) for a in range(1000) for b in range(0, 1000, 7)])
    digits = pairs[:, :, None] // 10 ** np.arange(3) % 10
    total, carries = add(digits[:, 0], digits[:, 1], 10)
    assert (total @ 10 ** np.arange(4) == pairs.sum(axis=1)).all()
    assert total.min() >= 0 and total.max() <= 9
    assert (carries[:, 0] == 0).all() and set(carries.ravel()) == {0, 1}


# -- what is drawn


def test_pairs_of_one_length_are_equally_likely():
    task = Addition()
    examples = task.generate(np.full(9000, 12), philox("pairs"))
    first = (examples.inputs == 10).argmax(axis=1)
    assert set(first) == set(range(1, 10))
    assert chisquare(np.bincount(first)[1:]).pvalue > 1e-4
    tilted = np.concatenate([first, np.full(300, 4)])
    assert chisquare(np.bincount(tilted)[1:]).pvalue < 1e-4


def test_pairs_inside_a_square():
    task = Addition(most_digits=5)
    for length, fewest, most in ((4, 1, 1), (7, 1, 4), (10, 3, 5), (12, 5, 5), (13, 1, 10)):
        examples = task.generate(np.full(2000, length), philox("square", length))
        first = (examples.inputs == 10).argmax(axis=1)
        assert set(first) == set(range(fewest, most + 1))


def test_pairs_of_padded_numbers():
    """Given the larger digit count w, each of the 2w - 1 pairs is as likely."""
    examples = AdditionPadded().generate(np.full(7000, 10), philox("padded pairs"))
    counts = [
        tuple(max(len("".join(map(str, row[start : start + 4])).lstrip("0")), 1) for start in (0, 5))
        for row in examples.inputs.tolist()
    ]
    seen = Counter(counts)
    assert set(seen) == {(4, j) for j in range(1, 5)} | {(i, 4) for i in range(1, 5)}
    assert chisquare(list(seen.values())).pvalue > 1e-4
    first = Counter(first for first, _ in counts)
    assert chisquare(list(first.values())).pvalue < 1e-4  # control: one count alone is not uniform


@pytest.mark.parametrize(("zero", "least"), [(True, 0), (False, 1)])
def test_digits_are_uniform_and_the_leading_one_is_not_zero(zero, least):
    digits = random_numerals(np.full(9000, 3), 10, zero=zero, generator=philox("digits", zero))
    assert chisquare(np.bincount(digits[:, 2], minlength=10)[1:]).pvalue > 1e-4
    assert (digits[:, 2] > 0).all()
    for t in (0, 1):
        assert chisquare(np.bincount(digits[:, t], minlength=10)).pvalue > 1e-4
    single = random_numerals(np.full(9000, 1), 10, zero=zero, generator=philox("digit", zero))
    assert single.min() == least
    assert chisquare(np.bincount(single[:, 0])[least:]).pvalue > 1e-4


@pytest.mark.parametrize("task", [*TASKS, Addition(scratchpad=True)], ids=named)
def test_items_of_one_length_are_equally_wide(task):
    """Blocks of items are put together, so none may be narrower than another."""
    assert items_of(task, 6, 600).answers.shape == (600, task.answer_length(6))


def test_a_cell_of_the_grid():
    task = Addition()
    examples = task.cell(np.full(50, 30), np.full(50, 7), philox("cell"))
    assert (examples.lengths == 39).all() and (examples.inputs[:, 30] == 10).all()
    assert mistakes(task, examples, solver_of(task)) == 0


# -- position numbers


def numbers(task, text, kind):
    """(numbers of the input, numbers of the answer) for one input, written."""
    symbols = list(text)
    ids = np.array([[task.symbols.index(symbol) for symbol in symbols]])
    examples = task.generate(np.array([len(symbols)]), philox("any"))
    given = task.position_numbers(replace(examples, inputs=ids), task.answer_length(len(symbols)), kind)
    return [row[0].tolist() for row in given]


def test_index_numbers():
    inputs, answers = numbers(Addition(), "282+38=", "index")
    assert inputs == [1, 2, 3, 0, 1, 2, 0] and answers == [1, 2, 3, 4, 5]
    assert numbers(AdditionForward(), "7+123=", "index")[0] == [1, 0, 1, 2, 3, 0]


def test_coupled_numbers():
    """Signs 1, significance t (1 = units) 1 + t: digits that are added share a number with the sum's digit."""
    inputs, answers = numbers(Addition(), "282+38=", "coupled")
    assert inputs == [2, 3, 4, 1, 2, 3, 1] and answers == [2, 3, 4, 5, 6]
    inputs, answers = numbers(AdditionPadded(), "653+049=", "coupled")
    assert inputs == [4, 3, 2, 1, 4, 3, 2, 1] and answers == [2, 3, 4, 5]


@pytest.mark.parametrize("task", TASKS, ids=named)
def test_highest_numbers_are_reached_and_not_passed(task):
    lengths = np.full(400, 12)
    examples = task.generate(lengths, philox("highest"))
    for kind in task.number_kinds:
        inputs, answers = task.position_numbers(examples, task.answer_length(12), kind)
        assert max(inputs.max(), answers.max()) == task.highest_number(12, kind)


def test_numbers_in_a_batch_of_a_decoder():
    task = AdditionPadded()
    layout = Layout(task, "decoder", rule=TaskSupplied(kind="coupled"))
    examples = task.generate(np.array([8]), philox("batch"))
    #          BOS  a  b  c  +  d  e  f  =  SEP, then the sum
    assert layout(examples).positions.tolist() == [[0, 4, 3, 2, 1, 4, 3, 2, 1, 0, 2, 3, 4, 5]]


def test_numbers_that_cannot_be_known_are_refused():
    with pytest.raises(ValueError, match="coupled"):
        Layout(AdditionForward(), "decoder", rule=TaskSupplied(kind="coupled"))
    for kind in ("coupled", "index"):
        with pytest.raises(ValueError, match="gives no position numbers"):
            Layout(Addition(scratchpad=True), "decoder", rule=TaskSupplied(kind=kind))


# -- every shape of model


@pytest.mark.parametrize("task", [*TASKS, Addition(scratchpad=True)], ids=named)
def test_a_perfect_oracle_scores_one_and_guesses_score_chance(task):
    lengths = philox("oracle", task.name).choice([*train_lengths(task), *test_lengths(task)], size=256)
    examples = task.generate(lengths, philox("oracle examples", task.identity))
    shapes = set()
    for layout in layouts(task):
        shapes.add(layout.shape)
        batch = layout(examples)
        said = oracle(task, layout, batch, solver_of(task))
        perfect = scores(layout, batch, said)
        assert perfect.exact.all() and (perfect.symbols == examples.answer_lengths).all()
        assert not scores(layout, batch, said.roll(1, dims=0)).exact.all()
        chance = task.baselines(12)["uniform"]
        guessed = scores(layout, batch, guesses(task, batch, philox("guesses", layout.shape)))
        total = guessed.symbols.sum()
        assert abs(guessed.correct.sum() - total * chance) < 3 * np.sqrt(total * chance * (1 - chance))
    assert shapes == {"encoder", "decoder", "encoder_decoder"}


# -- options and lengths


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"base": 11}, "base=11"),
        ({"base": 1}, "base=1"),
        ({"operands": "up"}, "operands='up'.*lsb or msb"),
        ({"answer": "big"}, "answer='big'.*lsb or msb"),
        ({"zero": 1}, "zero=1"),
        ({"most_digits": 0}, "most_digits=0"),
        ({"scratchpad": "on"}, "scratchpad='on'"),
    ],
)
def test_impossible_options(options, words):
    with pytest.raises(ValueError, match=words):
        Addition(**options)


@pytest.mark.parametrize(
    ("task", "length", "words"),
    [
        (Addition(), 3, "at least 4"),
        (AdditionPadded(), 7, "even lengths"),
        (AdditionBinary(), 0, "at least 4"),
    ],
)
def test_impossible_lengths(task, length, words):
    with pytest.raises(ValueError, match=words):
        task.generate(np.array([length]), philox("bad"))
