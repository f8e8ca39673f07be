"""No position information."""

from .contract import ALL_SYMMETRIES, PositionEncoding, Sizes


class NoPosition(PositionEncoding):
    """Nothing: the encoder is permutation *equivariant*, f(PX) = P f(X); only its pooled output is invariant.

    Under a causal mask it is not equivariant: how many keys a query sees tells its position (Haviv
    et al. 2022).
    """

    acts_on = "embedding"
    symmetries = ALL_SYMMETRIES
    reads_positions = False
    distinct_until = 1
    paper = "Haviv et al. 2022, Transformers without Positional Encodings Still Learn Positional Information"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
