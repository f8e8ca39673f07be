"""The contract of a position encoding: what it is told, which hooks it may use, which facts it declares.

An encoding overrides only the hooks it needs; the model asks which ones those are (`uses`). `embed`, `rotate` and
`bias` (with `by_distance`, its lean form) keep the fused attention kernel; `score` needs the logits and `read` the
weights, so these two take the explicit path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

PERMUTATION, TRANSLATION, REVERSAL = "permutation", "translation", "reversal"
ALL_SYMMETRIES = frozenset({PERMUTATION, TRANSLATION, REVERSAL})


class LengthError(ValueError):
    """A position that the encoding (or a fixed attention table) does not define."""


def head_width(width: int, heads: int) -> int:
    """D/H, the width of a head where none is given. Raises ValueError unless H divides D."""
    if heads < 1:
        raise ValueError(f"heads must be at least 1, got {heads}")
    if width % heads:
        near = sorted({max(1, width // heads) * heads, (width // heads + 1) * heads})
        raise ValueError(
            f"width {width} is not divisible by {heads} heads: use a width of {' or '.join(map(str, near))}, "
            f"one of {[h for h in range(1, width + 1) if width % h == 0]} heads, or set key_dim and value_dim"
        )
    return width // heads


@dataclass(frozen=True)
class Sizes:
    """What an encoding is told when it is built.

    width:          D, the width of the embedding (before anything is concatenated).
    heads:          H.
    key_dim:        K, or None where it is left implicit (D/H); read `query_width`.
    causal:         whether a query sees only keys up to its own position.
    trained_length: the number of positions seen in training, or None where it is not known.
    value_dim:      Dv, or None where it is left implicit (D/H); read `value_width`.
    num_layers:     how many layers the model has, or None where it is not known.
    """

    width: int
    heads: int
    key_dim: int | None = None
    causal: bool = False
    trained_length: int | None = None
    value_dim: int | None = None
    num_layers: int | None = None

    @property
    def query_width(self) -> int:
        """K, the width of one head's query. Raises ValueError where it is implicit and H does not divide
        D."""
        return head_width(self.width, self.heads) if self.key_dim is None else self.key_dim

    @property
    def value_width(self) -> int:
        """Dv, the width of one head's value. Raises ValueError where it is implicit and H does not divide
        D."""
        return head_width(self.width, self.heads) if self.value_dim is None else self.value_dim


@dataclass(frozen=True)
class Context:
    """What every hook is told at each call.

    query_positions, key_positions: (B, N) int64 (float32 where a rule draws real numbers), or None for 0…N-1.
    key_mask: (B, Nk) bool, True = real, or None where every key is. A sample without any real key counts as
        all real.
    allowed:  (B, 1, Nq, Nk) bool, True = query may read key, or None where only `causal` says so.
    layer:    index of the layer, from 0.
    queries_input, keys_input: (B, N, D) what queries and keys are projected from.
    scale:    the factor on q·k in the logits.
    """

    num_queries: int
    num_keys: int
    causal: bool = False
    query_positions: Tensor | None = None
    key_positions: Tensor | None = None
    key_mask: Tensor | None = None
    allowed: Tensor | None = None
    layer: int = 0
    queries_input: Tensor | None = None
    keys_input: Tensor | None = None
    scale: float = 1.0

    @property
    def device(self) -> torch.device:
        return torch.device("cpu") if self.queries_input is None else self.queries_input.device

    @property
    def precision(self) -> torch.dtype:
        """The type for phases and distances: float64 in a float64 model, else float32 (never less)."""
        return torch.float32 if self.queries_input is None else precision(self.queries_input)

    def query_numbers(self) -> Tensor:
        """(B or 1, Nq) int64, or float32 where they are not whole."""
        return _numbers(self.query_positions, self.num_queries, self.device)

    def key_numbers(self) -> Tensor:
        """(B or 1, Nk), as `query_numbers`."""
        return _numbers(self.key_positions, self.num_keys, self.device)

    def last_number(self) -> int:
        """The largest position number of queries and keys; tensors are read only where one is given."""
        numbers = ((self.query_positions, self.num_queries), (self.key_positions, self.num_keys))
        return max(count - 1 if given is None else int(given.max()) for given, count in numbers)

    def first_number(self) -> int:
        """The smallest position number of queries and keys."""
        return min(
            0 if given is None else int(given.min()) for given in (self.query_positions, self.key_positions)
        )

    def offsets(self) -> Tensor:
        """(B or 1, Nq, Nk): key position minus query position, whole where the numbers are."""
        return self.key_numbers()[:, None, :] - self.query_numbers()[:, :, None]

    def readable(self) -> Tensor | None:
        """(B or 1, 1, Nq, Nk) bool, True = query may read key, or None where every query may read every key."""
        if self.allowed is not None or not self.causal:
            return self.allowed
        return torch.ones(self.num_queries, self.num_keys, dtype=torch.bool, device=self.device).tril()[
            None, None
        ]


def _numbers(positions: Tensor | None, count: int, device: torch.device) -> Tensor:
    if positions is None:
        return torch.arange(count, device=device)[None]
    if positions.ndim != 2:
        raise ValueError(
            f"this encoding takes one number a token, got positions of shape {tuple(positions.shape)}"
        )
    return positions


def precision(x: Tensor) -> torch.dtype:
    """float64 for float64, float32 for everything else."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


