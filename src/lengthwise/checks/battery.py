"""The ten properties, and the declared facts, of a part of a model: both shapes, one to twelve heads."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from lengthwise.build import build
from lengthwise.checks.hooks import check_hooks
from lengthwise.checks.verdicts import NotApplicable, Report
from lengthwise.evaluation.low_precision import low_precision
from lengthwise.evaluation.properties import PROPERTIES, PropertyError, fill_tables, make_batch
from lengthwise.nn import (
    ALiBi,
    Decoder,
    Encoder,
    FeedForward,
    MultiHeadAttention,
    NoPosition,
    Placement,
    PositionEncoding,
    Rotary,
    Sizes,
)
from lengthwise.nn.init import keyed_rng
from lengthwise.nn.position.contract import ALL_SYMMETRIES
from lengthwise.scorecard import wrong_distinct_until

MODEL_SLOTS = {
    "pe": "position",
    "attention": "attention",
    "norm": "norm",
    "norm_layer": "norm_layer",
    "activation": "activation",
    "init": "init",
}
"""Slot -> the option of the model that it fills."""

HEADS = (1, 4, 6, 12)
WIDTH, SYMBOLS = 24, 11
_SHAPES: dict[str, Any] = {"encoder": Encoder, "decoder": Decoder}
_WITH = {"none": NoPosition, "rotary": Rotary, "alibi": ALiBi}
"""The encodings beside which another part is tried out."""

_SYMMETRY_OF = {"equivariance": "permutation", "reversal": "reversal", "shift": "translation"}
_LONGEST_TABLE = 4096
_NORMS = (torch.nn.LayerNorm, torch.nn.RMSNorm)
_OWNERS: dict[str, Any] = {
    "pe": PositionEncoding,
    "attention": MultiHeadAttention,
    "norm": (Placement, *_NORMS),
    "norm_layer": _NORMS,
    "activation": FeedForward,
}

Model = Encoder | Decoder


class _Models:
    """The models with the part in its slot, by (shape, heads, encoding), and why the others are refused."""

    def __init__(self, slot: str, node: dict[str, Any]) -> None:
        self.slot, self.node = slot, node
        self.built: dict[tuple[str, int, str], Model] = {}
        self.refused: dict[tuple[str, int, str], str] = {}
        for shape in _SHAPES:
            for heads in HEADS:
                for beside in ["none"] if slot == "pe" else _WITH:
                    key = (shape, heads, beside)
                    try:
                        model = self.model(*key).double()
                    except ValueError as error:  # how parts say that they do not go together
                        self.refused[key] = str(error)
                    else:
                        self.built[key] = fill_tables(model).eval()

    def model(
        self, shape: str, heads: int, beside: str = "none", *, seed: int = 0, usual: bool = False
    ) -> Model:
        """A new one; `usual` leaves the part out. Raises ValueError where it is refused."""
        parts: dict[str, Any] = {"position": _WITH[beside]}
        if not usual:
            parts[MODEL_SLOTS[self.slot]] = build(self.slot, self.node)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model: Model = _SHAPES[shape](
                SYMBOLS, width=WIDTH, layers=1, heads=heads, mlp_ratio=1.0, seed=seed, **parts
            )
        return model

    def each(self, *, causal_only: bool = False) -> Iterator[tuple[str, Model]]:
        for (shape, heads, beside), model in self.built.items():
            if shape == "decoder" or not causal_only:
                yield _words(shape, heads, beside, self.slot), model


_ROWS = [
    *(name.replace("_", " ") for name in PROPERTIES), "low precision", "declared facts", "gradients", "initial values",
]  # fmt: skip


def check_model(report: Report, slot: str, node: dict[str, Any]) -> str | None:
    """Add the rows of a part of the model; returns the one without which the others mean nothing, where that fails."""
    rows = [name for name in _ROWS if slot == "pe" or name not in ("low precision", "declared facts")]
    if slot == "pe" and not report.add("hooks", partial(_hooks, node)):
        report.skip(["builds", *rows], "hooks")
        return "hooks"
    found: list[_Models] = []

    def builds() -> str:
        found.append(_Models(slot, node))
        return _legal(found[0])

    if not report.add("builds", builds):
        report.skip(rows, "builds")
        return "builds"
    models = found[0]
    for name, holds in PROPERTIES.items():
        report.add(name.replace("_", " "), partial(_everywhere, models, name, holds))
    if slot == "pe":
        report.add("low precision", partial(_low_precision, models))
        report.add("declared facts", partial(_facts, models))
    report.add("gradients", partial(_gradients, models))
    report.add("initial values", partial(_initial_values, models))
    return None


def _hooks(node: dict[str, Any]) -> str:
    sizes = [Sizes(WIDTH, heads, causal=shape == "decoder") for shape in _SHAPES for heads in HEADS]
    return check_hooks(build("pe", node), sizes)


def _words(shape: str, heads: int, beside: str, slot: str) -> str:
    with_encoding = "" if slot == "pe" else f", pe={beside}"
    return f"{shape}, {heads} head{'s' if heads > 1 else ''}{with_encoding}"


def _legal(models: _Models) -> str:
    """Where it can be built, in words. Raises PropertyError where that is nowhere."""
    if not models.built:
        raise PropertyError(f"no model can be built with it: {next(iter(models.refused.values()))}")
    shapes = []
    for shape in _SHAPES:
        heads = sorted({h for s, h, _ in models.built if s == shape})
        if heads:
            shapes.append(f"{shape} with {', '.join(map(str, heads))} heads")
    reasons: dict[str, str] = {}
    for key, reason in models.refused.items():
        reasons.setdefault(reason, _words(*key, models.slot))
    return "; ".join([*shapes, *(f"refused ({where}): {reason}" for reason, where in reasons.items())])


def _everywhere(models: _Models, name: str, holds: Callable[[Model], None]) -> str:
    """A property of every model. Raises PropertyError that says in which it fails."""
    if name in _SYMMETRY_OF and models.slot != "pe":  # which may all but wash out what breaks a symmetry
        holds = partial(holds, breaks=1e-9)  # type: ignore[call-arg]
    looked_at = list(models.each(causal_only=name == "causality"))
    if not looked_at:
        raise NotApplicable("no model with it is causal")
    for where, model in looked_at:
        try:
            with torch.no_grad():
                holds(model)
        except PropertyError as error:
            raise PropertyError(f"{where}: {error}") from error
    if name not in _SYMMETRY_OF:
        return ""
    symmetry = _SYMMETRY_OF[name]
    declared = {shape for (shape, _, _), model in models.built.items() if symmetry in model.symmetries}
    shapes = {shape for shape, _, _ in models.built}
    words = [f"holds as declared ({', '.join(sorted(declared))})"] if declared else []
    words += (
        [f"fails, as nothing is declared ({', '.join(sorted(shapes - declared))})"]
        if shapes - declared
        else []
    )
    return "; ".join(words)


def _low_precision(models: _Models) -> None:
    factory = build(models.slot, models.node)
    for shape, heads in dict.fromkeys((shape, heads) for shape, heads, _ in models.built):
        with keyed_rng(0, "check"):
            encoding = factory(Sizes(2 * WIDTH, heads, causal=shape == "decoder"))
        try:
            low_precision(encoding)
        except PropertyError as error:
            raise PropertyError(f"{_words(shape, heads, 'none', 'pe')}: {error}") from error


def _facts(models: _Models) -> str:
    """What an encoding declares beside its symmetries."""
    for where, model in models.each():
        encoding = model.stack.encodings()[0]
        _check_types(encoding)
        if encoding.max_length is not None and encoding.max_length < _LONGEST_TABLE:
            _check_end(model, encoding.max_length, where)
        if model.stack.causal:
            _check_prefix(model, where)
    if (wrong := wrong_distinct_until(models.node)) is not None:
        raise PropertyError(wrong)
    limit = "everywhere" if encoding.max_length is None else f"up to {encoding.max_length} positions"
    said = [f"defined {limit}", "prefix-stable" if encoding.prefix_stable else "not prefix-stable"]
    if not encoding.paper:
        said.append("no paper named")
    return ", ".join(said)


def _check_types(encoding: PositionEncoding) -> None:
    if not frozenset(encoding.symmetries) <= ALL_SYMMETRIES:
        unknown = sorted(set(encoding.symmetries) - ALL_SYMMETRIES)
        raise PropertyError(f"symmetries has {unknown}; there are {', '.join(sorted(ALL_SYMMETRIES))}")
    if encoding.acts_on not in ("embedding", "attention"):
        raise PropertyError(f'acts_on={encoding.acts_on!r}: must be "embedding" or "attention"')
    hooks = {"embedding": ("embed",), "attention": ("rotate", "bias", "score", "read")}[encoding.acts_on]
    used = [hook for hook in ("embed", "rotate", "bias", "score", "read") if encoding.uses(hook)]
    lost = [hook for hook in used if hook not in hooks]
    if lost and encoding.parts() == (encoding,):
        raise PropertyError(f"acts_on={encoding.acts_on!r}, so that {', '.join(lost)} is never called")


def _check_end(model: Model, max_length: int, where: str) -> None:
    """Past the last position there is an error, not a number."""
    for length in (max_length, max_length + 1):
        try:
            with torch.no_grad():
                model(make_batch(model, [length]))
        except ValueError as error:
            if length == max_length:
                raise PropertyError(
                    f"{where}: max_length={max_length}, but that many fail: {error}"
                ) from error
            return
    raise PropertyError(
        f"{where}: max_length={max_length}, but {max_length + 1} positions raise no LengthError"
    )


def _check_prefix(model: Model, where: str) -> None:
    """`prefix_stable` is what is measured: a causal model's outputs do not depend on how much follows."""
    longest = 12 if model.max_length is None else min(12, model.max_length)
    batch = make_batch(model, [longest])
    with torch.no_grad():
        whole = model(batch)[:, : longest // 2]
        part = type(batch)(
            batch.tokens[:, : longest // 2],
            batch.key_mask[:, : longest // 2],
            batch.tokens[:, : longest // 2],
            batch.lengths // 2,
        )
        error = float((whole - model(part)).abs().max())
    if model.prefix_stable and error > 1e-9:
        raise PropertyError(f"{where}: prefix_stable, but what follows moves the outputs by {error:.1e}")


def _gradients(models: _Models) -> str:
    """Every parameter of the part is used, and its gradient is a number."""
    counted = {}
    for where, model in models.each():
        usual = {name for name, _ in models.model(*_key(models, model), usual=True).named_parameters()}
        own = {name: p for name, p in model.named_parameters() if name not in usual}
        counted[where] = sum(p.numel() for p in own.values())
        model.zero_grad()
        model.train()
        model(make_batch(model, [6, 4])).square().sum().backward()
        model.eval()
        for name, parameter in own.items():
            if parameter.requires_grad and parameter.grad is None:
                raise PropertyError(f"{where}: {name} is never used: it gets no gradient")
            if parameter.grad is not None and not parameter.grad.isfinite().all():
                raise PropertyError(f"{where}: the gradient of {name} is not finite")
        model.zero_grad()
    numbers = sorted(set(counted.values()))
    if numbers == [0]:
        return "no parameters of its own"
    return f"{numbers[0]}{f' to {numbers[-1]}' if len(numbers) > 1 else ''} parameters of its own a layer"


def _key(models: _Models, model: Model) -> tuple[str, int, str]:
    return next(key for key, one in models.built.items() if one is model)


def _initial_values(models: _Models) -> str:
    """A function of the seed alone; and where the usual part has the same parameters as well, they are those."""
    for key in models.built:
        where = _words(*key, models.slot)
        one, again = (dict(models.model(*key).named_parameters()) for _ in range(2))
        for name, parameter in one.items():
            if not torch.equal(parameter, again[name]):
                raise PropertyError(
                    f"{where}: {name} is not the same in two models built with one seed: draw with torch, or say "
                    "how in `initial`"
                )
        usual = models.model(*key, usual=True)
        inside = _inside(usual, models.slot)
        for name, parameter in usual.named_parameters():
            same = name in one and one[name].shape == parameter.shape
            if same and name not in inside and not torch.equal(one[name], parameter):
                raise PropertyError(
                    f"{where}: {name} lies outside the slot, but does not start as without it"
                )
    return "keyed by the seed; equal outside the slot"


def _inside(model: Model, slot: str) -> set[str]:
    """The names of the parameters that belong to a slot."""
    if slot == "init":
        return {name for name, _ in model.named_parameters()}
    owners = _OWNERS[slot]
    return {
        f"{path}.{name}"
        for path, module in model.named_modules()
        if isinstance(module, owners)
        for name, _ in module.named_parameters()
        if slot != "attention" or not name.startswith("position.")
    }
