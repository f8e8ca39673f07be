"""What a task is: examples, their symmetry, their baselines, and the base class that every task extends.

Letters in shapes: B examples, n input symbols (the longest of the call), m answer symbols, D_in numbers per patch.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from lengthwise.tasks.estimated import KINDS, estimated_baselines

SPLITS = ("train", "val", "test")
ANSWER_FORMATS = ("label", "per_token", "sequence")

WINDOW = 21
"""Tokens that the `window` baseline sees: 2 * 10 + 1, what lies within ten steps of a position."""

BLIND = ("uniform", "position_only", "token_only", "bag_optimal", "remaining_bag", "previous_only")
"""Baselines that do not use the order of the input."""

TEACHER_FORCED = ("remaining_bag", "previous_only")
"""Baselines that know the true answer so far: only of a model that is given it."""


@dataclass(frozen=True)
class Examples:
    """B examples of mixed lengths; places past an example's own length hold 0.

    inputs:         (B, n) int64 symbol ids (all 0 where the inputs are features).
    lengths:        (B,) int64 number of input symbols.
    answers:        (B, m) int64 symbol ids.
    answer_lengths: (B,) int64.
    evidence:       (B,) int64 input position (from 0) that decides the answer, -1 = no single one.
    features:       (B, n, D_in) float32, or None.
    """

    inputs: np.ndarray
    lengths: np.ndarray
    answers: np.ndarray
    answer_lengths: np.ndarray
    evidence: np.ndarray
    features: np.ndarray | None = None

    def __len__(self) -> int:
        return self.inputs.shape[0]

    def rows(self, index: slice | np.ndarray) -> Examples:
        """The examples selected by `index`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value[index] for name, value in values.items() if value is not None})


def concatenate(parts: Sequence[Examples]) -> Examples:
    """All examples of `parts` in order; the parts are as wide as each other (e.g. all of one length)."""
    columns: dict[str, Any] = {}
    for field in fields(Examples):
        values = [getattr(part, field.name) for part in parts]
        columns[field.name] = None if values[0] is None else np.concatenate(values)
    return Examples(**columns)


def interleave(first: Examples, second: Examples) -> Examples:
    """first[0], second[0], first[1], second[1], …"""
    order = np.arange(2 * len(first)).reshape(2, -1).T.ravel()
    return concatenate([first, second]).rows(order)


@dataclass(frozen=True)
class Symmetry:
    """A pair: acting so on the input acts so on the answer ("invariant / equivariant" is too coarse).

    P is any permutation of the positions, J their reversal.
    """

    on_input: str
    on_answer: str


