"""A learned table of numbers that the task gives."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from .contract import Context, LengthError, Sizes
from .embedding import EmbeddingEncoding


class Abacus(EmbeddingEncoding):
    """One learned vector a number, for numbers that the task gives: the place of a digit within its own number
    (Abacus), or one shared by the symbols that belong together (position coupling, Cho et al. 2024).

    Number 0 marks what has none, such as signs between numbers; it has a vector too. Needs ``positions=task``, whose
    ``kind`` chooses among the task's numbers and whose ``max_offset`` lets training see larger ones than its lengths
    have.

    max_length: rows of the table.
    Raises LengthError past the table.
    """

    whole_numbers = True
    needs_supplied = True
    paper = "McLeish et al. 2024, Transformers Can Do Arithmetic with the Right Embeddings"

    def __init__(
        self,
        sizes: Sizes,
        *,
        max_length: int = 1024,
        combine: Literal["add", "concat"] = "add",
        dim: int | None = None,
    ) -> None:
        super().__init__(sizes, combine=combine, dim=dim)
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {max_length}")
        self.max_length = max_length
        self.table = nn.Embedding(max_length, self.columns)

    def flags(self, num_positions: int) -> tuple[str, ...]:
        trained = self.sizes.trained_length
        return ("untrained_positions",) if trained is not None and num_positions > trained else ()

    def vectors(self, numbers: Tensor, context: Context, dtype: torch.dtype) -> Tensor:
        if (last := context.last_number()) >= len(self.table.weight):
            raise LengthError(
                f"abacus has vectors for the numbers 0…{len(self.table.weight) - 1}, {last} was asked for: a larger "
                f"max_length would define it"
            )
        return self.table(numbers)
