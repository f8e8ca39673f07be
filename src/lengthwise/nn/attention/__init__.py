"""Attention: a shared base, one file for each variant."""

from .base import MultiHeadAttention
from .fixed import FixedAttention
from .hard import HardAttention
from .merged import MergedAttention
from .parameter_free import ParameterFreeAttention
from .scaled import ScaledAttention
from .shared import SharedAttention
from .unscaled import UnscaledAttention

__all__ = [
    "FixedAttention",
    "HardAttention",
    "MergedAttention",
    "MultiHeadAttention",
    "ParameterFreeAttention",
    "ScaledAttention",
    "SharedAttention",
    "UnscaledAttention",
]
