"""The MLP of a layer: two linear maps, the same at every position (text before eq 22)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from .init import Role, Weight


class FeedForward(nn.Module):
    """W₂ φ(W₁ x + b₁) + b₂, (B, N, D) -> (B, N, D). `hidden`: the width in between. Raises ValueError if that
    is < 1."""

    activation: Callable[[Tensor], Tensor]

    def __init__(self, width: int, hidden: int, *, bias: bool = True) -> None:
        super().__init__()
        if hidden < 1:
            raise ValueError(
                f"the MLP's hidden width must be at least 1, got {hidden}: use a larger mlp_ratio"
            )
        self.hidden = nn.Linear(width, hidden, bias=bias)
        self.output = nn.Linear(hidden, width, bias=bias)

    def initial(self, name: str) -> Role | None:
        return Weight(self.output.in_features, residual=True) if name == "output.weight" else None

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.activation(self.hidden(x)))


class ReLU(FeedForward):
    """φ(x) = max(0, x)."""

    activation = staticmethod(F.relu)


class GELU(FeedForward):
    """φ(x) = x·Φ(x)."""

    activation = staticmethod(F.gelu)


class SwiGLU(FeedForward):
    """W₂ (SiLU(W_g x) ⊙ W₁ x) (Shazeer 2020). Hidden width 2/3 of what is asked, so that three matrices weigh
    as two."""

    def __init__(self, width: int, hidden: int, *, bias: bool = True) -> None:
        super().__init__(width, max(1, round(hidden * 2 / 3)), bias=bias)
        self.gate = nn.Linear(width, self.hidden.out_features, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(F.silu(self.gate(x)) * self.hidden(x))
