"""The three shapes: encoder, decoder, encoder-decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from lengthwise.batch import Batch

from .attention import ScaledAttention
from .feedforward import ReLU
from .init import DefaultInit, Scheme, initialise
from .layer import Trace
from .norm import LayerNorm, PreNorm
from .position import NoPosition
from .position.contract import TRANSLATION
from .stack import Factory, Hidden, Stack

T = TypeVar("T")


@dataclass(frozen=True)
class Inspection:
    """logits as `forward` gives them; weights (B, H, Nq, Nk) a layer, before dropout; hidden[0] the first
    layer's input, hidden[l] the output of layer l (B, N, D), before a final norm. The last three are of an
    encoder-decoder only."""

    logits: Tensor
    attention_maps: list[Tensor]
    hidden: list[Tensor]
    cross_maps: list[Tensor] = field(default_factory=list)
    source_attention_maps: list[Tensor] = field(default_factory=list)
    source_hidden: list[Tensor] = field(default_factory=list)


class Transformer(nn.Module):
    """What the three shapes share.  forward(batch) -> logits (B, N, V), or (B, 1, V) with readout "mean".

    vocabulary_size: V.  width: D.  layers, heads.  feature_dim: D_in of float features, added through a
        linear map.
    key_dim, value_dim: widths of one head's keys and values (default D/H).  mlp_ratio: hidden width of the
        MLP over D.
    bias: biases in attention's projections (the MLP and the head have theirs).  output_projection: W^(o).
    residual: residual connections.  dropout: of the embedding, the attention weights and each sublayer's
        output.
    embedding_scale: factor on the token embedding.
    position, norm, norm_layer, attention, activation: classes (or functools.partial of them) for the slots.
    init: scheme of initial values.  readout: "token" = logits at every position; "mean" = of the mean of the
        real ones.
    trained_length: positions seen in training, one number or as `Layout.positions` gives them, or None.
    seed: of the initial values.
    Raises ValueError for sizes or parts that do not fit, naming the numbers.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        width: int,
        layers: int,
        heads: int,
        feature_dim: int | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        mlp_ratio: float = 4.0,
        bias: bool = False,
        output_projection: bool = True,
        residual: bool = True,
        dropout: float = 0.0,
        embedding_scale: float = 1.0,
        position: Factory = NoPosition,
        norm: Factory = PreNorm,
        norm_layer: Factory = LayerNorm,
        attention: Factory = ScaledAttention,
        activation: Factory = ReLU,
        init: Scheme = DefaultInit(),  # noqa: B008 (immutable)
        readout: Literal["token", "mean"] = "token",
        trained_length: int | tuple[int, ...] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if readout not in ("token", "mean"):
            raise ValueError(f'readout must be "token" or "mean", got {readout!r}')
        self.readout, self.num_layers = readout, layers
        make_stack = partial(
            Stack,
            vocabulary_size,
            width=width,
            layers=layers,
            heads=heads,
            key_dim=key_dim,
            value_dim=value_dim,
            mlp_ratio=mlp_ratio,
            bias=bias,
            output_projection=output_projection,
            residual=residual,
            dropout=dropout,
            embedding_scale=embedding_scale,
            position=position,
            norm=norm,
            norm_layer=norm_layer,
            attention=attention,
            activation=activation,
            seed=seed,
        )
        with torch.random.fork_rng(devices=[]):
            lengths = trained_length if isinstance(trained_length, tuple) else (trained_length,)
            self._build(make_stack, feature_dim, lengths)
            self.head = nn.Linear(self._last_stack.width, vocabulary_size)
        initialise(self, seed, init)

    causal: bool
    """Outputs do not depend on later positions."""

    def _build(self, make_stack: Factory, feature_dim: int | None, trained: tuple[int | None, ...]) -> None:
        raise NotImplementedError

    @property
    def _last_stack(self) -> Stack:
        """The stack whose output is read."""
        raise NotImplementedError

    def _hidden(self, batch: Batch, trace: Trace | None, source_trace: Trace | None) -> Hidden:
        raise NotImplementedError

    @property
    def prefix_stable(self) -> bool:
        """One teacher-forced pass says what greedy decoding would give: outputs at t depend on positions up
        to t alone."""
        return self._last_stack.prefix_stable

    @property
    def symmetries(self) -> frozenset[str]:
        """What the outputs follow, see `Stack.symmetries`; of an encoder-decoder, what they keep of its
        source."""
        return self._last_stack.symmetries

    @property
    def max_length(self) -> int | None:
        """The number of positions the model is defined for; None = unbounded."""
        return self._last_stack.max_length

    def position_flags(self, *positions: int) -> tuple[str, ...]:
        """What a reader of a result at that many positions must know, e.g. "untrained_positions"; of an
        encoder-decoder (source, target), or one number for both."""
        (count,) = positions
        return self._last_stack.position_flags(count)

    def _logits(self, hidden: Hidden) -> Tensor:
        x = hidden.x
        if self.readout == "mean":
            x = _mean_of_real(x, hidden.key_mask)
        return self.head(x)

    def forward(self, batch: Batch) -> Tensor:
        return self._logits(self._hidden(batch, None, None))

    def inspect(self, batch: Batch) -> Inspection:
        """The same logits, to the bit, with what happened on the way."""
        trace, source = Trace(), Trace()
        logits = self._logits(self._hidden(batch, trace, source))
        return Inspection(
            logits, trace.attention_maps, trace.hidden, trace.cross_maps, source.attention_maps, source.hidden
        )


