"""Tasks on strings of symbols against slow solvers that read names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from lengthwise.keyed import philox
from lengthwise.tasks import (
    BinMajorityInterleave,
    CopyTwice,
    Count,
    Lego,
    LetterMajority,
    Mode,
    Polynomial,
    RepeatToken,
    Replace,
    ReverseCopy,
    ReverseTwice,
    SortNumbers,
    SortTokens,
    Summation,
)
from lengthwise.tasks.estimated import estimated_baselines
from support.lengths import test_lengths, train_lengths
from support.task_oracle import at_least, guesses, layouts, legal_lengths, mistakes, oracle, scores

# -- slow solvers: names in, (answer, evidence) out


def interleaved(x):
    return [winner(x[string::3]) for string in range(3)], -1


def winner(x):
    (best, many), *others = Counter(x).most_common()
    assert not others or others[0][1] < many, "a tie"
    return best


def repeated(times):
    def solve(x):
        assert len(set(x)) == 1
        return x * times, -1

    return solve


def replaced(x):
    source, arrow, target, colon, *string = x
    assert arrow == ">" and colon == ":" and source != target and set(string) == {source}
    return [target for _ in string], 2


def by_number(names):
    return sorted(names, key=lambda name: int(name[1:])), -1


def numbers_in_order(x):
    words = "".join(x).split(",")
    assert all(10 <= int(word) <= 9999 and str(int(word)) == word for word in words)
    return list(",".join(sorted(words, key=int))), -1


def digit_sum(x):
    assert "0" not in x
    return [str(sum(int(digit) for digit in x))[-1]], -1


def polynomial(x):
    at, terms = " ".join(x).split(" : ")
    total = 0
    for term in terms.split(" + "):
        coefficient, power = term.split(" x ")
        assert -3 <= int(coefficient) <= 3 and 0 <= int(power) <= 3 and -2 <= int(at) <= 2
        total += int(coefficient) * int(at) ** int(power)
    return [str(total % 10)], -1


def lego(x):
    *clauses, last = " ".join(x).split(" , ")
    last, asked = last.split(" ? ")
    meaning = {}
    for clause in [*clauses, last]:
        variable, is_, sign, source = clause.split()
        assert is_ == "=" and variable not in meaning
        meaning[variable] = sign, source

    def value(name):
        sign, source = meaning[name]
        return (1 if sign == "+" else -1) * (1 if source == "1" else value(source))

    assert sum(source == "1" for _, source in meaning.values()) == 1
    return ["+1" if value(asked) > 0 else "-1"], -1


def counted(x):
    *blanks, first, last = x
    assert set(blanks) <= {"."}
    return [str(number) for number in range(int(first), int(last) + 1)], len(blanks)


SOLVERS = {
    "letter_majority": lambda x: ([winner(x)], -1),
    "mode": lambda x: ([winner(x)], -1),
    "bin_majority_interleave": interleaved,
    "replace": replaced,
    "copy_twice": lambda x: ([*x, "[NEXT]", *x], -1),
    "reverse_twice": lambda x: ([*x[::-1], "[NEXT]", *x[::-1]], -1),
    "reverse_copy": lambda x: ([*x[::-1], "[NEXT]", *x], -1),
    "sort_tokens": by_number,
    "sort_numbers": numbers_in_order,
    "summation": digit_sum,
    "polynomial": polynomial,
    "lego": lego,
    "count": counted,
}
TASKS = [
    LetterMajority(), Mode(), BinMajorityInterleave(), RepeatToken(), Replace(), CopyTwice(), ReverseTwice(),
    ReverseCopy(), SortTokens(), SortNumbers(), Summation(), Polynomial(), Lego(), Count(),
]  # fmt: skip
OTHERS = [
    RepeatToken(symbols=3, times=2), Replace(symbols=2), CopyTwice(symbols=2), SortTokens(symbols=4),
    Mode(symbols=3, distinct=3), Lego(variables=100, shuffle=True), Count(numbers=512),
]  # fmt: skip


def named(task):
    return "-".join([task.name, *map(str, task.options.values())])


def solver_of(task):
    return repeated(task.times) if task.name == "repeat_token" else SOLVERS[task.name]


# -- the definition


@pytest.mark.parametrize("task", [*TASKS, *OTHERS], ids=named)
def test_ten_thousand_samples_of_lengths_up_to_64(task):
    lengths = philox("up to 64", task.identity).choice(legal_lengths(task, range(1, 65)), size=10_000)
    examples = task.generate(lengths, philox("solver", task.identity))
    assert (examples.lengths == lengths).all() and examples.inputs.shape[1] == lengths.max()
    assert {part.dtype.kind for part in (examples.inputs, examples.answers, examples.evidence)} == {"i"}
    assert mistakes(task, examples, solver_of(task)) == 0


@pytest.mark.parametrize("task", [*TASKS, *OTHERS], ids=named)
def test_long_samples(task):
    lengths = [at_least(task, length) for length in (65, 128, 500)]
    long = [length for length in lengths if length is not None]
    assert len(long) == 3 or task.max_length in (131, 200)
    examples = task.generate(np.repeat(long, 20), philox("long", task.identity))
    assert mistakes(task, examples, solver_of(task)) == 0


@pytest.mark.parametrize("task", TASKS, ids=named)
def test_worked_examples_of_the_card(task):
    assert len(task.worked) == 3
    for inputs, answer in task.worked:
        task.check_length(len(inputs.split()))
        assert set(inputs.split()) <= set(task.symbols)
        assert set(answer.split()) <= set(task.answer_symbols)
        said, _ = (repeated(1) if task.name == "repeat_token" else solver_of(task))(inputs.split())
        assert said == answer.split()


@pytest.mark.parametrize("task", TASKS, ids=named)
def test_the_solver_sees_a_wrong_answer_and_wrong_evidence(task):
    lengths = np.array(train_lengths(task))
    examples = task.generate(lengths, philox("control", task.identity))
    answers = examples.answers.copy()
    ids = task.answer_ids.tolist()
    answers[:, 0] = [ids[(ids.index(answer) + 1) % len(ids)] for answer in answers[:, 0]]
    assert mistakes(task, replace(examples, answers=answers), solver_of(task)) == len(lengths)
    moved = replace(examples, evidence=examples.evidence + 1)
    assert mistakes(task, moved, solver_of(task)) == len(lengths)


# -- every shape of model


@pytest.mark.parametrize("task", [*TASKS, RepeatToken(times=2)], ids=named)
def test_a_perfect_oracle_scores_one_and_guesses_score_chance(task):
    lengths = philox("oracle", task.name).choice([*train_lengths(task), *test_lengths(task)], size=256)
    examples = task.generate(lengths, philox("oracle examples", task.identity))
    shapes = set()
    for layout in layouts(task):
        shapes.add(layout.shape)
        batch = layout(examples)
        said = oracle(task, layout, batch, solver_of(task))
        perfect = scores(layout, batch, said)
        assert perfect.exact.all() and (perfect.correct == perfect.symbols).all()
        assert (perfect.symbols == examples.answer_lengths).all()
        assert not scores(layout, batch, said.roll(1, dims=0)).exact.all()

        chance = task.baselines(int(lengths[0]))["uniform"]
        guessed = scores(layout, batch, guesses(task, batch, philox("guesses", layout.shape)))
        total = guessed.symbols.sum()
        deviation = abs(guessed.correct.sum() - total * chance) / np.sqrt(total * chance * (1 - chance))
        assert deviation < 3
    assert shapes == {"encoder", "decoder", "encoder_decoder"}


# -- baselines


@pytest.mark.parametrize("task", TASKS, ids=named)
def test_formulas_agree_with_what_is_measured(task):
    for length in {train_lengths(task)[-1], at_least(task, 30)}:
        given = task.baselines(length)
        assert given["uniform"] == pytest.approx(1 / len(task.answer_symbols))
        assert all(0 < value <= 1 for value in given.values())
        for rule, value in estimated_baselines(task, length, ("position_only", "previous_only")).items():
            # Rules are fitted on 4096 samples: a rule with many cases is measured a little too low.
            assert given.get(rule, value) == pytest.approx(value, abs=0.03), rule


def test_sums_of_what_a_window_does_not_see():
    """Two digits from 1 to 9 most often make ten: nine pairs of 81."""
    task = Summation()
    assert task.baselines(2)["position_only"] == pytest.approx(9 / 81)
    assert task.baselines(23)["window"] == pytest.approx(9 / 81)
    assert task.baselines(3)["position_only"] == pytest.approx(73 / 729)


def test_interleaved_majorities_from_the_bag():
    """Against all strings of nine bits with their weights."""
    total, by_bag, by_prefix = 0.0, Counter(), Counter()
    zeros = {0: 1, 1: 3, 2: 3, 3: 1}  # arrangements of each number of zeros
    for bits in np.ndindex(*(2,) * 9):
        weight = np.prod([1 / (4 * zeros[3 - sum(bits[s::3])]) for s in range(3)])
        answers = [int(sum(bits[s::3]) > 1) for s in range(3)]
        total += weight
        for known in range(3):
            by_prefix[known, sum(bits), tuple(answers[:known]), answers[known]] += weight
        by_bag[sum(bits), answers[1]] += weight

    def best(table):
        cases = {case[:-1] for case in table}
        return {case: max(table[(*case, 0)], table[(*case, 1)]) for case in cases}

    given = BinMajorityInterleave().baselines(9)
    assert total == pytest.approx(1)
    assert given["bag_optimal"] == pytest.approx(sum(best(by_bag).values()))
    assert given["remaining_bag"] == pytest.approx(sum(best(by_prefix).values()) / 3)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_a_chain_from_its_bag(count):
    """Against all signs and questions: the bag tells the number of minus signs, and whether the last is asked for."""
    table, asked = Counter(), range((count + 1) // 2, count)
    for signs in np.ndindex(*(2,) * count):
        for k in asked:
            table[sum(signs), k == count - 1, sum(signs[: k + 1]) % 2] += 1
    cases = {case[:2] for case in table}
    best = sum(max(table[(*case, 0)], table[(*case, 1)]) for case in cases)
    assert Lego().baselines(5 * count + 1)["bag_optimal"] == pytest.approx(best / 2**count / len(asked))


# -- options and lengths


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RepeatToken(times=0), "times=0"),
        (lambda: RepeatToken(symbols=1), "symbols=1"),
        (lambda: Replace(symbols=1), "symbols=1"),
        (lambda: CopyTwice(symbols=1.5), "symbols=1.5"),
        (lambda: SortTokens(symbols=0), "symbols=0"),
        (lambda: Mode(symbols=4, distinct=5), "distinct=5"),
        (lambda: Lego(variables=1), "variables=1"),
        (lambda: Lego(shuffle="yes"), "shuffle='yes'"),
        (lambda: Count(numbers=1), "numbers=1"),
    ],
)
def test_impossible_options(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("task", "length", "words"),
    [
        (BinMajorityInterleave(), 4, "multiples of 3"),
        (Replace(), 4, "at least 5"),
        (SortNumbers(), 1, "at least 2"),
        (Polynomial(), 10, "4k [+] 1"),
        (Lego(), 12, "5k [+] 1"),
        (Lego(), 136, "from 11 to 131"),
        (Count(), 201, "from 2 to 200"),
    ],
)
def test_impossible_lengths(task, length, words):
    with pytest.raises(ValueError, match=words):
        task.generate(np.array([length]), philox("bad"))


# -- position numbers


@pytest.mark.parametrize(
    ("task", "coupled"),
    [
        (CopyTwice(symbols=4), [1, 2, 3, 0, 1, 2, 3]),
        (ReverseTwice(symbols=4), [3, 2, 1, 0, 3, 2, 1]),
        (ReverseCopy(symbols=4), [3, 2, 1, 0, 1, 2, 3]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_numbers_of_both_strings(task, coupled):
    examples = task.generate(np.array([3, 5]), philox("numbers"))
    width = task.answer_length(5)
    inputs, answers = task.position_numbers(examples, width, "coupled")
    assert inputs[0, :3].tolist() == [1, 2, 3] and answers[0, :7].tolist() == coupled
    repeats = [
        examples.inputs[1, n - 1] for n in answers[1] if n
    ]  # what an answer's number points at is what it says
    assert repeats == [symbol for symbol in examples.answers[1] if symbol != 4]
    inputs, answers = task.position_numbers(examples, width, "index")
    assert inputs[0, :3].tolist() == [1, 2, 3] and answers[0, :7].tolist() == [1, 2, 3, 0, 1, 2, 3]
    assert answers.max() <= task.highest_number(5, "index") == 5
