"""Position encodings: a contract, and one file for each."""

from .abacus import Abacus
from .alibi import ALiBi
from .binary import Binary
from .contract import ALL_SYMMETRIES, Context, LengthError, PositionEncoding, Sizes
from .cope import CoPE
from .distance import DistanceBias
from .embedding import DirectionEncoding, EmbeddingEncoding
from .fire import FIRE
from .forgetting import Forgetting
from .integer import Integer
from .kerple import Kerple
from .learned import Learned
from .none import NoPosition
from .rotary import Rotary
from .sandwich import Sandwich
from .shaw import Shaw
from .sinusoidal import Sinusoidal
from .stack import PositionStack
from .t5 import T5Bias
from .transformer_xl import TransformerXL
from .unit_interval import UnitInterval
from .xpos import XPos

__all__ = [
    "ALL_SYMMETRIES",
    "FIRE",
    "ALiBi",
    "Abacus",
    "Binary",
    "CoPE",
    "Context",
    "DirectionEncoding",
    "DistanceBias",
    "EmbeddingEncoding",
    "Forgetting",
    "Integer",
    "Kerple",
    "Learned",
    "LengthError",
    "NoPosition",
    "PositionEncoding",
    "PositionStack",
    "Rotary",
    "Sandwich",
    "Shaw",
    "Sinusoidal",
    "Sizes",
    "T5Bias",
    "TransformerXL",
    "UnitInterval",
    "XPos",
]
