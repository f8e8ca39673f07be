"""The sequences that a certificate is measured on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lengthwise.batch import Batch
from lengthwise.keyed import philox

if TYPE_CHECKING:
    from lengthwise.tasks.contract import Task
    from lengthwise.tasks.layout import Layout


@dataclass(frozen=True)
class Sample:
    """x and x′, as many sequences of one length each and independent of each other.

    columns: (n,) positions of the input symbols (in `source` for an encoder-decoder).
    symbols: token ids are below it.
    key:     names the streams that the actions draw from.
    """

    x: Batch
    other: Batch
    columns: Tensor
    symbols: int
    key: tuple[Any, ...]

    def to(self, device: torch.device) -> Sample:
        """All tensors on `device`."""
        return replace(
            self, x=self.x.to(device), other=self.other.to(device), columns=self.columns.to(device)
        )


def task_sample(task: Task, layout: Layout, length: int, sequences: int) -> Sample:
    """Examples of a task with `length` input symbols, the same for every model."""
    key = ("symmetry", task.identity, length)
    examples = task.generate(np.full(2 * sequences, length), philox(*key, "sequences"))
    both = layout(examples, *key)
    return Sample(
        both.rows(slice(0, sequences)),
        both.rows(slice(sequences, None)),
        layout.input_start + torch.arange(length),
        len(layout.vocabulary),
        key,
    )
