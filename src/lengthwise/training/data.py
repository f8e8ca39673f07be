"""Batches as pure functions of what they are for.

The *global* batch of optimizer step s is a function of (data seed, split, s) alone. Accumulation and ranks only
slice it: one process and many train on the same sequences, no two ranks share one, and a resumed run continues the
stream at the step it stands at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, IterableDataset

from lengthwise.batch import IGNORE, Batch
from lengthwise.keyed import philox
from lengthwise.tasks.contract import Examples, Task
from lengthwise.tasks.items import validation_items
from lengthwise.tasks.layout import Layout

_BLOCK_STEPS, _BLOCK_ROWS = 16, 2048
"""Steps and examples made at once at most. Which examples a step has depends on both: see RESULTS_VERSION."""

VALIDATION_ROWS = 512
"""Validation sequences in one forward pass, over all ranks together: bounds memory, changes no figure."""


class Share:
    """One rank's share of a batch, on its way through Lightning (which would take a bare dataclass apart)."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def to(self, device: Any) -> Share:
        """All tensors on `device`."""
        moved = copy(self)
        moved.batch = self.batch.to(device)
        return moved


class MicroBatch(Share):
    """A share of one of the micro-batches that make up an optimizer step.

    step: optimizer step it belongs to; index: its place among the `count` micro-batches of that step;
    answer_tokens: scored targets of the whole step, over all micro-batches and ranks.
    """

    def __init__(self, batch: Batch, *, step: int, index: int, count: int, answer_tokens: int) -> None:
        super().__init__(batch)
        self.step, self.index, self.count, self.answer_tokens = step, index, count, answer_tokens

    @property
    def last(self) -> bool:
        """Whether the optimizer steps after it."""
        return self.index == self.count - 1


def global_batch(task: Task, layout: Layout, **which: Any) -> Batch:
    """The sequences of one optimizer step as the model sees them; see `global_examples`."""
    key = (which["split"], which["data_seed"], which["step"])
    return layout.training_batch(global_examples(task, **which), *key)


