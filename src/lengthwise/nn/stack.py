"""Embedding, position and layers: the body of every model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from lengthwise.batch import Batch

from .attention import MultiHeadAttention
from .attention.kernel import allowed_keys
from .init import keyed_rng
from .layer import Layer, Trace
from .norm import Placement
from .position import ALL_SYMMETRIES, Context, PositionEncoding, Sizes
from .position.contract import PERMUTATION, REVERSAL

Factory = Callable[..., Any]


@dataclass(frozen=True)
class Hidden:
    """A stack's output (B, N, D), its real positions (None = all) and position numbers (None = 0…N-1)."""

    x: Tensor
    key_mask: Tensor | None
    positions: Tensor | None


class Stack(nn.Module):
    """Tokens (B, N) to hidden states (B, N, D).  For the options see `Transformer`.

    causal: whether a position reads only up to itself.
    cross:  whether each layer also reads an encoder's output.
    name:   names the stack in the keys of random streams.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        width: int,
        layers: int,
        heads: int,
        causal: bool,
        name: str,
        cross: bool = False,
        feature_dim: int | None = None,
        key_dim: int | None,
        value_dim: int | None,
        mlp_ratio: float,
        bias: bool,
        output_projection: bool,
        residual: bool,
        dropout: float,
        embedding_scale: float,
        position: Factory,
        norm: Factory,
        norm_layer: Factory,
        attention: Factory,
        activation: Factory,
        trained_length: int | None,
        seed: int,
    ) -> None:
        super().__init__()
        for option, value in (
            ("vocabulary_size", vocabulary_size),
            ("width", width),
            ("layers", layers),
            ("heads", heads),
        ):
            if value < 1:
                raise ValueError(f"{option} must be at least 1, got {value}")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be at least 0 and less than 1, got {dropout}")
        self.causal, self.embedding_scale, self.trained_length = causal, embedding_scale, trained_length

        def build(part: str, factory: Factory, *arguments: Any, **options: Any) -> Any:
            with keyed_rng(seed, f"{name}.{part}"):
                return factory(*arguments, **options)

        self.embedding = nn.Embedding(vocabulary_size, width)
        self.features = None if feature_dim is None else nn.Linear(feature_dim, width, bias=False)
        self.dropout = nn.Dropout(dropout)

        sizes = Sizes(width, heads, key_dim, causal, trained_length, value_dim, layers)
        first: PositionEncoding = build("position.0", position, sizes)
        _check_kind(first, PositionEncoding, "lengthwise.nn.position.contract")
        for part in first.parts():
            _check_direction(part, causal)
        self.position = first.on_embedding()
        self.width = first.output_width

        def positions(
            kind: str, first: PositionEncoding, sizes: Sizes, across: bool
        ) -> list[PositionEncoding | None]:
            """What acts in the attention of each layer."""
            alone = first.share or first is self.position
            built = [
                first if alone or index == 0 else build(f"{kind}.{index}", position, sizes)
                for index in range(layers)
            ]
            return [encoding.in_layer(index, first, across=across) for index, encoding in enumerate(built)]

        here = positions("position", first, sizes, False)
        across: list[PositionEncoding | None] = [None] * layers
        if cross and first.cross:
            both_ways = replace(sizes, causal=False)
            across = positions(
                "cross_position", build("cross_position.0", position, both_ways), both_ways, True
            )

        def attention_layer(part: str, encoding: PositionEncoding | None) -> MultiHeadAttention:
            built: MultiHeadAttention = build(
                part,
                attention,
                self.width,
                heads,
                key_dim=key_dim,
                value_dim=value_dim,
                bias=bias,
                output_projection=output_projection,
                dropout=dropout,
                position=encoding,
            )
            _check_kind(built, MultiHeadAttention, "lengthwise.nn.attention.base")
            if cross and not built.reads_queries:  # the norm in front of it would be a parameter without use
                raise ValueError(
                    f"{type(built).__name__} reads no queries, so it cannot stand between a decoder and its "
                    f"encoder: use one of them alone"
                )
            return built

        def layer(index: int) -> Layer:
            return Layer(
                attention=attention_layer(f"attention.{index}", here[index]),
                cross_attention=attention_layer(f"cross_attention.{index}", across[index]) if cross else None,
                mlp=build(f"mlp.{index}", activation, self.width, round(mlp_ratio * self.width)),
                placement=lambda: build(f"norm.{index}", norm, self.width, norm_layer, residual=residual),
                dropout=dropout,
            )

        try:
            self.layers = nn.ModuleList(layer(index) for index in range(layers))
        except ValueError as error:
            if self.width == width:
                raise
            raise ValueError(
                f"{error} (combine=concat has grown the width from {width} to {self.width})"
            ) from error
        # A pre-norm stack ends with one norm, else its residual stream would reach the head unnormalised.
        self.final_norm = norm_layer(self.width) if self._placement.final else nn.Identity()

    @property
    def _placement(self) -> Placement:
        return self.layers[0].mlp_norm  # type: ignore[return-value]

    def encodings(self) -> list[PositionEncoding]:
        """Every encoding module once; what puts several together stands for its parts."""
        found = [module for module in self.modules() if isinstance(module, PositionEncoding)]
        return [encoding for encoding in found if encoding.parts() == (encoding,)]

    def cross_encodings(self) -> list[PositionEncoding]:
        """Those that act between a decoder and its encoder."""
        layers: list[Layer] = list(self.layers)  # type: ignore[arg-type]
        across = [layer.cross_attention.position for layer in layers if layer.cross_attention is not None]
        return [part for encoding in across if encoding is not None for part in encoding.parts()]

    def attentions(self) -> list[MultiHeadAttention]:
        return [module for module in self.modules() if isinstance(module, MultiHeadAttention)]

    @property
    def symmetries(self) -> frozenset[str]:
        """The actions on the input (permutation, reversal) and on position numbers (translation) that outputs
        follow."""
        kept = ALL_SYMMETRIES
        for encoding in self.encodings():
            removed_by_norm = (
                encoding.uniform_shift and self._placement.first and isinstance(self.final_norm, nn.LayerNorm)
            )
            kept &= ALL_SYMMETRIES if removed_by_norm else encoding.symmetries
        for attention in self.attentions():
            kept &= attention.symmetries
        return kept - {PERMUTATION, REVERSAL} if self.causal else kept

    @property
    def prefix_stable(self) -> bool:
        """A prefix's outputs do not depend on what follows it, nor on how much does."""
        return self.causal and all(part.prefix_stable for part in (*self.encodings(), *self.attentions()))

    @property
    def max_length(self) -> int | None:
        """The number of positions the stack is defined for; None = unbounded."""
        parts: list[PositionEncoding | MultiHeadAttention] = [*self.encodings(), *self.attentions()]
        return min((part.max_length for part in parts if part.max_length is not None), default=None)

    def position_flags(self, num_positions: int) -> tuple[str, ...]:
        flags = [flag for encoding in self.encodings() for flag in encoding.flags(num_positions)]
        has_table = any(attention.max_length is not None for attention in self.attentions())
        if has_table and self.trained_length is not None and num_positions > self.trained_length:
            flags.append("untrained_positions")
        return tuple(dict.fromkeys(flags))

    def forward(self, batch: Batch, memory: Hidden | None = None, trace: Trace | None = None) -> Hidden:
        key_mask, positions = _numbered(batch)
        count = batch.tokens.shape[1]
        context = Context(
            num_queries=count,
            num_keys=count,
            causal=self.causal,
            query_positions=positions,
            key_positions=positions,
            key_mask=key_mask,
            allowed=allowed_keys(count, count, self.causal, key_mask),
        )
        cross_context = None
        if memory is not None:
            cross_context = Context(
                num_queries=count,
                num_keys=memory.x.shape[1],
                query_positions=positions,
                key_positions=memory.positions,
                key_mask=memory.key_mask,
                allowed=allowed_keys(count, memory.x.shape[1], False, memory.key_mask),
            )
        x = self.embedding_scale * self.embedding(batch.tokens) + self._projected_features(batch)
        if self.position is not None:
            x = self.position.embed(x, replace(context, queries_input=x, keys_input=x))
        x = self.dropout(x)
        for index, layer in enumerate(self.layers):
            if trace is not None:
                trace.hidden.append(x)
            if cross_context is not None:
                cross_context = replace(cross_context, layer=index)
            x = layer(
                x, replace(context, layer=index), None if memory is None else memory.x, cross_context, trace
            )
        if trace is not None:
            trace.hidden.append(x)
        return Hidden(self.final_norm(x), key_mask, positions)

    def _projected_features(self, batch: Batch) -> Tensor | float:
        if self.features is None:
            if batch.features is not None:
                raise ValueError(
                    f"the batch has features of width {batch.features.shape[-1]}: build with feature_dim"
                )
            return 0.0
        if batch.features is None:
            raise ValueError("the model was built with feature_dim, the batch has no features")
        return self.features(batch.features.to(self.features.weight.dtype))