class _SingleStack(Transformer):
    def _build(self, make_stack: Factory, feature_dim: int | None, trained: tuple[int | None, ...]) -> None:
        (length,) = trained
        self.stack = make_stack(
            causal=self.causal, name="stack", feature_dim=feature_dim, trained_length=length
        )

    @property
    def _last_stack(self) -> Stack:
        return self.stack

    def _hidden(self, batch: Batch, trace: Trace | None, source_trace: Trace | None) -> Hidden:
        return self.stack(batch, trace=trace)


class Encoder(_SingleStack):
    """Every position reads every other."""

    causal = False


class Decoder(_SingleStack):
    """Every position reads itself and what stands before it."""

    causal = True


class EncoderDecoder(Transformer):
    """A bidirectional encoder of `batch.source`, a causal decoder of `batch` that reads it (XZ fig. 12.7).

    Encodings on the embedding act on both sides; none acts across, unless it was built with ``cross=True``.
    feature_dim is of the source.  trained_length: one number, or (source, target).
    """

    causal = True  # the side whose outputs are read

    def _build(self, make_stack: Factory, feature_dim: int | None, trained: tuple[int | None, ...]) -> None:
        source, target = _both(trained)
        self.encoder = make_stack(
            causal=False, name="encoder", feature_dim=feature_dim, trained_length=source
        )
        self.decoder = make_stack(causal=True, name="decoder", cross=True, trained_length=target)

    @property
    def _last_stack(self) -> Stack:
        return self.decoder

    def _hidden(self, batch: Batch, trace: Trace | None, source_trace: Trace | None) -> Hidden:
        if batch.source is None:
            raise ValueError("an encoder-decoder needs a batch with a source")
        return self.decoder(batch, memory=self.encoder(batch.source, trace=source_trace), trace=trace)

    @property
    def symmetries(self) -> frozenset[str]:
        kept = self.encoder.symmetries
        for encoding in self.decoder.cross_encodings():
            # Permuting or reversing the source moves the keys alone, which breaks every distance; a translation
            # moves both sides.
            kept &= encoding.symmetries & {TRANSLATION}
        return kept

    @property
    def max_length(self) -> int | None:
        return min(
            (m for m in (self.encoder.max_length, self.decoder.max_length) if m is not None), default=None
        )

    def position_flags(self, *positions: int) -> tuple[str, ...]:
        source, target = _both(positions)
        both = self.encoder.position_flags(source) + self.decoder.position_flags(target)
        return tuple(dict.fromkeys(both))


def _both(numbers: tuple[T, ...]) -> tuple[T, T]:
    """(source, target), from one number for both or from two."""
    source, target = numbers if len(numbers) == 2 else numbers * 2
    return source, target


def _mean_of_real(x: Tensor, key_mask: Tensor | None) -> Tensor:
    """(B, N, D) -> (B, 1, D)."""
    if key_mask is None:
        return x.mean(dim=1, keepdim=True)
    real = key_mask[..., None].to(x.dtype)
    return (x * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True)
