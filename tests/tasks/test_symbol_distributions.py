"""What is drawn is distributed as the cards say; each test also refuses a distribution that is not it."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.stats import chisquare

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
    SortNumbers,
    SortTokens,
    Summation,
)

DRAWS = 12_000


def draw(task, length, count=DRAWS):
    """`count` rows of names and of answers, of one length among others."""
    other = task.min_length
    lengths = np.array([length, other] * count)
    examples = task.generate(lengths, philox("distribution", task.identity, length)).rows(slice(0, None, 2))
    return examples.inputs[:, :length], examples.answers


def fits(values, chances):
    """Whether `values` (hashable) may be drawn with `chances` {value: chance}; other values never may."""
    seen = Counter(values)
    assert set(seen) <= set(chances), "a value outside the stated range"
    expected = np.array(list(chances.values()), dtype=float)
    expected *= len(values) / expected.sum()
    return chisquare([seen[value] for value in chances], expected).pvalue > 1e-4


def uniform(values):
    return dict.fromkeys(values, 1.0)


def rows(array):
    return list(map(tuple, array.tolist()))


def test_the_statistic_can_fail():
    fair = philox("fair").integers(0, 10, size=DRAWS).tolist()
    assert fits(fair, uniform(range(10)))
    assert not fits(fair + [3] * 300, uniform(range(10)))


def test_strings_with_a_winner_are_uniform_among_those():
    task = Mode(symbols=3, distinct=3)
    inputs, answers = draw(task, 4)
    strings = list(np.ndindex(*(3,) * 4))
    tops = {string: Counter(string).most_common(2) for string in strings}
    untied = [s for s, top in tops.items() if len(top) == 1 or top[0][1] > top[1][1]]
    assert fits(rows(inputs), uniform(untied))
    assert fits(answers[:, 0].tolist(), uniform(range(3)))
    weighted = {string: 1.0 + (string[0] == string[1]) for string in untied}
    assert not fits(rows(inputs), weighted)


def test_letters():
    inputs, answers = draw(LetterMajority(), 2)
    assert (inputs[:, 0] == inputs[:, 1]).all()  # two letters without a tie
    assert fits(answers[:, 0].tolist(), uniform(range(26)))
    inputs, _ = draw(LetterMajority(), 9)
    assert fits(inputs[:, 4].tolist(), uniform(range(26)))


def test_symbols_of_a_string_are_drawn_anew():
    inputs, _ = draw(Mode(symbols=6, distinct=2), 3)
    kinds = [frozenset(row) for row in rows(inputs)]
    assert max(map(len, kinds)) == 2
    pairs = [kind for kind in kinds if len(kind) == 2]
    assert fits(pairs, uniform({frozenset((a, b)) for a in range(6) for b in range(a)}))


def test_interleaved_counts_are_uniform_without_the_tie():
    inputs, answers = draw(BinMajorityInterleave(), 12)
    for string in range(3):
        ones = inputs[:, string::3].sum(axis=1).tolist()
        assert fits(ones, uniform([0, 1, 3, 4]))
        assert not fits([*ones, *[1] * 400], uniform([0, 1, 3, 4]))
    assert fits(rows(answers), uniform(np.ndindex(2, 2, 2)))
    assert fits(np.nonzero(inputs)[1].tolist(), uniform(range(12)))


def test_copied_symbols_are_uniform():
    inputs, _ = draw(CopyTwice(symbols=5), 4)
    assert fits(rows(inputs[:, [0, 3]]), uniform(np.ndindex(5, 5)))
    inputs, _ = draw(RepeatToken(symbols=7), 3)
    assert fits(inputs[:, 2].tolist(), uniform(range(7)))
    inputs, _ = draw(SortTokens(symbols=5), 4)
    assert fits(rows(inputs[:, [1, 2]]), uniform(np.ndindex(5, 5)))


def test_ordered_pairs_to_replace():
    inputs, _ = draw(Replace(symbols=4), 7)
    pairs = rows(inputs[:, [0, 2]])
    assert fits(pairs, uniform((a, b) for a in range(4) for b in range(4) if a != b))
    assert not fits(pairs + [(1, 2)] * 200, uniform(set(pairs)))


def test_lists_of_numbers_given_their_length():
    """As likely as the numbers are: nine symbols are mostly 9999,9999 and seldom 99,99,999."""
    inputs, _ = draw(SortNumbers(), 9)
    lists = ["".join("0123456789,"[i] for i in row).split(",") for row in rows(inputs)]
    chance = {2: 90 / 9990, 3: 900 / 9990, 4: 9000 / 9990}
    shapes = {
        shape: np.prod([chance[digits] for digits in shape])
        for count in (2, 3)
        for shape in np.ndindex(*(5,) * count)
        if min(shape) >= 2 and sum(shape) + count == 10
    }
    assert set(shapes) == {(4, 4), (2, 2, 3), (2, 3, 2), (3, 2, 2)}
    common = {(4, 4): shapes[4, 4], "other": sum(shapes.values()) - shapes[4, 4]}
    seen = [tuple(map(len, words)) for words in lists]
    assert set(seen) <= set(shapes)
    assert fits([shape if shape == (4, 4) else "other" for shape in seen], common)
    assert not fits(seen, uniform(shapes))  # control: not every shape is as likely

    inputs, _ = draw(SortNumbers(), 10)  # 11 = 3 + 3 + 5 = 3 + 4 + 4 in every order
    shapes = {}
    for shape in np.ndindex(5, 5, 5):
        if min(shape) >= 2 and sum(shape) + 3 == 11:
            shapes[shape] = np.prod([chance[digits] for digits in shape])
    lists = ["".join("0123456789,"[i] for i in row).split(",") for row in rows(inputs)]
    seen = [tuple(map(len, words)) for words in lists]
    assert fits(seen, shapes)
    assert not fits(seen + [(2, 2, 4)] * 400, shapes)
    three = [int(word) // 100 for words in lists for word in words if len(word) == 3]
    assert fits(three, uniform(range(1, 10)))


def test_addends_and_polynomials():
    inputs, _ = draw(Summation(), 5)
    assert fits(inputs[:, 3].tolist(), uniform(range(1, 10)))
    task = Polynomial()
    inputs, _ = draw(task, 13)
    ids = {symbol: i for i, symbol in enumerate(task.symbols)}
    assert fits(inputs[:, 0].tolist(), uniform(ids[str(v)] for v in range(-2, 3)))
    assert not fits(inputs[:, 0].tolist(), {ids[str(v)]: 1.0 + 0.2 * (v == 0) for v in range(-2, 3)})
    for term in (2, 10):
        assert fits(inputs[:, term].tolist(), uniform(ids[str(c)] for c in range(-3, 4)))
        assert fits(inputs[:, term + 2].tolist(), uniform(ids[str(d)] for d in range(4)))


def test_chains():
    task = Lego(variables=7)
    for count in (4, 5):
        inputs, answers = draw(task, 5 * count + 1)
        variables = inputs[:, 0:-1:5]
        assert fits(variables[:, 2].tolist(), uniform(range(7)))
        assert (np.sort(variables, axis=1)[:, 1:] > np.sort(variables, axis=1)[:, :-1]).all()
        asked = (variables == inputs[:, -1:]).argmax(axis=1).tolist()
        half = range((count + 1) // 2, count)
        assert fits(asked, uniform(half))
        plus, minus = task.symbols.index("+"), task.symbols.index("-")
        signs = [tuple((plus, minus)[bit] for bit in bits) for bits in np.ndindex(2, 2, 2)]
        assert fits(rows(inputs[:, [2, 7, 12]]), uniform(signs))
        assert fits(answers[:, 0].tolist(), uniform(map(task.symbols.index, ("+1", "-1"))))


def test_shuffled_chains_are_in_every_order():
    task = Lego(variables=3, shuffle=True)
    inputs, _ = draw(task, 16)
    clauses = inputs[:, :15].reshape(-1, 3, 5)
    orders = []
    for row in clauses.tolist():
        depth, source = {}, task.symbols.index("1")
        for place in range(3):
            (variable,) = [clause[0] for clause in row if clause[3] == source]
            depth[variable], source = place, variable
        orders.append(tuple(depth[clause[0]] for clause in row))
    every = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    assert fits(orders, uniform(every))
    assert not fits([(0, 1, 2), *orders[: len(orders) // 2]] * 2, {**uniform(every), (0, 1, 2): 1.3})


def test_where_counting_begins():
    inputs, answers = draw(Count(numbers=20), 6)
    assert fits(answers[:, 0].tolist(), uniform(range(15)))
    assert (inputs[:, -1] - inputs[:, -2] == 5).all()
