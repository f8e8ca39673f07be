"""Position encodings: a contract, and one file for each."""

from .alibi import ALiBi
from .binary import Binary
from .contract import ALL_SYMMETRIES, Context, LengthError, PositionEncoding, Sizes
from .embedding import DirectionEncoding, EmbeddingEncoding
from .integer import Integer
from .learned import Learned
from .none import NoPosition
from .rotary import Rotary
from .sinusoidal import Sinusoidal
from .t5 import T5Bias
from .unit_interval import UnitInterval

__all__ = [
    "ALL_SYMMETRIES",
    "ALiBi",
    "Binary",
    "Context",
    "DirectionEncoding",
    "EmbeddingEncoding",
    "Integer",
    "Learned",
    "LengthError",
    "NoPosition",
    "PositionEncoding",
    "Rotary",
    "Sinusoidal",
    "Sizes",
    "T5Bias",
    "UnitInterval",
]
