"""The Chomsky-hierarchy suite once more, slow and obvious: solvers that read symbol names, and all inputs of a length
with their probabilities, both written from the definitions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from lengthwise.tasks import (
    BinaryAddition,
    BinaryMultiplication,
    BucketSort,
    ComputeSqrt,
    CycleNavigation,
    DuplicateString,
    EvenPairs,
    MissingDuplicate,
    ModularArithmetic,
    ModularArithmeticBrackets,
    OddsFirst,
    Parity,
    SolveEquation,
    StackManipulation,
)

TASKS = {
    f"{task.name}{''.join(f'-{key}' for key, value in task.options.items() if value is True)}": task
    for task in (
        EvenPairs(),
        ModularArithmetic(),
        Parity(),
        Parity(balanced=True),
        Parity(scratchpad=True),
        Parity(balanced=True, scratchpad=True),
        CycleNavigation(),
        StackManipulation(),
        ModularArithmeticBrackets(),
        SolveEquation(),
        DuplicateString(),
        MissingDuplicate(),
        OddsFirst(),
        BinaryAddition(),
        BinaryMultiplication(),
        ComputeSqrt(),
        BucketSort(),
    )
}


# -- solvers: list of symbol names in, list of answer names out


def even_pairs(x):
    return [str(sum(a != b for a, b in itertools.pairwise(x)) % 2)]


def value(x):
    return str(eval("".join(x)) % 5)


def parity(task):
    names = "eo" if task.balanced else "01"

    def solve(x):
        steps = [names[x[: k + 1].count("1") % 2] for k in range(len(x))]
        return [*steps, steps[-1]] if task.scratchpad else steps[-1:]

    return solve


def walk(x):
    place = 0
    for move in x:
        place += {"left": -1, "stay": 0, "right": 1}[move]
    return [str(place % 5)]


def stack(x):
    held = []
    for symbol in x:
        if symbol == "POP":
            held = held[:-1]
        else:
            held.append(symbol.removeprefix("PUSH"))
    return held[::-1]


def equation(x):
    if len(x) < 3:
        return ["0"]
    assert x.count("x") == 1 and x[-2] == "="
    [solution] = [d for d in "01234" if value("".join(x[:-2]).replace("x", d)) == x[-1]]
    return [solution]


def missing(x):
    if len(x) == 1:
        return ["1"]
    assert x.count("?") == 1 and x.count("_") == len(x) % 2
    half = len(x) // 2
    first, second = x[:half], x[half : 2 * half]
    differing = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    assert len(differing) == 1 and "?" in differing[0]
    return [symbol for symbol in differing[0] if symbol != "?"]


def lowest_first(number):
    return list(f"{number:b}"[::-1])


def operation(sign, combine):
    def solve(x):
        if sign not in x:
            return combine(int("".join(x[::-1]), 2), None, len(x))
        k = x.index(sign)
        return combine(int("".join(x[:k][::-1]), 2), int("".join(x[k + 1 :][::-1]), 2), len(x))

    return solve


def add(a, b, length):
    return lowest_first(a if b is None else a + b)


def multiply(a, b, length):
    return ["0"] * (length - 1) if b is None else lowest_first(a * b)


def square_root(x):
    return list(f"{math.isqrt(int(''.join(x), 2)):b}".zfill(math.ceil(len(x) / 2)))


def solver(task):
    """List of symbol names -> list of answer names."""
    return {
        "even_pairs": even_pairs,
        "modular_arithmetic": lambda x: [value(x)],
        "parity": parity(task) if task.name == "parity" else None,
        "cycle_navigation": walk,
        "stack_manipulation": stack,
        "modular_arithmetic_brackets": lambda x: [value(x)],
        "solve_equation": equation,
        "duplicate_string": lambda x: x + x,
        "missing_duplicate": missing,
        "odds_first": lambda x: x[1::2] + x[::2],
        "binary_addition": operation("+", add),
        "binary_multiplication": operation("*", multiply),
        "compute_sqrt": square_root,
        "bucket_sort": sorted,
    }[task.name]


def evidence(task, x):
    """The position that the card names as evidence."""
    if task.name == "solve_equation" and len(x) > 2:
        return x.index("x")
    if task.name == "missing_duplicate" and len(x) > 1:
        half = len(x) // 2
        return (x.index("?") + half) % (2 * half)
    return -1


# -- all inputs of one length, [(probability, tuple of names)], by the definition


def iid(n, names):
    return [(Fraction(1, len(names) ** n), x) for x in itertools.product(names, repeat=n)]


def arithmetic(n):
    choices = ["01234" if place % 2 == 0 else "+-*" for place in range(n)]
    texts = list(itertools.product(*choices))
    return [(Fraction(1, len(texts)), x) for x in texts]


def balanced(n):
    return [(Fraction(1, (n + 1) * math.comb(n, x.count("1"))), x) for x in itertools.product("01", repeat=n)]


def stacks(n):
    for s in range(1, n) if n > 1 else [1]:
        for bits in itertools.product("01", repeat=s):
            for actions in itertools.product(("POP", "PUSH0", "PUSH1"), repeat=n - s):
                yield Fraction(1, max(n - 1, 1) * 2**s * 3 ** (n - s)), bits + actions


def expressions(n, operators):
    if n <= 4:
        before, after = {1: ("", ""), 2: ("-", ""), 3: ("(", ")"), 4: ("(-", ")")}[n]
        for digit in "01234":
            yield Fraction(1, 5), (*before, digit, *after)
        return
    for left in range(1, n - 3):
        for (p, a), (q, b) in itertools.product(
            expressions(left, operators), expressions(n - 3 - left, operators)
        ):
            for operator in operators:
                yield p * q / (n - 4) / len(operators), ("(", *a, operator, *b, ")")


def equations(n):
    if n < 3:
        yield Fraction(1), ("0",) * n
        return
    for p, x in expressions(n - 2, "+-"):
        for place in range(n - 2):
            unknown = place
            while not x[unknown].isdigit():
                unknown = (unknown + 1) % (n - 2)
            yield p / (n - 2), (*x[:unknown], "x", *x[unknown + 1 :], "=", value(x))


def twice_but_one(n):
    if n == 1:
        yield Fraction(1), ("1",)
        return
    for w in itertools.product("01", repeat=n // 2):
        for place in range(2 * (n // 2)):
            x = [*w, *w, *"_" * (n % 2)]
            x[place] = "?"
            yield Fraction(1, 2 ** (n // 2) * 2 * (n // 2)), tuple(x)


def numbers(n, sign):
    if n <= 2:
        for a in range(2**n - 1):
            yield Fraction(1, 2**n - 1), tuple(f"{a:0{n}b}"[::-1])
        return
    for k in range(1, n - 1):
        m = n - 1 - k
        for a, b in itertools.product(range(1, 2**k), range(1, 2**m)):
            text = f"{a:0{k}b}"[::-1] + sign + f"{b:0{m}b}"[::-1]
            yield Fraction(1, (n - 2) * (2**k - 1) * (2**m - 1)), tuple(text)


def space(task, n):
    """{input (tuple of names): probability} at length n."""
    by_name = {
        "modular_arithmetic": lambda: arithmetic(n),
        "parity": lambda: balanced(n) if task.balanced else iid(n, "01"),
        "cycle_navigation": lambda: iid(n, ("left", "stay", "right")),
        "stack_manipulation": lambda: stacks(n),
        "modular_arithmetic_brackets": lambda: expressions(n, "+-*"),
        "solve_equation": lambda: equations(n),
        "missing_duplicate": lambda: twice_but_one(n),
        "binary_addition": lambda: numbers(n, "+"),
        "binary_multiplication": lambda: numbers(n, "*"),
        "compute_sqrt": lambda: [
            (Fraction(1, 2**n - 1), x) for x in itertools.product("01", repeat=n) if "1" in x
        ],
    }
    found: dict[tuple[str, ...], Fraction] = {}
    for probability, x in by_name.get(task.name, lambda: iid(n, task.symbols))():
        found[tuple(x)] = found.get(tuple(x), Fraction(0)) + probability
    return found
