"""The rotary encoding."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from .contract import TRANSLATION, Constant, Context, PositionEncoding, Sizes

Layout = Literal["interleaved", "half"]
Scaling = Literal["none", "linear", "ntk", "yarn", "llama3"]
LAYOUTS = ("interleaved", "half")
SCALINGS = ("none", "linear", "ntk", "yarn", "llama3")
_FAST = {"yarn": 32.0, "llama3": 4.0}
"""Turns within the original length above which an angle is left alone."""


class Rotary(PositionEncoding):
    """Turns the pair (q_{2i}, q_{2i+1}) of a query at n, and of a key, by the angle n·ω_i, ω_i = base^{-2i/W}.

    The score (R_n q)·(R_m k) = q·R_{m-n} k then depends on the offset alone; norms are kept.

    fraction:  the share of the K columns that are turned, the first W = fraction·K; the others see no position.
    layout:    "interleaved" pairs columns (2i, 2i+1), "half" pairs (i, i + W/2). The same up to a fixed order of
        columns, but weights trained in one are wrong in the other.
    scaling:   how a model is used at `factor` times its original length. There are no parameters, so that a model
        trained without it can be evaluated with it.
        "linear": n/factor for n (position interpolation, Chen et al. 2023).
        "ntk":    base·factor^{W/(W-2)} for the base: fast angles stay, the slowest is divided by the factor.
        "yarn":   ω_i stays where it turns more than `fast_turns` (32) times within the original length, is divided by
            the factor where it turns less than `slow_turns` (1) times, and goes linearly with the turns from one to the
            other in between; logits are multiplied by (0.1·ln factor + 1)² (Peng et al. 2023). This is the paper's
            formula; the code in use, such as that of transformers, goes linearly with i between those two borders,
            rounded outwards to whole i, so that it has other angles in between.
        "llama3": the same with `fast_turns` 4 and without that multiplier (Dubey et al. 2024).
    original_length: the positions it was trained for; null = those of the training sequences.
    Raises ValueError for an odd number of columns to turn, and for options that would change nothing.
    """

    symmetries = frozenset({TRANSLATION})
    paper = "Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding, equations 14-16"

    def __init__(
        self,
        sizes: Sizes,
        *,
        base: float = 10000.0,
        fraction: float = 1.0,
        layout: Layout = "interleaved",
        scaling: Scaling = "none",
        factor: float = 1.0,
        original_length: int | None = None,
        fast_turns: float | None = None,
        slow_turns: float | None = None,
        share: bool = False,
        cross: bool = False,
    ) -> None:
        super().__init__(sizes, share=share, cross=cross)
        self.layout, self.turned = layout, turned_columns(sizes, base, fraction, layout)
        if scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}, got {scaling!r}")
        if factor < 1:
            raise ValueError(f"factor must be at least 1, got {factor}")
        if scaling == "none" and factor != 1:
            raise ValueError(f"factor={factor} has no effect with scaling=none; set scaling too")
        if scaling != "none" and factor == 1:
            raise ValueError(
                f"scaling={scaling} has no effect with factor=1; set a larger one, or scaling=none"
            )
        by_turns = scaling in _FAST
        for option, value in (
            ("original_length", original_length),
            ("fast_turns", fast_turns),
            ("slow_turns", slow_turns),
        ):
            if value is not None and not by_turns:
                raise ValueError(f"{option}={value} has no effect with scaling={scaling}")
        self.logit_factor = (0.1 * math.log(factor) + 1) ** 2 if scaling == "yarn" else 1.0
        length = original_length or sizes.trained_length
        if by_turns and (length is None or length < 1):
            raise ValueError(
                f"scaling={scaling} needs the length of the training sequences: set original_length"
            )
        if scaling == "ntk":
            if self.turned < 4:
                raise ValueError(
                    f"scaling=ntk needs at least 4 turned columns a head, got {self.turned}: a head with one angle has "
                    f"no slow one to stretch"
                )
            base = base * factor ** (self.turned / (self.turned - 2))
        frequencies = [base ** (-i / self.turned) for i in range(0, self.turned, 2)]
        if scaling == "linear":
            frequencies = [w / factor for w in frequencies]
        elif by_turns:
            assert length is not None
            fast = _FAST[scaling] if fast_turns is None else fast_turns
            slow = 1.0 if slow_turns is None else slow_turns
            if not 0 <= slow < fast:
                raise ValueError(f"slow_turns must be at least 0 and below fast_turns, got {slow} and {fast}")
            kept = [min(max((length * w / math.tau - slow) / (fast - slow), 0.0), 1.0) for w in frequencies]
            frequencies = [w * (g + (1 - g) / factor) for w, g in zip(frequencies, kept, strict=True)]
        self.frequencies = Constant(frequencies)

    def rotate(self, q: Tensor, k: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        q, k = self._turn(q, context.query_numbers()), self._turn(k, context.key_numbers())
        return (q, k) if self.logit_factor == 1.0 else (q * self.logit_factor, k)

    def _turn(self, x: Tensor, numbers: Tensor) -> Tensor:
        """x (B, H, N, K), numbers (B or 1, N)."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        phases = numbers[:, None, :, None].to(dtype) * self.frequencies.like(x.device, dtype)
        return turn(x, phases.cos(), phases.sin(), self.layout)


def turned_columns(sizes: Sizes, base: float, fraction: float, layout: str) -> int:
    """W. Raises ValueError where that is no even number, or another option is out of range."""
    width = sizes.query_width
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0 and at most 1, got {fraction}")
    if layout not in LAYOUTS:
        raise ValueError(f'layout must be "interleaved" or "half", got {layout!r}')
    turned = width if fraction == 1 else round(fraction * width)
    if fraction == 1 and width % 2:
        raise ValueError(
            f"rotary needs an even key width a head, got {width} (width {sizes.width}, {sizes.heads} "
            f"heads): set key_dim to {width + 1}, or change width or heads"
        )
    if turned % 2 or turned < 2 or turned != fraction * width:
        possible = [even / width for even in range(2, width + 1, 2)]
        near = min(possible, key=lambda f: abs(f - fraction), default=None)
        cure = f"fraction={near:g} would do" if near else "use a key width of at least 2"
        raise ValueError(f"fraction={fraction} of {width} columns is not an even number of them: {cure}")
    if base <= 1:
        raise ValueError(f"base must be greater than 1, got {base}")
    return turned


def turn(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """(B, H, N, K) with its first W columns turned, pair i by (cos, sin)[..., i], both (B or 1, 1, N, W/2).

    In their type, float32 at least; only the result is cast.
    """
    width = 2 * cos.shape[-1]
    if layout == "interleaved":
        even, odd = x[..., 0:width:2], x[..., 1:width:2]
        turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
    else:
        even, odd = x[..., : width // 2], x[..., width // 2 : width]
        turned = torch.cat((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    turned = turned.to(x.dtype)
    return turned if width == x.shape[-1] else torch.cat((turned, x[..., width:]), dim=-1)