class Constant:
    """A fixed vector, held in double precision outside the module's buffers, so that no cast of the model
    rounds it."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = tuple(float(value) for value in values)
        self._tensors: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def like(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        """(len,) on `device`. Made outside inference mode: a tensor born inside it cannot be trained through
        later."""
        if (device, dtype) not in self._tensors:
            with torch.inference_mode(False):
                self._tensors[device, dtype] = torch.tensor(self.values, dtype=dtype, device=device)
        return self._tensors[device, dtype]


class PositionEncoding(nn.Module):
    """Base of all encodings.

    share: one module for all layers instead of one a layer (encodings that act on the embedding are always
        shared).
    cross: act between a decoder and its encoder too.
    """

    acts_on: Literal["embedding", "attention"] = "attention"
    prefix_stable: bool = True
    """The encoding of a prefix does not depend on the total length."""
    symmetries: frozenset[str] = frozenset()
    """What the encoding itself keeps. A causal mask breaks permutation and reversal whatever the encoding."""
    needs_causal: bool = False
    needs_bidirectional: bool = False
    max_length: int | None = None
    """Positions it is defined for; None = unbounded."""
    distinct_until: int | None = None
    """Positions (or distances) it still tells apart in bfloat16, at least; None = no limit up to 4096."""
    reads_positions: bool = True
    """It uses position numbers at all (content alone, and the order in memory, do for some)."""
    whole_numbers: bool = False
    """It is defined for whole numbers only (tables, bits, buckets)."""
    needs_counted: bool = False
    """It is defined for positions that are counted, 0…N-1."""
    needs_supplied: bool = False
    """It is meant for numbers that the task gives."""
    uniform_shift: bool = False
    """It adds one number to all D coordinates, which a LayerNorm in front of every sublayer removes."""
    paper: str = ""

    def __init__(self, sizes: Sizes, *, share: bool = False, cross: bool = False) -> None:
        super().__init__()
        self.sizes, self.share, self.cross = sizes, share, cross

    @property
    def output_width(self) -> int:
        """The width of what `embed` returns."""
        return self.sizes.width

    def uses(self, hook: str) -> bool:
        """Whether this class overrides `hook`."""
        return getattr(type(self), hook) is not getattr(PositionEncoding, hook)

    def parts(self) -> tuple[PositionEncoding, ...]:
        """What it is made of: itself, or the encodings that it puts together."""
        return (self,)

    def on_embedding(self) -> PositionEncoding | None:
        """What acts on the embedding, or None."""
        return self if self.acts_on == "embedding" else None

    def in_layer(
        self, index: int, first: PositionEncoding, *, across: bool = False
    ) -> PositionEncoding | None:
        """What acts in the attention of layer `index` (from 0), or None.

        One module is built a layer; this is that layer's, `first` that of layer 0, whose modules are those of every
        layer where they are shared. across: between a decoder and its encoder.
        """
        if self.acts_on == "embedding" or (across and not self.cross):
            return None
        return first if self.share else self

    def flags(self, num_positions: int) -> tuple[str, ...]:
        """What a reader of a result at that many positions must know."""
        return ()

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """(B, N, D) -> (B, N, output_width)."""
        return x

    def rotate(self, q: Tensor, k: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """(B, H, Nq, K), (B, H, Nk, K) -> the same, possibly wider; the scale of the logits stays 1/√K."""
        return q, k

    def bias(self, context: Context) -> Tensor | None:
        """(B or 1, H, Nq, Nk), added to the logits after scaling."""
        return None

    def by_distance(self, context: Context) -> Tensor | None:
        """(H, Nq+Nk-1), the same as `bias` where positions are 0…N-1 and it depends on the distance alone: entry
        d is the bias at key minus query position d-(Nq-1). Long sequences then need no Nq×Nk array."""
        return None

    def score(self, logits: Tensor, q: Tensor, k: Tensor, context: Context) -> Tensor:
        """Any function of the logits (B, H, Nq, Nk) and the content, before masking.

        The logits are scale·q·k + bias, with q and k as `rotate` left them and `context.scale`.
        """
        return logits

    def read(self, weights: Tensor, context: Context) -> Tensor | None:
        """(B, H, Nq, Nk) weights, after dropout -> (B, H, Nq, Dv), added to the weighted sum of values."""
        return None
