"""Several encodings at once, and encodings that act in some layers only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from torch import Tensor, nn

from .contract import ALL_SYMMETRIES, Context, PositionEncoding, Sizes
from .none import NoPosition

Factory = Callable[[Sizes], PositionEncoding]


class PositionStack(PositionEncoding):
    """The named `parts` together: those on the embedding one after another, then in each layer those in the attention:
    rotations, the sum of the biases, scores.

    skip_every: k = no part acts in the attention of every k-th layer (the k-th, 2k-th, …).
    layers:     part -> the layers (from 0) in whose attention it acts; a part that is not named acts in all.
    What is kept (symmetries), and what is needed, is what all parts keep and what any needs. A part with share=true is
    one module in all its layers.
    Raises ValueError, with the reason, for parts that make no sense together.
    """

    def __init__(
        self,
        sizes: Sizes,
        *,
        parts: Mapping[str, Factory],
        skip_every: int | None = None,
        layers: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        super().__init__(sizes)
        encodings: dict[str, PositionEncoding] = {}
        in_attention: dict[str, PositionEncoding] = {}
        first_pass = {name: parts[name](sizes) for name in sorted(parts)}
        width = sizes.width
        for (
            name,
            encoding,
        ) in first_pass.items():  # a part that widens the embedding goes before those that read it
            if encoding.acts_on == "embedding":
                encodings[name] = (
                    encoding if width == sizes.width else parts[name](replace(sizes, width=width))
                )
                width = encodings[name].output_width
        for name, encoding in first_pass.items():
            if encoding.acts_on == "attention":
                in_attention[name] = (
                    encoding if width == sizes.width else parts[name](replace(sizes, width=width))
                )
        encodings |= in_attention
        refuse_parts(encodings)
        self.where = _where(list(encodings), list(in_attention), sizes.num_layers, skip_every, layers or {})
        if len(encodings) == 1 and not self.where:
            (name,) = encodings
            raise ValueError(
                f"{_named(name, encodings)} alone, in every layer, needs no stack: choose it as pe itself"
            )
        self._width = width
        self._put_together(encodings)

    def _put_together(self, encodings: Mapping[str, PositionEncoding]) -> None:
        self.encodings = nn.ModuleDict(encodings)
        parts = list(encodings.values())
        self.acts_on = "attention" if any(p.acts_on == "attention" for p in parts) else "embedding"
        self.cross = any(p.cross for p in parts)
        self.prefix_stable = all(p.prefix_stable for p in parts)
        self.symmetries = ALL_SYMMETRIES.intersection(*(p.symmetries for p in parts))
        self.needs_causal = any(p.needs_causal for p in parts)
        self.needs_bidirectional = any(p.needs_bidirectional for p in parts)
        self.reads_positions = any(p.reads_positions for p in parts)
        self.whole_numbers = any(p.whole_numbers for p in parts)
        self.needs_counted = any(p.needs_counted for p in parts)
        self.needs_supplied = any(p.needs_supplied for p in parts)
        self.max_length = min((p.max_length for p in parts if p.max_length is not None), default=None)
        limits = [p.distinct_until for p in parts]
        self.distinct_until = None if None in limits else max(n for n in limits if n is not None)
        self.paper = "; ".join(p.paper for p in parts)

    def _only(self, encodings: Mapping[str, PositionEncoding]) -> PositionStack | None:
        """These parts alone, for one place in the model."""
        if not encodings:
            return None
        some = PositionStack.__new__(PositionStack)
        PositionEncoding.__init__(some, self.sizes)
        some.where, some._width = {}, self._width
        some._put_together(encodings)
        return some

    def parts(self) -> tuple[PositionEncoding, ...]:
        return tuple(self.encodings.values())  # type: ignore[arg-type]

    def named(self) -> dict[str, PositionEncoding]:
        return dict(self.encodings.items())  # type: ignore[arg-type]

    @property
    def output_width(self) -> int:
        return self._width

    def on_embedding(self) -> PositionEncoding | None:
        return self._only({name: p for name, p in self.named().items() if p.acts_on == "embedding"})

    def in_layer(
        self, index: int, first: PositionEncoding, *, across: bool = False
    ) -> PositionEncoding | None:
        assert isinstance(first, PositionStack)
        return self._only(
            {
                name: (first.named()[name] if part.share else part)
                for name, part in self.named().items()
                if part.acts_on == "attention"
                and index in self.where.get(name, (index,))
                and (part.cross or not across)
            }
        )

    def uses(self, hook: str) -> bool:
        return any(part.uses(hook) for part in self.parts())

    def flags(self, num_positions: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(flag for part in self.parts() for flag in part.flags(num_positions)))

    def embed(self, x: Tensor, context: Context) -> Tensor:
        for part in self.parts():
            x = part.embed(x, replace(context, queries_input=x, keys_input=x))
        return x

    def rotate(self, q: Tensor, k: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        for part in self.parts():
            q, k = part.rotate(q, k, context)
        return q, k

    def bias(self, context: Context) -> Tensor | None:
        return _sum([part.bias(context) for part in self.parts()])

    def by_distance(self, context: Context) -> Tensor | None:
        vectors = [part.by_distance(context) for part in self.parts() if part.uses("bias")]
        return None if any(vector is None for vector in vectors) else _sum(vectors)

    def score(self, logits: Tensor, q: Tensor, k: Tensor, context: Context) -> Tensor:
        for part in self.parts():
            logits = part.score(logits, q, k, context)
        return logits

    def read(self, weights: Tensor, context: Context) -> Tensor | None:
        return _sum([part.read(weights, context) for part in self.parts() if part.uses("read")])


def _sum(tensors: Sequence[Tensor | None]) -> Tensor | None:
    present = [tensor for tensor in tensors if tensor is not None]
    return None if not present else sum(present[1:], start=present[0])


def refuse_parts(encodings: Mapping[str, PositionEncoding]) -> None:
    """Raises ValueError for parts that make no sense, alone or together."""
    if not encodings:
        raise ValueError("a stack needs parts: add them as +pe@pe.parts.NAME=OPTION")
    for name, part in encodings.items():
        if isinstance(part, PositionStack):
            raise ValueError(f"part {name} is itself a stack: name its parts here instead")
        if isinstance(part, NoPosition):
            raise ValueError(
                f"part {name} is none, which adds nothing: leave it out (~pe@pe.parts.{name}); for layers without an "
                f"encoding set skip_every or layers"
            )
    for one, other in combinations(encodings, 2):
        if reason := _clash(encodings[one], encodings[other]):
            raise ValueError(
                f"{_named(one, encodings)} and {_named(other, encodings)} do not go together: {reason}"
            )


def _clash(a: PositionEncoding, b: PositionEncoding) -> str | None:
    """Why two encodings make no sense together, or None."""
    if type(a) is type(b):
        return "they are the same encoding, and one of them says all that it can say"
    if a.uses("rotate") and b.uses("rotate"):
        return "both turn queries and keys, and two rotations are one by the sum of their angles"
    for one, other in ((a, b), (b, a)):
        if one.uses("rotate") and other.uses("score"):
            return (
                f"{type(other).__name__} reads the queries that {type(one).__name__} has turned, so that what it adds "
                f"would depend on absolute positions"
            )
        if one.needs_causal and other.needs_bidirectional:
            return f"{type(one).__name__} needs a causal model, {type(other).__name__} one that is not"
    if a.uses("score") and b.uses("score"):
        return "both rewrite the logits, so that the result would depend on which comes first"
    return None


def _where(
    names: list[str],
    in_attention: list[str],
    num_layers: int | None,
    skip_every: int | None,
    layers: Mapping[str, Sequence[int]],
) -> dict[str, tuple[int, ...]]:
    """For each part in the attention the layers in which it acts; empty where all act in all.

    Raises ValueError for layers that there are not, and for choices that leave a part without a layer.
    """
    if skip_every is None and not layers:
        return {}
    if not in_attention:
        raise ValueError("skip_every and layers choose layers, and no part acts in the attention of a layer")
    if skip_every is not None and (skip_every < 2 or (num_layers is not None and skip_every > num_layers)):
        there = "" if num_layers is None else f" and at most the number of layers, {num_layers}"
        raise ValueError(f"skip_every must be at least 2{there}, got {skip_every}")
    for name, chosen in layers.items():
        if name not in names:
            raise ValueError(f"layers.{name}: there is no such part; parts are {', '.join(names)}")
        if name not in in_attention:
            raise ValueError(f"layers.{name}: this part acts on the embedding, before all layers")
        wrong = [i for i in chosen if i < 0 or (num_layers is not None and i >= num_layers)]
        if wrong or len(set(chosen)) < len(chosen):
            raise ValueError(
                f"layers.{name}={list(chosen)}: must be different layers, counted from 0"
                + ("" if num_layers is None else f", below {num_layers}")
            )
    if num_layers is None:
        num_layers = 1 + max([skip_every or 0, *(i for chosen in layers.values() for i in chosen)])
    where = {
        name: tuple(
            i for i in layers.get(name, range(num_layers)) if skip_every is None or (i + 1) % skip_every
        )
        for name in in_attention
    }
    for name, chosen in where.items():
        if not chosen:
            raise ValueError(f"part {name} would act in no layer: leave it out (~pe@pe.parts.{name})")
    return where


def _named(name: str, encodings: Mapping[str, PositionEncoding]) -> str:
    return f"{name} ({type(encodings[name]).__name__})"


__all__ = ["PositionStack", "refuse_parts"]
