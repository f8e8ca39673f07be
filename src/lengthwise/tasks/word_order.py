"""Which adjective is negated: the smallest task that needs word order."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.contract import WINDOW, Examples, Symmetry, Task, label_examples, real_places


class WordOrder(Task):
    """Which adjective is negated."""

    name = "word_order"
    answer_format = "label"
    definition = (
        "One `not`, one `good`, one `bad`, the rest independent uniform fillers w0, w1, …; `not` directly precedes "
        "one of the two adjectives, and that adjective is the label. The place of `not` is uniform over 0…n-2, that "
        "of the other adjective uniform over the n-2 places left, also right before `not` or right after the negated "
        "one: exactly one symbol follows `not`. Test items come in twins: exchanging `good` and `bad` keeps the bag "
        "and flips the label, so that an order-blind model scores exactly one half."
    )
    worked = (("w1 not good bad", "good"), ("bad not good", "good"), ("good w3 w0 not bad w7", "bad"))
    symmetry = Symmetry("exchange the symbols good and bad", "exchange the labels good and bad")
    evidence_meaning = "position of `not`"
    source = "Lengthwise"
    deviations = "none: defined here"
    has_twins = True
    min_length = 3

    def __init__(self, *, fillers: int = 8) -> None:
        self.fillers = self.integer_option("fillers", fillers, 1, 4096)
        self.symbols = (*(f"w{i}" for i in range(self.fillers)), "not", "good", "bad")
        self.answer_symbols = ("good", "bad")
        self.neutral_symbols = self.symbols[: self.fillers]

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        rows = np.arange(len(lengths))
        negation, good, bad = self.fillers, self.fillers + 1, self.fillers + 2
        inputs = generator.integers(0, self.fillers, size=(len(lengths), lengths.max()))
        inputs[~real_places(lengths)] = 0
        place = generator.integers(0, lengths - 1)
        other = generator.integers(0, lengths - 2)
        other += 2 * (other >= place)  # skip the two places taken by `not` and its adjective
        label = good + generator.integers(0, 2, size=len(lengths))
        inputs[rows, place] = negation
        inputs[rows, place + 1] = label
        inputs[rows, other] = good + bad - label
        return label_examples(inputs, lengths, label, place)

    def neutral_gaps(self, examples: Examples) -> np.ndarray:
        """Anywhere but between `not` and the adjective that it negates, or under that adjective's number."""
        gaps = super().neutral_gaps(examples)
        gaps[np.arange(len(examples)), examples.evidence + 1] = False
        gaps[:, -1] &= examples.evidence + 1 < examples.inputs.shape[1] - 1
        return gaps

    def twin(self, examples: Examples) -> Examples:
        good, bad = self.fillers + 1, self.fillers + 2
        adjectives = examples.inputs >= good
        inputs = np.where(adjectives, good + bad - examples.inputs, examples.inputs)
        return label_examples(
            inputs, examples.lengths, good + bad - examples.answers[:, 0], examples.evidence
        )

    def baselines(self, length: int) -> dict[str, float]:
        known = {"uniform": 0.5, "position_only": 0.5, "bag_optimal": 0.5}
        if length > WINDOW:
            # The window decides the label as soon as it holds one adjective and the place before it; the chance
            # that both adjectives end before that is s (s-1) / ((n-1) (n-2)), s the window's first place.
            start = length - WINDOW
            known["window"] = 1 - 0.5 * start * (start - 1) / ((length - 1) * (length - 2))
        return known
