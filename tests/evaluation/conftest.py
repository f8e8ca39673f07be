"""Small models of every shape, and models that cheat in known ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from lengthwise.batch import IGNORE
from lengthwise.nn.position import ALiBi, Binary, Learned, NoPosition, Rotary, Sinusoidal, T5Bias
from lengthwise.nn.transformer import Decoder, Encoder, EncoderDecoder, Inspection

SHAPES = {"encoder": Encoder, "decoder": Decoder, "encoder_decoder": EncoderDecoder}
ENCODINGS = {
    "none": NoPosition,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "binary": Binary,
    "rotary": Rotary,
    "alibi": ALiBi,
    "t5": T5Bias,
}


@pytest.fixture
def build() -> Callable:
    """build(layout, pe="none", trained=…, model options) -> a model that fits `layout`, about 10 k parameters."""

    def build(layout, pe="none", *, trained=12, dropout=0.1, width=32, layers=2, heads=4, **options):
        position = ENCODINGS[pe] if isinstance(pe, str) else pe
        if layout.task.feature_dim is not None:
            options["feature_dim"] = layout.task.feature_dim
        return SHAPES[layout.shape](
            len(layout.vocabulary),
            width=width,
            layers=layers,
            heads=heads,
            dropout=dropout,
            position=position,
            trained_length=trained,
            readout="mean" if layout.readout == "mean" else "token",
            **options,
        )

    return build


class Stub(nn.Module):
    """A model without an encoding; `logits_of(batch)` says what it answers."""

    prefix_stable = True
    symmetries: frozenset[str] = frozenset()

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.scale = nn.Parameter(torch.ones(()))

    def position_flags(self, *positions: int) -> tuple[str, ...]:
        return ()

    def logits_of(self, batch):
        raise NotImplementedError

    def forward(self, batch):
        return self.logits_of(batch) * self.scale

    def inspect(self, batch):
        return Inspection(self(batch), [], [])


class Oracle(Stub):
    """Knows the targets that it is handed."""

    def logits_of(self, batch):
        known = batch.targets.clamp(min=0)
        return 50 * nn.functional.one_hot(known, self.size).float()


class Memory(Stub):
    """Has learned by heart which symbol follows each prefix of a batch: it can answer without seeing the targets."""

    def __init__(self, size: int, batch, prefix_stable: bool) -> None:
        super().__init__(size)
        self.prefix_stable = prefix_stable
        self.next: dict[tuple, int] = {}
        for row in range(len(batch)):
            for place in (batch.targets[row] != IGNORE).nonzero()[:, 0].tolist():
                self.next[self.key(batch, row, place)] = int(batch.targets[row, place])

    @staticmethod
    def key(batch, row, place):
        source = () if batch.source is None else tuple(batch.source.tokens[row].tolist())
        return source, tuple(batch.tokens[row, : place + 1].tolist())

    def logits_of(self, batch):
        logits = torch.zeros(*batch.tokens.shape, self.size)
        for row in range(len(batch)):
            for place in range(batch.tokens.shape[1]):
                known = self.next.get(self.key(batch, row, place))
                if known is not None:
                    logits[row, place, known] = 50.0
        return logits


class Noise(Stub):
    """Uniform over the answer symbols, afresh at every call."""

    def __init__(self, size: int, answers, seed: int = 0) -> None:
        super().__init__(size)
        self.answers = torch.as_tensor(answers)
        self.generator = torch.Generator().manual_seed(seed)

    def logits_of(self, batch):
        shape = batch.targets.shape
        logits = torch.full((*shape, self.size), -1e4)
        logits[..., self.answers] = torch.rand((*shape, len(self.answers)), generator=self.generator)
        return logits


class Wrapped(nn.Module):
    """A real model whose batch or logits a subclass spoils."""

    def __init__(self, model) -> None:
        super().__init__()
        self.model = model

    prefix_stable = property(lambda self: self.model.prefix_stable)
    symmetries = property(lambda self: self.model.symmetries)

    def position_flags(self, *positions):
        return self.model.position_flags(*positions)

    def spoil(self, batch):
        return batch

    def after(self, logits):
        return logits

    def forward(self, batch):
        return self.after(self.model(self.spoil(batch)))

    def inspect(self, batch):
        seen = self.model.inspect(self.spoil(batch))
        return replace(seen, logits=self.after(seen.logits))


class PadsSeen(Wrapped):
    """The mask is forgotten."""

    def spoil(self, batch):
        source = None if batch.source is None else self.spoil(batch.source)
        return replace(batch, key_mask=torch.ones_like(batch.key_mask), source=source)


class BatchMixed(Wrapped):
    """Every sequence feels its batch-mates."""

    def after(self, logits):
        return logits - 3 * logits.roll(1, 0)


class Collapsed(Wrapped):
    """Answers (nearly) the same to everything: symmetric to the eye, by 1 + strength·f(x)."""

    strength = 1e-9

    def after(self, logits):
        return 1 + self.strength * logits


@pytest.fixture
def cheats():
    """The spoilt models by name."""
    kinds = (Oracle, Memory, Noise, PadsSeen, BatchMixed, Collapsed)
    return {kind.__name__: kind for kind in kinds}


@pytest.fixture
def interpolated():
    """The encoding of this house that is not prefix-stable."""
    return partial(Learned, max_length=64, beyond="interpolate")