def _check_kind(built: Any, kind: type, where: str) -> None:
    if not isinstance(built, kind):
        raise ValueError(f"{type(built).__name__} is no {kind.__name__} ({where})")


def _check_direction(encoding: PositionEncoding, causal: bool) -> None:
    name = type(encoding).__name__
    if causal and encoding.needs_bidirectional:
        raise ValueError(
            f"{name} depends on the whole sequence's length, which a causal model must not know: "
            f"use an encoder"
        )
    if not causal and encoding.needs_causal:
        raise ValueError(f"{name} needs a causal model: use a decoder")


def _numbered(batch: Batch) -> tuple[Tensor | None, Tensor | None]:
    """The real positions (None = all) and the position numbers (None = 0…N-1).

    A sample without any real position counts as all real. Where a pad stands before a real position, numbers
    count the real ones, so that padding on the left moves nothing.
    """
    key_mask = batch.key_mask | ~batch.key_mask.any(dim=1, keepdim=True)
    if bool(key_mask.all()):
        return None, batch.positions
    pad_before_real = bool((key_mask[:, 1:] & ~key_mask[:, :-1]).any())
    if batch.positions is None and pad_before_real:
        return key_mask, (key_mask.cumsum(dim=1) - 1).clamp(min=0)
    return key_mask, batch.positions
