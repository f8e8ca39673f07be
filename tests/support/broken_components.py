"""Components that lack one property each: `row` of the check has to fail, and `says` is part of why."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from lengthwise.nn import NoPosition, PositionEncoding, Sinusoidal
from lengthwise.nn.position.distance import DistanceBias
from lengthwise.tasks import Last
from lengthwise.tasks.contract import Examples


class _Bias(DistanceBias):
    """-|n - m|, one slope."""

    symmetries = frozenset({"translation", "reversal"})
    row: ClassVar[str]
    says: ClassVar[str] = ""

    def at(self, offsets: Any, context: Any) -> Any:
        distances = offsets.abs()[..., None, :, :].to(context.precision)
        return (-distances).expand(*distances.shape[:-3], self.sizes.heads, *distances.shape[-2:])


class NeverLegal(_Bias):
    row, says = "builds", "needs a head of its own"

    def __init__(self, sizes: Any) -> None:
        super().__init__(sizes)
        raise ValueError("needs a head of its own")


class ReadsTheBatch(_Bias):
    row, says = "batch independence", "alone and"

    def bias(self, context: Any) -> Any:
        return super().bias(context) * (1 if context.queries_input is None else len(context.queries_input))


class CountsPads(NoPosition):
    row, says = "pad invariance", "with and without pads"
    symmetries = frozenset()

    def embed(self, x: Any, context: Any) -> Any:
        return (
            x
            + torch.randn(x.shape[2], dtype=x.dtype, generator=torch.Generator().manual_seed(0)) * x.shape[1]
        )


class LooksAhead(NoPosition):
    row, says = "causality", "token 3 changes what is before it"

    def embed(self, x: Any, context: Any) -> Any:
        return x + x.roll(-1, 1)


class SeesOnlyItself(_Bias):
    row, says = "not too strict", "does not change the output at"

    def at(self, offsets: Any, context: Any) -> Any:
        return torch.where(offsets[..., None, :, :] == 0, 0.0, float("-inf")) + 0 * super().at(
            offsets, context
        )


class DeclaresTooMuch(Sinusoidal):
    row, says = "equivariance", "permutation is declared, but does not hold"
    symmetries = frozenset({"permutation"})


class DeclaresTooLittle(NoPosition):
    row, says = "equivariance", "permutation is not declared, but holds"
    symmetries = frozenset()


class OneSided(_Bias):
    row, says = "reversal", "reversal is declared, but does not hold"

    def at(self, offsets: Any, context: Any) -> Any:
        return super().at(offsets.clamp(min=0), context)


class Squares(_Bias):
    row, says = "shift", "translation is declared, but does not hold"

    def bias(self, context: Any) -> Any:
        keys, queries = context.key_numbers()[:, None, :], context.query_numbers()[:, :, None]
        return self.at(keys**2 - queries**2, context)


class Remembers(_Bias):
    row, says = "history independence", "before and after a longer input"
    longest = 0

    def bias(self, context: Any) -> Any:
        self.longest = max(self.longest, context.num_keys)
        return super().bias(context) / self.longest


class DiffersInTraining(_Bias):
    row, says = "path agreement", "train() without dropout and of eval()"

    def bias(self, context: Any) -> Any:
        return super().bias(context) * (1.0 if self.training else 1.5)


class RoundedPhases(Sinusoidal):
    row, says = "low precision", "in bfloat16"

    def vectors(self, numbers: Any, context: Any, dtype: Any) -> Any:
        wanted = torch.bfloat16 if torch.is_autocast_enabled("cpu") else dtype
        return super().vectors(numbers.to(wanted), context, dtype)


class EndsEarly(NoPosition):
    row, says = "declared facts", "raise no LengthError"
    max_length = 50


class HookInVain(NoPosition):
    row, says = "declared facts", "is never called"
    acts_on = "embedding"

    def bias(self, context: Any) -> Any:
        return None


class UnusedTable(_Bias):
    row, says = "gradients", "is never used"

    def __init__(self, sizes: Any) -> None:
        super().__init__(sizes)
        self.position_table = torch.nn.Embedding(4, 4)


class DrawsFromNumpy(NoPosition):
    row, says = "initial values", "two models built with one seed"

    def __init__(self, sizes: Any) -> None:
        super().__init__(sizes)
        self.factor = torch.nn.Parameter(torch.tensor(np.random.default_rng().standard_normal(sizes.width)))

    def embed(self, x: Any, context: Any) -> Any:
        return x * self.factor.to(x.dtype)


class Raises(PositionEncoding):
    row, says = "causality", "ZeroDivisionError"

    def bias(self, context: Any) -> Any:
        return 1 / 0


ENCODINGS = [
    NeverLegal, ReadsTheBatch, CountsPads, LooksAhead, SeesOnlyItself, DeclaresTooMuch, DeclaresTooLittle, OneSided,
    Squares, Remembers, DiffersInTraining, RoundedPhases, EndsEarly, HookInVain, UnusedTable, DrawsFromNumpy, Raises,
]  # fmt: skip


class BiasOfOneHead(PositionEncoding):
    def bias(self, context: Any) -> Any:
        return -context.offsets()[0].abs().float()


class OneTensor(PositionEncoding):
    def rotate(self, q: Any, k: Any, context: Any) -> Any:
        return q


class EmbedsNothing(PositionEncoding):
    acts_on = "embedding"

    def embed(self, x: Any, context: Any) -> Any:
        x.add(1)


class NoEncoding(torch.nn.Module):
    def __init__(self, sizes: Any) -> None:
        super().__init__()


class Logarithm(_Bias):
    """-ln(1 + |n - m|)."""

    def at(self, offsets: Any, context: Any) -> Any:
        return -(1 - super().at(offsets, context)).log()


class OtherDefault(PositionEncoding):
    def __init__(
        self, sizes: Any, *, sides: str = "symmetric", share: bool = True, cross: bool = False
    ) -> None:
        super().__init__(sizes)


class Forgetful(NoPosition):
    """Something that every call in training moves on, and no checkpoint holds."""

    calls = 0

    def embed(self, x: Any, context: Any) -> Any:
        self.calls += self.training
        return x * (1 + 0.1 * self.calls)


class _Task(Last):
    row: ClassVar[str]


class SaysNothing(_Task):
    row, source = "declared facts", ""


class TooShort(_Task):
    row = "lengths"

    def check_length(self, length: int) -> None:
        return


class Untidy(_Task):
    row = "examples"

    def sample(self, lengths: Any, generator: Any, split: str) -> Examples:
        drawn = super().sample(lengths, generator, split)
        drawn.inputs[drawn.inputs == 0] = 1
        return drawn


class OwnStream(_Task):
    row = "keyed"

    def sample(self, lengths: Any, generator: Any, split: str) -> Examples:
        return super().sample(lengths, np.random.default_rng(), split)


class Loops(_Task):
    row = "vectorised"

    def sample(self, lengths: Any, generator: Any, split: str) -> Examples:
        assert all(length > 0 for length in lengths.tolist())
        return super().sample(lengths, generator, split)


class NoTwin(_Task):
    row, has_twins = "twins", True

    def twin(self, examples: Examples) -> Examples | None:
        return None


class Boasts(_Task):
    row = "baselines"

    def baselines(self, length: int) -> dict[str, float]:
        return {"uniform": 1.5}


TASKS = [SaysNothing, TooShort, Untidy, OwnStream, Loops, NoTwin, Boasts]