class Task:
    """Base of all tasks. One file and one subclass make a task:

    class fields describe it (below), the constructor takes its options as keywords and keeps each in an attribute of
    the same name (so `identity` finds it), and `sample`, `answer_length`, `baselines` do the work.
    Its docstring is the task card: definition, source, symmetry, evidence, format, known deviations.

    symbols:          names of the ids 0…S-1, inputs and answers together.
    answer_symbols:   the subset that answers are made of.
    answer_format:    "label" (one answer), "per_token" (one per input symbol) or "sequence".
    causal:           per_token only: answer t depends on inputs 0…t alone.
    causal_only:      per_token only, causal: later inputs give the answer away (the next symbol), so that no model may
                      see them.
    partly_scored:    per_token only: answers that are IGNORE are not scored.
    of_this_machine:  symbols, lengths and baselines come from a file that differs between machines.
    variable_answers: sequence only: how long an answer is does not follow from the input's length alone.
    definition:       what it is, precise enough to be written again; prediction: what is known of its generalising.
    worked:           three examples from the definition, (input symbols, answer symbols), each joined by spaces; a
                      place without an answer is a dot.
    feature_dim:      numbers per input where the inputs are features, else None.
    neutral_symbols:  subset of `symbols` that change no answer where `neutral_gaps` lets them stand.
    has_twins:        `twin` pairs each example with one of the same bag of inputs and another label.
    number_kinds:     which position numbers of its own it can give (`position_numbers`): "coupled", "index".
    """

    name: ClassVar[str]
    answer_format: ClassVar[str]
    symmetry: ClassVar[Symmetry]
    evidence_meaning: ClassVar[str]
    source: ClassVar[str]
    deviations: ClassVar[str]
    causal: ClassVar[bool] = False
    causal_only: ClassVar[bool] = False
    partly_scored: ClassVar[bool] = False
    of_this_machine: ClassVar[bool] = False
    variable_answers: ClassVar[bool] = False
    definition: ClassVar[str] = ""
    worked: ClassVar[tuple[tuple[str, str], ...]] = ()
    prediction: ClassVar[str] = ""
    has_twins: ClassVar[bool] = False
    number_kinds: ClassVar[tuple[str, ...]] = ()

    symbols: tuple[str, ...]
    answer_symbols: tuple[str, ...]
    neutral_symbols: tuple[str, ...] = ()
    feature_dim: int | None = None
    min_length: int = 1
    max_length: int | None = None

    # -- what a subclass writes

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        """One example for each of `lengths` (B,), vectorised. Only tasks on fixed data look at `split`."""
        raise NotImplementedError

    def answer_length(self, length: int) -> int:
        """Number of answer symbols (end symbol excluded) for `length` input symbols; the most there can be, where it
        varies."""
        return 1 if self.answer_format == "label" else length

    def tests_what_is_trained(self, length: int) -> bool:
        """Whether test items of this many symbols are drawn as training sequences of that length are."""
        return True

    def baselines(self, length: int) -> dict[str, float]:
        """Token accuracy (end symbol excluded) of rules that do not do the task, at `length`; where they apply:

        uniform        a random answer symbol.
        position_only  the best answer from the length and the place in the answer.
        token_only     the best answer from the token at the place and the length (per_token).
        bag_optimal    the best answer from the bag of input tokens, the own token and the place; 1 = order-free task.
        remaining_bag  as bag_optimal, and the answer so far is known (teacher forcing; sequence).
        previous_only  the best answer from the answer symbol before and the place (teacher forcing; sequence).
        window         the answer from the nearest `WINDOW` tokens: the last ones for a label, those around for
                       per_token. Only where the input is longer than the window.

        A task without formulas has what is measured on samples, see `beside_measured`.
        """
        return self.beside_measured({}, length)

    def beside_measured(self, known: Mapping[str, float], length: int) -> dict[str, float]:
        """`known`, from formulas, and of the rules that have none what `estimated_baselines` measures."""
        known = {"uniform": 1.0 / len(self.answer_symbols), **known}
        others = [name for name in KINDS if name not in known]
        return {**estimated_baselines(self, length, others, known), **known}

    def twin(self, examples: Examples) -> Examples | None:
        """Each example's twin (same bag of inputs, other label), or None."""
        return None

    def position_numbers(
        self, examples: Examples, answer_width: int, kind: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers from 1 (0 = none) of the input symbols (B, n) and of an answer's `answer_width` places (B, m).

        An answer's may depend on the inputs, never on the answer itself. Only of tasks with `number_kinds`.
        """
        raise NotImplementedError

    def highest_number(self, length: int, kind: str) -> int:
        """The largest of `position_numbers` at `length`."""
        return max(length, self.answer_length(length))

    def neutral_gaps(self, examples: Examples) -> np.ndarray:
        """(B, n + 1) bool: gap j is in front of input j, gap n behind the last.

        True where any number of `neutral_symbols` may stand, each with the position number of input j (in gap n of
        input n-1), and the answer stays the right one by the order of the symbols and by their numbers. All examples
        are of one length. Everywhere, unless a task says otherwise.
        """
        return np.ones((len(examples), examples.inputs.shape[1] + 1), dtype=bool)

    def fixed_items(self, split: str) -> Examples | None:
        """All held-out examples of a task whose data are finite; None where they are generated."""
        return None

    def whole_test(self, length: int) -> dict[str, Examples] | None:
        """The test at `length` where it is one whole, of which fewer items would be another test: stratum -> items,
        "all" first, then other ways to see the same data. None where as many items are drawn as are asked for."""
        return None

    def legal_length(self, length: int) -> str | None:
        """None if `length` (within min_length…max_length) is legal, else what is legal."""
        return None

    # -- what everybody calls

    def generate(self, lengths: np.ndarray, generator: np.random.Generator, split: str = "train") -> Examples:
        """One example for each of `lengths` (B,), in their order.

        Raises ValueError for an illegal length, and for a split other than train, val, test.
        """
        if split not in SPLITS:
            raise ValueError(f"split={split!r} is unknown; use one of {', '.join(SPLITS)}")
        lengths = np.asarray(lengths, dtype=np.int64)
        if lengths.ndim != 1 or not len(lengths):
            raise ValueError(
                f"lengths must be a non-empty list of numbers, not an array of shape {lengths.shape}"
            )
        for length in np.unique(lengths):
            self.check_length(int(length))
        return self.sample(lengths, generator, split)

    def check_length(self, length: int) -> None:
        """Raises ValueError that names what is legal."""
        least, most = self.min_length, self.max_length
        legal: str | None
        if is_integer(length) and least <= length and (most is None or length <= most):
            legal = self.legal_length(int(length))
        elif most is None:
            legal = f"use lengths of at least {least}"
        else:
            legal = f"use length {least}" if least == most else f"use lengths from {least} to {most}"
        if legal is not None:
            raise ValueError(f"task {self.name}: length {length} is not possible; {legal}")

    @property
    def options(self) -> dict[str, Any]:
        """The constructor's keywords and their values. Raises TypeError where one is not kept as an attribute."""
        names = list(inspect.signature(type(self)).parameters)
        lost = [name for name in names if not hasattr(self, name)]
        if lost:
            raise TypeError(f"task {self.name}: keep the options {lost} in attributes of the same name")
        values = {name: getattr(self, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @property
    def identity(self) -> dict[str, Any]:
        """Plain data that names this task among all others: the key of its test items."""
        return {"task": type(self).__name__, **self.options}

    @property
    def answer_ids(self) -> np.ndarray:
        """(A,) int64 ids of `answer_symbols`."""
        ids = {symbol: index for index, symbol in enumerate(self.symbols)}
        return np.array([ids[symbol] for symbol in self.answer_symbols], dtype=np.int64)

    def integer_option(self, option: str, value: Any, least: int, most: int) -> int:
        """`value` if it is an integer within least…most; otherwise ValueError."""
        if not is_integer(value) or not least <= value <= most:
            raise ValueError(
                f"task {self.name}: {option}={value!r} is not possible; use an integer from {least} to {most}"
            )
        return int(value)

    def integers_option(self, option: str, value: Any, least: int, most: int) -> tuple[int, ...]:
        """`value` as a sorted tuple if it is a list of distinct integers within least…most; otherwise ValueError."""
        listed = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
        if (
            not listed
            or not all(is_integer(v) and least <= v <= most for v in value)
            or len(set(value)) < len(value)
        ):
            raise ValueError(
                f"task {self.name}: {option}={value!r} is not possible; use a list of different integers "
                f"from {least} to {most}"
            )
        return tuple(sorted(int(v) for v in value))


def best_blind(baselines: Mapping[str, float]) -> float:
    """The best baseline that ignores the order of the input without solving the task by that: where the bag of the
    inputs (or the own token) is all that the task needs, that rule is no measure of blindness.

    Raises ValueError for a baseline that is no number.
    """
    if wrong := [name for name, value in baselines.items() if value != value]:
        raise ValueError(f"the baselines {', '.join(wrong)} are no numbers")
    solves = ("token_only", "bag_optimal", "remaining_bag")
    return max(v for name, v in baselines.items() if name in BLIND and not (name in solves and v > 1 - 1e-12))


def is_integer(value: Any) -> bool:
    """Whether `value` is an integer number (True and False are not)."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def real_places(lengths: np.ndarray) -> np.ndarray:
    """(B, n) bool, True inside each example's own length."""
    return np.arange(lengths.max())[None, :] < lengths[:, None]


def label_examples(
    inputs: np.ndarray, lengths: np.ndarray, labels: np.ndarray, evidence: np.ndarray | None
) -> Examples:
    """Examples with one answer each. labels (B,), evidence (B,) or None."""
    return Examples(
        inputs=inputs,
        lengths=lengths,
        answers=labels[:, None].astype(np.int64),
        answer_lengths=np.ones_like(lengths),
        evidence=no_evidence(lengths) if evidence is None else evidence.astype(np.int64),
    )


def no_evidence(lengths: np.ndarray) -> np.ndarray:
    """(B,) of -1: no single position decides the answer."""
    return np.full_like(lengths, -1)