def global_examples(
    task: Task, *, lengths: Sequence[int], batch_size: int, data_seed: int, split: str, step: int
) -> Examples:
    """The `batch_size` examples of one optimizer step, each of a length drawn uniformly from `lengths`."""
    steps = max(1, min(_BLOCK_STEPS, _BLOCK_ROWS // batch_size))
    index, place = divmod(step, steps)
    made = _block(task, tuple(lengths), batch_size * steps, data_seed, split, index)
    return made.rows(slice(place * batch_size, (place + 1) * batch_size))


@lru_cache(maxsize=2)
def _block(
    task: Task, lengths: tuple[int, ...], size: int, data_seed: int, split: str, index: int
) -> Examples:
    """The examples of several steps that follow one another: cheaper made at once than one by one."""
    stream = philox("batches", split, data_seed, index)
    return task.generate(stream.choice(lengths, size=size), stream, split)


def check_divides(batch_size: int, world: int, accumulate: int) -> None:
    """Raises ValueError unless `batch_size` splits into equal shares for every rank and micro-batch."""
    shares = world * accumulate
    if batch_size < 1 or batch_size % shares:
        raise ValueError(
            f"data.batch_size={batch_size} is the batch of one optimizer step, shared by {world} "
            f"device{'s' if world > 1 else ''} (trainer.devices x trainer.nodes) x trainer.accumulate={accumulate}: "
            f"use a multiple of {shares}"
        )


def micro_batches(batch: Batch, step: int, *, rank: int, world: int, accumulate: int) -> Iterator[MicroBatch]:
    """The shares of `rank` in a global batch: disjoint between ranks and micro-batches, equal in size."""
    check_divides(len(batch), world, accumulate)
    size = len(batch) // (world * accumulate)
    answer_tokens = int((batch.targets != IGNORE).sum())
    for index in range(accumulate):
        start = (index * world + rank) * size
        share = batch.rows(slice(start, start + size))
        yield MicroBatch(share, step=step, index=index, count=accumulate, answer_tokens=answer_tokens)


class TrainStream(IterableDataset):
    """An endless stream of micro-batches that begins at the step the trainer stands at."""

    def __init__(self, data: LengthData) -> None:
        self.data = data

    def __iter__(self) -> Iterator[MicroBatch]:
        trainer = self.data.trainer
        assert trainer is not None
        rank, world, accumulate = trainer.global_rank, trainer.world_size, trainer.accumulate_grad_batches
        step = trainer.global_step
        while True:
            batch = self.data.train_batch(step)
            yield from micro_batches(batch, step, rank=rank, world=world, accumulate=accumulate)
            step += 1


def validation_batches(
    task: Task, layout: Layout, *, lengths: Sequence[int], size: int, rank: int = 0, world: int = 1
) -> list[Batch]:
    """This rank's share of the fixed validation set: `size` items spread evenly over `lengths`.

    Each item is counted on exactly one rank. Every rank gets equally many batches (a rank must not enter a
    collective that others skip): where a batch has fewer items than ranks, the surplus ranks get one without
    scored targets.
    """
    lengths = sorted(set(lengths))
    batches = []
    for place, length in enumerate(lengths):
        count = size // len(lengths) + (place < size % len(lengths))
        if count == 0:
            continue
        whole = layout(validation_items(task, length, count), "val", length)
        for start in range(0, len(whole), VALIDATION_ROWS):
            chunk = whole.rows(slice(start, start + VALIDATION_ROWS))
            share = chunk.rows(slice(rank, None, world))
            if len(share) == 0:
                share = chunk.rows(slice(0, 1))
                share = replace(share, targets=torch.full_like(share.targets, IGNORE))
            batches.append(share)
    return batches


class LengthData(pl.LightningDataModule):
    """Training stream and validation set of one run.

    task, layout:    what is learned and how it is shown to the model.
    lengths:         training lengths in input symbols; validation uses the same.
    batch_size:      sequences of one optimizer step, over all ranks and micro-batches.
    validation_size: sequences of the validation set.
    repeat_batch:    train on the batch of step 0 for ever (can the model overfit it?).

    Raises ValueError for lengths the task does not have and sizes below 1; `setup` does for a batch size that does
    not divide.
    """

    def __init__(
        self,
        task: Task,
        layout: Layout,
        *,
        lengths: Sequence[int],
        batch_size: int = 32,
        validation_size: int = 1024,
        data_seed: int = 0,
        repeat_batch: bool = False,
    ) -> None:
        super().__init__()
        if not lengths:
            raise ValueError("data.lengths=[] names no training length: give at least one")
        for length in lengths:
            task.check_length(length)
        check_divides(batch_size, 1, 1)
        if validation_size < 1:
            raise ValueError(f"data.validation_size={validation_size} must be at least 1")
        self.task, self.layout = task, layout
        self.lengths = [int(length) for length in lengths]
        self.batch_size, self.validation_size = batch_size, validation_size
        self.data_seed, self.repeat_batch = data_seed, repeat_batch

    def setup(self, stage: str) -> None:
        """Raises ValueError where the batch does not split over ranks and micro-batches."""
        assert self.trainer is not None
        check_divides(self.batch_size, self.trainer.world_size, self.trainer.accumulate_grad_batches)

    def train_batch(self, step: int) -> Batch:
        """The global batch of `step`."""
        return global_batch(
            self.task,
            self.layout,
            lengths=self.lengths,
            batch_size=self.batch_size,
            data_seed=self.data_seed,
            split="train",
            step=0 if self.repeat_batch else step,
        )

    def train_dataloader(self) -> DataLoader:
        # No workers: receiving a ready batch from one costs more than making it here.
        return DataLoader(TrainStream(self), batch_size=None, num_workers=0, collate_fn=_as_it_is)

    def val_dataloader(self) -> DataLoader:
        assert self.trainer is not None
        batches = validation_batches(
            self.task,
            self.layout,
            lengths=self.lengths,
            size=self.validation_size,
            rank=self.trainer.global_rank,
            world=self.trainer.world_size,
        )
        shares = [Share(batch) for batch in batches]
        return DataLoader(shares, batch_size=None, num_workers=0, collate_fn=_as_it_is)  # type: ignore[arg-type]


def _as_it_is(batch: Any) -> Any:
    return batch
