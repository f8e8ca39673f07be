"""Perplexity: as how many equally likely symbols a text's next one looks to the model."""

from __future__ import annotations

import math


def perplexity(loss: float | None) -> float | None:
    """exp of the mean loss (nats a symbol); None where there is none, or where it is beyond any number."""
    return None if loss is None or not loss < 700 else math.exp(loss)
