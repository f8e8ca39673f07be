"""The textbook's Transformer in plain PyTorch: usable as a library, without configuration files.

>>> model = Encoder(16, width=64, layers=2, heads=4, position=Rotary, norm=PreNorm)   # doctest: +SKIP
>>> logits = model(batch)                                                              # doctest: +SKIP
"""

from .attention import (
    FixedAttention,
    HardAttention,
    MergedAttention,
    MultiHeadAttention,
    ParameterFreeAttention,
    ScaledAttention,
    SharedAttention,
    UnscaledAttention,
)
from .feedforward import GELU, FeedForward, ReLU, SwiGLU
from .init import DefaultInit, DepthScaledInit, InverseSqrtInit, NormalInit, initialise
from .norm import LayerNorm, NoNorm, Placement, PostNorm, PreNorm, RMSNorm, SandwichNorm
from .position import (
    ALiBi,
    Binary,
    Context,
    Integer,
    Learned,
    LengthError,
    NoPosition,
    PositionEncoding,
    Rotary,
    Sinusoidal,
    Sizes,
    T5Bias,
    UnitInterval,
)
from .transformer import Decoder, Encoder, EncoderDecoder, Inspection, Transformer

__all__ = [
    "GELU",
    "ALiBi",
    "Binary",
    "Context",
    "Decoder",
    "DefaultInit",
    "DepthScaledInit",
    "Encoder",
    "EncoderDecoder",
    "FeedForward",
    "FixedAttention",
    "HardAttention",
    "Inspection",
    "Integer",
    "InverseSqrtInit",
    "LayerNorm",
    "Learned",
    "LengthError",
    "MergedAttention",
    "MultiHeadAttention",
    "NoNorm",
    "NoPosition",
    "NormalInit",
    "ParameterFreeAttention",
    "Placement",
    "PositionEncoding",
    "PostNorm",
    "PreNorm",
    "RMSNorm",
    "ReLU",
    "Rotary",
    "SandwichNorm",
    "ScaledAttention",
    "SharedAttention",
    "Sinusoidal",
    "Sizes",
    "SwiGLU",
    "T5Bias",
    "Transformer",
    "UnitInterval",
    "UnscaledAttention",
    "initialise",
]
