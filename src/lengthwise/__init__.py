"""Lengthwise: a laboratory for position in Transformers."""

__version__ = "0.1.0"
