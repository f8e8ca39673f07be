"""Normalisation: kinds of norm, and where they stand (eqs 20-23).

A placement does not own its sublayer: it is given one at each call, so that names of parameters outside the
`norm` slot do not depend on what is in it.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

Sublayer = Callable[[Tensor], Tensor]


class LayerNorm(nn.LayerNorm):
    """(x - mean)/std over the D columns of each token, times a learned scale, plus a learned shift."""

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        super().__init__(width, eps=eps)


class RMSNorm(nn.RMSNorm):
    """x/rms(x), times a learned scale: no mean is removed (Zhang & Sennrich 2019)."""

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        super().__init__(width, eps=eps)


class Placement(nn.Module):
    """Base: a sublayer with its norm(s) and residual connection, (B, N, D) -> (B, N, D).

    final: whether the stack ends with one more norm, because the residual stream itself is not normalised.
    first: whether the sublayer reads only normalised input.
    """

    final: bool = False
    first: bool = False

    def __init__(
        self, width: int, norm_layer: Callable[[int], nn.Module] = LayerNorm, *, residual: bool = True
    ) -> None:
        super().__init__()
        self.residual = residual

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y if self.residual else y

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        raise NotImplementedError


class PreNorm(Placement):
    """Z = Y(LN[X]) + X, X̃ = MLP[LN[Z]] + Z (eqs 21, 23)."""

    final = True
    first = True

    def __init__(
        self, width: int, norm_layer: Callable[[int], nn.Module] = LayerNorm, *, residual: bool = True
    ) -> None:
        super().__init__(width, norm_layer, residual=residual)
        self.before = norm_layer(width)

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return self.add(x, sublayer(self.before(x)))


class PostNorm(Placement):
    """Z = LN[Y(X) + X], X̃ = LN[MLP[Z] + Z] (eqs 20, 22), the original placement."""

    def __init__(
        self, width: int, norm_layer: Callable[[int], nn.Module] = LayerNorm, *, residual: bool = True
    ) -> None:
        super().__init__(width, norm_layer, residual=residual)
        self.after = norm_layer(width)

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return self.after(self.add(x, sublayer(x)))


class SandwichNorm(Placement):
    """X + LN[Y(LN[X])]: what a sublayer reads and what it adds are both normalised (Ding et al. 2021)."""

    final = True
    first = True

    def __init__(
        self, width: int, norm_layer: Callable[[int], nn.Module] = LayerNorm, *, residual: bool = True
    ) -> None:
        super().__init__(width, norm_layer, residual=residual)
        self.before = norm_layer(width)
        self.after = norm_layer(width)

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return self.add(x, self.after(sublayer(self.before(x))))


class NoNorm(Placement):
    """Y(X) + X, without any norm."""

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return self.add(x, sublayer(x))
