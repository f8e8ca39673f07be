"""The class of the item with the largest value, out of a set of vectors."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.contract import WINDOW, Examples, Symmetry, Task, real_places


class MaxRetrieval(Task):
    """Task card: max_retrieval."""

    name = "max_retrieval"
    answer_format = "label"
    definition = (
        "n items, each a vector of 1 + `classes` numbers: a value, uniform over [0, 1), and its class, "
        "uniform, as a one-hot vector. The label is the class of the item with the largest value (the first "
        "of equals). The answer slot or the separator is the query that asks."
    )
    worked = (
        ("0.3/c2", "c2"),
        ("0.1/c0 0.7/c4 0.5/c0", "c4"),
        ("0.25/c1 0.5/c3 0.125/c3 0.75/c9", "c9"),
    )
    symmetry = Symmetry("P", "identity")
    evidence_meaning = "position of the item with the largest value"
    source = "variant of the max retrieval of Veličković et al. 2024, softmax is not enough"
    deviations = (
        "a variant: the query is an embedded symbol, without numbers of its own; items and query are not of "
        "one dimension; values and classes as defined here"
    )
    prediction = "Softmax attention spreads out as items are added: accuracy falls past the trained sizes (same source)"

    def __init__(self, *, classes: int = 10) -> None:
        self.classes = self.integer_option("classes", classes, 2, 256)
        self.feature_dim = 1 + self.classes
        self.symbols = tuple(f"c{i}" for i in range(self.classes))
        self.answer_symbols = self.symbols

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        rows = np.arange(len(lengths))
        values = generator.random(real.shape, dtype=np.float32)
        classes = generator.integers(0, self.classes, size=real.shape)
        features = np.zeros((*real.shape, self.feature_dim), dtype=np.float32)
        features[..., 0] = values
        np.put_along_axis(features, 1 + classes[..., None], 1.0, axis=2)
        features *= real[..., None]
        place = np.where(real, values, -1.0).argmax(axis=1)
        return Examples(
            inputs=np.zeros(real.shape, dtype=np.int64),
            lengths=lengths,
            answers=classes[rows, place][:, None],
            answer_lengths=np.ones_like(lengths),
            evidence=place,
            features=features,
        )

    def baselines(self, length: int) -> dict[str, float]:
        chance = 1.0 / self.classes
        known = {"uniform": chance, "position_only": chance, "bag_optimal": 1.0}
        if length > WINDOW:
            inside = (
                WINDOW / length
            )  # the largest lies in the window, of which its own largest is the best guess
            known["window"] = inside + (1 - inside) * chance
        return known
