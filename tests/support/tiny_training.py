"""A run small enough for a test: a task, a model of three layers that uses dropout, and what `fit` needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.batch import Batch
from lengthwise.runs.tables import read_table
from lengthwise.tasks.layout import Layout
from lengthwise.tasks.majority import Majority
from lengthwise.tasks.word_order import WordOrder
from lengthwise.training import LengthData, LengthModule, TrainerOptions
from lengthwise.training.callbacks import Checkpoints, Recorder
from lengthwise.training.optim import adamw
from lengthwise.training.schedules import Cosine


class TinyModel(nn.Module):
    """Each position sees itself and the mean of the real ones: enough to learn something, quick to train."""

    def __init__(self, vocabulary_size: int, width: int = 16, dropout: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.hidden = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, vocabulary_size)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.3, generator=generator)
        nn.init.zeros_(self.hidden.bias)
        nn.init.zeros_(self.output.bias)

    def forward(self, batch: Batch) -> Tensor:
        x = self.embedding(batch.tokens)
        real = batch.key_mask.unsqueeze(-1).to(x.dtype)
        mean = (x * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
        x = self.hidden(torch.cat([x, mean.expand_as(x)], -1)).relu()
        return self.output(self.dropout(self.norm(x)))


def tiny_data(task: str = "majority", **options: Any) -> LengthData:
    chosen = {"majority": Majority, "word_order": WordOrder}[task]()
    lengths = [5, 7, 9] if task == "majority" else [4, 5, 6]
    settings: dict[str, Any] = {"lengths": lengths, "batch_size": 16, "validation_size": 33, **options}
    return LengthData(chosen, Layout(chosen, "encoder", "front"), **settings)


def tiny_module(data: LengthData, *, dropout: float = 0.0, lr: float = 3e-3, **options: Any) -> LengthModule:
    model = TinyModel(len(data.layout.vocabulary), dropout=dropout)
    options.setdefault("schedule", Cosine(warmup_steps=5))
    return LengthModule(
        model,
        eos=data.layout.vocabulary.eos,
        optimizer=lambda model: adamw(model, lr=lr),
        config={"model": {"width": 16}},
        **options,
    )


def tiny_options(**options: Any) -> TrainerOptions:
    settings: dict[str, Any] = {
        "max_steps": 20,
        "accelerator": "cpu",
        "log_every": 2,
        "validate_every": 5,
        "checkpoint_every": 4,
        **options,
    }
    return TrainerOptions(**settings)


def tiny_callbacks(folder: Path, *, log_every: int = 2, checkpoint_every: int = 4) -> list[Any]:
    return [
        Recorder(folder / "train.csv", every=log_every),
        Checkpoints(folder / "checkpoints", every=checkpoint_every),
    ]


def rows(folder: Path) -> list[dict[str, Any]]:
    """What the run in `folder` recorded."""
    return read_table(folder / "train.csv")
