"""Which symmetries a model keeps: its certificate.

For an action g on the input, the error is ‖f(gx) − g f(x)‖, divided twice: by ‖f(x)‖, and by ‖f(x) − f(x′)‖ for
an independent x′. The first alone would reward collapse (a nearly constant f looks symmetric); by the second a
model without the symmetry scores about 1, however small its outputs' range.

The model runs in float32 and in float64 copies; g and the difference are applied in float64, without TF32. An
exact symmetry leaves rounding only (about 1e-7 and 1e-16); nothing else is as small in both. Every draw is keyed
by the task, the length and the action, so all runs are measured on the same sequences and permutations.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lengthwise.batch import IGNORE, Batch
from lengthwise.evaluation.actions import (
    PERMUTATIONS,
    Acted,
    among,
    change_after,
    pad,
    permute_inputs,
    prefix,
    reverse_sequence,
    translate,
)
from lengthwise.evaluation.modes import device_of, evaluation_mode, full_precision
from lengthwise.evaluation.sample import Sample, task_sample
from lengthwise.keyed import philox

if TYPE_CHECKING:
    from lengthwise.nn.transformer import Transformer
    from lengthwise.tasks.contract import Task
    from lengthwise.tasks.layout import Layout

Row = dict[str, Any]
Outputs = dict[str, Tensor]

log = logging.getLogger(__name__)

ACTIONS = (*PERMUTATIONS, "whole_reversal", "translation", "padding")
"""What is measured of every run."""

CONTRACTS = ("batch", "causality", "prefix")
"""What a model promises about its batch-mates and about what follows; measured on request."""

ONCE = ("reversal", "whole_reversal", "batch")
"""There is only one of each."""

DTYPES = ("float32", "float64")
REFUSALS = (ValueError, NotImplementedError, RuntimeError)
"""How an encoding says that it has no such positions, or a component that it has no such precision."""


def certificate(
    model: Transformer,
    task: Task,
    layout: Layout,
    *,
    length: int,
    draws: int = 4,
    sequences: int = 8,
    dtypes: Sequence[str] = DTYPES,
    actions: Iterable[str] = ACTIONS,
    per_layer: bool = True,
) -> list[Row]:
    """One row per action, quantity and dtype; the model, its mode and its parameters are left as they were.

    actions: permutations of the input symbols with slots, BOS, SEP and answer in place ("adjacent_swap",
    "reversal", "cyclic_shift", "block", "uniform"); "whole_reversal" of all positions; "translation" of the
    position numbers; "padding", more masked positions with any symbols in them.
    quantity: "inputs", logits at the input positions (equivariance); "answer", logits where the answer is read
    (invariance); "hidden_0" (what the first layer reads), "hidden_1" (what it writes), …, at the input positions.
    On request (`CONTRACTS`): "batch", each sequence alone and between neighbours of other lengths; "causality", later
    symbols exchanged, and "prefix", nothing later there at all: outputs up to a drawn position are compared (of an
    encoder-decoder the decoder's).
    Columns: action, quantity, dtype, length, sequences, draws, error_mean and error_max over draws (of the norm over
    all sequences, relative to ‖f(x)‖), difference_mean and difference_max (relative to ‖f(x) − f(x′)‖), flips (share
    of predictions that change; None for hidden states), flags.
    Flags: "not_defined: why" where the model refuses the action, with None for the figures; "collapsed" where
    ‖f(x) − f(x′)‖ is of the size of rounding, with None for the difference; of "batch" "none_longer" or
    "equal_lengths", where the model refuses other neighbours.

    Raises ValueError for an unknown action or dtype, or a length without two symbols to exchange.
    """
    actions = tuple(actions)
    _check(task, length, draws, sequences, dtypes, actions)
    sample = task_sample(task, layout, length, sequences)
    return certify(model, sample, draws=draws, dtypes=dtypes, actions=actions, per_layer=per_layer)


def certify(
    model: nn.Module,
    sample: Sample,
    *,
    draws: int,
    dtypes: Sequence[str] = DTYPES,
    actions: Iterable[str] = ACTIONS,
    per_layer: bool = False,
) -> list[Row]:
    """The rows of `certificate` on any `sample`, for any module that maps a Batch to logits.

    per_layer needs a module with `inspect`.
    """
    actions = tuple(actions)
    rows: list[Row] = []
    for dtype in dtypes:
        device = device_of(model)
        if device.type == "mps" and dtype == "float64":
            device = torch.device("cpu")  # Apple's GPUs have no float64
        copy = deepcopy(model).to(device=device, dtype=getattr(torch, dtype))
        subject = _Subject(copy, sample.to(device), getattr(torch, dtype), per_layer)
        head = {"dtype": dtype, "length": len(sample.columns), "sequences": len(sample.x)}
        with evaluation_mode(copy), full_precision(device):
            for action in actions:
                rows += [{"action": action, **row, **head} for row in subject.measure(action, draws)]
    return [{name: row[name] for name in COLUMNS} for row in rows]


COLUMNS = (
    "action",
    "quantity",
    "dtype",
    "length",
    "sequences",
    "draws",
    "error_mean",
    "error_max",
    "difference_mean",
    "difference_max",
    "flips",
    "flags",
)


def probe(
    model: Transformer, task: Task, layout: Layout, *, length: int, draws: int = 2, sequences: int = 8
) -> dict[str, float]:
    """`uniform` and `uniform_difference`: two figures cheap enough to log while training.

    The certificate's mean error under uniform permutations in float32, relative to ‖f(x)‖ and to ‖f(x) − f(x′)‖,
    at the input positions, or at the answer where no logits belong to the inputs. Left out where not defined.
    The model is used as it is, without a copy; its mode is put back.
    """
    _check(task, length, draws, sequences, ("float32",), ("uniform",))
    sample = task_sample(task, layout, length, sequences).to(device_of(model))
    subject = _Subject(model, sample, torch.float32, per_layer=False)
    with evaluation_mode(model), full_precision(device_of(model)):
        row = next(subject.measure("uniform", draws))
    figures = {
        "uniform": row["error_mean"],
        "uniform_difference": row["difference_mean"],
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _check(
    task: Task, length: int, draws: int, sequences: int, dtypes: Sequence[str], actions: Sequence[str]
) -> None:
    task.check_length(length)
    if length < 2:
        raise ValueError(f"a symmetry needs at least two symbols to exchange, got length={length}")
    if draws < 1 or sequences < 1:
        raise ValueError(f"draws={draws} and sequences={sequences} must both be at least 1")
    for kind, given, known in (("action", actions, ACTIONS), ("dtype", dtypes, DTYPES)):
        for name in given:
            if name not in (*known, *(CONTRACTS if kind == "action" else ())):
                raise ValueError(f"unknown {kind} {name!r}; known are {', '.join(known)}")


class _Subject:
    """One model in one precision, with the sequences x and x′ that it is measured on."""

    def __init__(self, model: Any, sample: Sample, dtype: torch.dtype, per_layer: bool) -> None:
        self.model, self.per_layer, self.epsilon = model, per_layer, torch.finfo(dtype).eps
        self.x, self.other, self.columns = sample.x, sample.other, sample.columns
        self.symbols, self.key = sample.symbols, sample.key
        self.width = self.x.tokens.shape[1]
        self.reference: tuple[Outputs, Outputs] | None = None

    def measure(self, action: str, draws: int) -> Iterator[Row]:
        """The rows of one action; a refusal by the model becomes a row without figures."""
        if action in ONCE:
            draws = 1
        if action in ("causality", "prefix") and not self._cuts():
            return
        try:
            if self.reference is None:
                self.reference = self._outputs(self.x), self._outputs(self.other)
            expected, flags = self.reference[0], list[str]()
            if action == "batch":
                acted, found, flags = self._between()
                expected = self._alone()
            else:
                acted = [self._act(action, draw) for draw in range(draws)]
                found = [self._outputs(one.batch) for one in acted]
        except REFUSALS as refusal:
            reason = str(refusal).split("\n")[0]
            log.warning("%s is not measured: %s", action, reason)
            yield _row("logits", 0, [], [], [], [f"not_defined: {reason}"])
            return
        for quantity in self._quantities():
            if any(self._where(quantity, one).any() for one in acted):
                yield self._compare(quantity, acted, found, expected, flags)

    def _act(self, action: str, draw: int) -> Acted:
        generator = philox(*self.key, action, draw)
        length = len(self.columns)
        if action in PERMUTATIONS:
            return permute_inputs(self.x, self.columns, PERMUTATIONS[action](length, generator))
        if action == "whole_reversal":
            return reverse_sequence(self.x)
        if action in ("causality", "prefix"):
            last = int(generator.choice(self._cuts()))
            if action == "prefix":
                return prefix(self.x, last)
            return change_after(self.x, last, self.symbols, generator)
        count = int(generator.integers(1, length + 1))
        if action == "translation":
            return translate(self.x, count)
        return pad(self.x, count, self.symbols, generator)

    def _cuts(self) -> range:
        """Where a sequence may be cut: something to compare before, something real behind."""
        first = 0 if self.x.source is not None else int(self.columns[0])
        return range(first, int(self.x.key_mask.sum(1).min()) - 1)

    def _alone(self) -> Outputs:
        """Of each sequence in a batch of its own."""
        rows = [self._outputs(self.x.rows(slice(row, row + 1))) for row in range(len(self.x))]
        return {name: torch.cat([outputs[name] for outputs in rows]) for name in rows[0]}

    def _between(self) -> tuple[list[Acted], list[Outputs], list[str]]:
        """x among neighbours of other lengths, its outputs there, and a flag where the model takes no longer neighbour
        (its table ends), or none of another length at all (it takes no mask)."""
        count = int(philox(*self.key, "batch", 0).integers(1, len(self.columns) + 1))
        for longer, shorter, flags in (
            (count, True, []), (1, True, []), (0, True, ["none_longer"]), (0, False, ["equal_lengths"])
        ):  # fmt: skip
            acted = among(self.x, longer, shorter, self.symbols, philox(*self.key, "batch", "neighbours"))
            try:
                outputs = self._outputs(acted.batch)
            except REFUSALS:
                if shorter:
                    continue
                raise
            return [acted], [{name: value[1:-1] for name, value in outputs.items()}], flags
        raise AssertionError("the last of them returns or raises")

    def _outputs(self, batch: Batch) -> Outputs:
        """Logits and, per layer, hidden states (the encoder's, where there is one), (B, N or 1, ·) in float64."""
        if self.per_layer:
            inspection = self.model.inspect(batch)
            hidden = inspection.hidden if batch.source is None else inspection.source_hidden
            outputs = {"logits": inspection.logits}
            outputs |= {f"hidden_{layer}": state for layer, state in enumerate(hidden)}
        else:
            outputs = {"logits": self.model(batch)}
        device = torch.device("cpu") if batch.tokens.device.type == "mps" else batch.tokens.device
        return {name: value.to(device=device, dtype=torch.float64) for name, value in outputs.items()}

    def _quantities(self) -> list[str]:
        """What this model and layout have: logits at the inputs, logits at the answer, hidden states."""
        assert self.reference is not None
        logits = self.reference[0]["logits"]
        inputs = self.x.source is None and logits.shape[1] == self.width
        scored = self.x.targets != IGNORE
        if inputs:
            scored = scored.clone()
            scored[:, self.columns] = False  # answers at the inputs are "inputs" already
        names = (["inputs"] if inputs else []) + (["answer"] if scored.any() else [])
        return names + [name for name in self.reference[0] if name != "logits"]

    def _compare(
        self, quantity: str, acted: list[Acted], found: list[Outputs], at_x: Outputs, flags: list[str]
    ) -> Row:
        """at_x: the outputs that those `found` are compared with, once g has moved them."""
        assert self.reference is not None
        name = quantity if quantity.startswith("hidden") else "logits"
        f_x, f_other = self.reference[0][name], self.reference[1][name]
        mask = self._mask(quantity, f_x)
        size, spread = _norm(f_x, mask), _norm(f_x - f_other, mask)
        collapsed = spread <= 100 * self.epsilon * size
        errors, differences, flips = [], [], []
        for one, outputs in zip(acted, found, strict=True):
            index, there = self._index(name, one).to(f_x.device), self._where(quantity, one)
            expected = at_x[name].gather(1, index.unsqueeze(-1).expand(-1, -1, f_x.shape[2]))
            got = outputs[name][:, : index.shape[1]]
            error = _norm(got - expected, there)
            errors.append(error / size if size > 0 else (0.0 if error == 0 else float("inf")))
            if not collapsed:
                differences.append(error / spread)
            if name == "logits" and there.any():
                flips.append(float((got.argmax(-1) != expected.argmax(-1))[there].double().mean()))
        return _row(quantity, len(acted), errors, differences, flips, flags + ["collapsed"] * collapsed)

    def _index(self, name: str, acted: Acted) -> Tensor:
        """Where each compared position of the output `name` was in x, (B, M)."""
        assert self.reference is not None
        index = acted.index if acted.source_index is None or name == "logits" else acted.source_index
        # read from the mean: nothing to move
        return index[:, :1] * 0 if self.reference[0][name].shape[1] == 1 else index

    def _where(self, quantity: str, acted: Acted) -> Tensor:
        """(B, M) True where gx is compared; nowhere where the action says nothing about `quantity`."""
        assert self.reference is not None
        name = quantity if quantity.startswith("hidden") else "logits"
        f_x = self.reference[0][name]
        index = self._index(name, acted).to(f_x.device)
        if acted.until is not None and (
            f_x.shape[1] < self.width or (name != "logits" and self.x.source is not None)
        ):
            return torch.zeros_like(index, dtype=torch.bool)
        there = self._mask(quantity, f_x).gather(1, index)
        if acted.until is None:
            return there
        return there & (torch.arange(index.shape[1], device=there.device) <= acted.until)

    def _mask(self, quantity: str, output: Tensor) -> Tensor:
        """(B, N) True where `output` (B, N, ·) is compared."""
        if quantity == "answer" and output.shape[1] == self.x.targets.shape[1]:
            mask = self.x.targets != IGNORE
            if self.x.source is None:
                mask = mask.index_fill(1, self.columns, False) if output.shape[1] > 1 else mask
        else:
            mask = torch.zeros(output.shape[:2], dtype=torch.bool)
            mask[:, self.columns.cpu()] = True
        return mask.to(output.device)


def _norm(values: Tensor, mask: Tensor) -> float:
    """Frobenius norm over the positions in `mask` (B, N) of `values` (B, N, ·)."""
    return float(torch.linalg.vector_norm(values[mask]))


def _row(
    quantity: str,
    draws: int,
    errors: list[float],
    differences: list[float],
    flips: list[float],
    flags: list[str],
) -> Row:
    def mean(values: list[float]) -> float | None:
        return sum(values) / len(values) if values else None

    return {
        "quantity": quantity,
        "draws": draws,
        "error_mean": mean(errors),
        "error_max": max(errors, default=None),
        "difference_mean": mean(differences),
        "difference_max": max(differences, default=None),
        "flips": mean(flips),
        "flags": ";".join(flags),
    }
