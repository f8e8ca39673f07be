"""Brackets of several kinds: is the string balanced, and what may come next."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.brackets import Brackets, balanced_brackets
from lengthwise.tasks.contract import Examples, Symmetry, Task, label_examples, no_evidence, real_places

PAIRS = ("()", "[]", "{}", "<>")


class _Dyck(Task):
    """Strings over `kinds` pairs of brackets, nested at most `depth` deep (None = any)."""

    min_length = 2

    def __init__(self, kinds: int, depth: int | None) -> None:
        self.kinds = self.integer_option("kinds", kinds, 1, 64)
        self.depth = None if depth is None else self.integer_option("depth", depth, 1, 4096)
        named = [tuple(pair) for pair in PAIRS[: self.kinds]]
        named += [(f"({kind}", f"){kind}") for kind in range(len(PAIRS) + 1, self.kinds + 1)]
        self.brackets = tuple(bracket for pair in named for bracket in pair)

    @property
    def options(self) -> dict[str, int | None]:
        return {"kinds": self.kinds, "depth": self.depth}

    def legal_length(self, length: int) -> str | None:
        return "use even lengths: brackets come in pairs" if length % 2 else None

    def draw(self, lengths: np.ndarray, generator: np.random.Generator) -> tuple[Brackets, np.ndarray]:
        """Balanced strings, and their symbols (B, n)."""
        strings = balanced_brackets(lengths, self.kinds, self.depth, generator)
        return strings, np.where(real_places(lengths), 2 * strings.kinds + (strings.steps < 0), 0)


class Dyck(_Dyck):
    """Task card: dyck."""

    name = "dyck"
    answer_format = "label"
    definition = (
        "A balanced string of even length n, uniform over all that nest at most `depth` deep (null: any), "
        "each pair's kind uniform over the `kinds`. Half of the time the label is yes; else it is no, and two "
        "symbols are exchanged: two neighbours of different kinds, which leaves the bag as it is and every "
        "kind by itself balanced, but never the string. They are uniform over those where the exchange puts "
        "no closing bracket right behind an opening one of another kind; where there are none, over all; "
        "where the string has one kind only, a bracket that stands in no other is exchanged with its partner. "
        "So with two kinds or more neither the bag nor a counter for each kind can tell, two neighbours can "
        "only where nothing else is possible, and a few more only where little stands between a wrong bracket "
        "and the one it should close. With one kind a counter can."
    )
    worked = (("( [ ] )", "yes"), ("( [ ) ]", "no"), (") (", "no"))
    symmetry = Symmetry("a permutation of the kinds; reading backwards with ( for ) and ) for (", "identity")
    evidence_meaning = "the first symbol that no balanced string could have there; none in balanced strings"
    source = "Lengthwise; the language: Chomsky & Schützenberger 1963, The algebraic theory of context-free languages"
    deviations = "none: how strings are drawn, and what is not balanced, is defined here"
    prediction = (
        "One kind: counting is enough, as transformers were measured to learn (Bhattamishra et al. 2020)"
    )

    def __init__(self, *, kinds: int = 2, depth: int | None = None) -> None:
        super().__init__(kinds, depth)
        self.answer_symbols = ("no", "yes")
        self.symbols = (*self.brackets, *self.answer_symbols)

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        strings, inputs = self.draw(lengths, generator)
        one, other, wrong = _exchange(strings, generator)
        label = generator.integers(0, 2, size=len(lengths))
        b = np.flatnonzero(label == 0)
        inputs[b, one[b]], inputs[b, other[b]] = inputs[b, other[b]], inputs[b, one[b]]
        return label_examples(inputs, lengths, len(self.brackets) + label, np.where(label, -1, wrong))

    def baselines(self, length: int) -> dict[str, float]:
        """An exchange keeps the bag, so bags are equally likely under both labels."""
        return {"uniform": 0.5, "position_only": 0.5, "bag_optimal": 0.5}


def _exchange(strings: Brackets, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two places (B,) to exchange in each string, and the first (B,) that is wrong after that; see the task card."""
    opening, closing = strings.steps > 0, strings.steps < 0
    after, none = slice(1, None), np.zeros((len(opening), 1), dtype=bool)

    def shifted(values: np.ndarray) -> np.ndarray:
        """What stands one place further right."""
        return np.concatenate([values[:, after], none], axis=1)

    differ = np.concatenate([strings.kinds[:, after] != strings.kinds[:, :-1], none], axis=1)
    differ &= shifted(strings.steps != 0)
    inner = opening & shifted(opening) & shifted(shifted(opening))
    inner |= np.concatenate([none, closing[:, :-1]], axis=1) & closing & shifted(closing)
    chance = generator.random(differ.shape)
    one = np.where(differ, chance + (differ & inner), -1.0).argmax(
        axis=1
    )  # an inner one wherever there is one
    rows, mixed = np.arange(len(one)), differ.any(axis=1)
    one = np.where(mixed, one, np.where(opening & (strings.levels == 1), chance, -1.0).argmax(axis=1))
    other = np.where(mixed, one + 1, strings.partner[rows, one])
    behind = np.minimum(one + 1, opening.shape[1] - 1)
    crossed = np.where(
        opening[rows, one], strings.partner[rows, behind], np.where(opening[rows, behind], one + 1, one)
    )
    return one, other, np.where(mixed, crossed, one)


class DyckNext(_Dyck):
    """Task card: dyck_next."""

    name = "dyck_next"
    answer_format = "per_token"
    causal = True
    definition = (
        "Balanced strings as in dyck. The answer at each symbol says which symbols a balanced string (at most "
        "`depth` deep, where that is set) may have next: a closing bracket such as `)` for that one or any "
        "opening bracket, `open` for opening brackets only, where all are closed, and, where `depth` are "
        "open, `!)` for that one alone."
    )
    worked = (("( )", ") open"), ("( [ ] )", ") ] ) open"), ("[ ] ( ( ) )", "] open ) ) ) open"))
    symmetry = Symmetry("a permutation of the kinds", "the same permutation of the kinds")
    evidence_meaning = "none: each answer has its own position"
    source = "Lengthwise, after Suzgun et al. 2019, LSTM networks can perform dynamic counting"
    deviations = "one symbol for each set of legal symbols, instead of several bits; strings are uniform"
    prediction = (
        "One kind: counting is enough, as transformers were measured to learn (Bhattamishra et al. 2020)"
    )

    def __init__(self, *, kinds: int = 2, depth: int | None = None) -> None:
        super().__init__(kinds, depth)
        closing = self.brackets[1::2]
        only = () if self.depth is None else tuple(f"!{bracket}" for bracket in closing)
        self.answer_symbols = ("open", *closing, *only)
        self.symbols = (*self.brackets, "open", *only)

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        strings, inputs = self.draw(lengths, generator)
        heights, nothing_open = strings.heights, len(self.brackets)
        kind = np.take_along_axis(strings.kinds, strings.enclosing() * (heights > 0), axis=1)
        answers = np.where(heights > 0, 2 * kind + 1, nothing_open)
        if self.depth is not None:
            answers = np.where(heights == self.depth, nothing_open + 1 + kind, answers)
        answers *= real_places(lengths)
        return Examples(inputs, lengths, answers, lengths, no_evidence(lengths))
