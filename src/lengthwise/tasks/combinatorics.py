"""Exact probabilities that the tasks' baselines need."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np


@lru_cache(maxsize=1)
def _log_factorials(size: int) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, size)))])


def log_factorial(number: Any) -> np.ndarray:
    """log(number!) of non-negative integers."""
    number = np.asarray(number)
    return _log_factorials(1 << max(10, int(number.max() + 1).bit_length()))[number]


def choose_ratio(top: Any, low: Any, *more: Any, over: tuple[int, int]) -> np.ndarray:
    """C(top, low) * C(more[0], more[1]) * … / C(*over), elementwise; 0 where a choice is impossible."""
    pairs = np.broadcast_arrays(top, low, *more)
    possible = np.ones(pairs[0].shape, dtype=bool)
    logs = np.zeros(pairs[0].shape)
    for upper, lower in zip(pairs[::2], pairs[1::2], strict=True):
        fits = (lower >= 0) & (lower <= upper)
        possible &= fits
        u, k = np.where(fits, upper, 0), np.where(fits, lower, 0)
        logs += log_factorial(u) - log_factorial(k) - log_factorial(u - k)
    whole, part = over
    logs -= log_factorial(whole) - log_factorial(part) - log_factorial(whole - part)
    return np.where(possible, np.exp(logs), 0.0)


def majority_in_window(length: int, ones: np.ndarray, window: int) -> np.ndarray:
    """P(most of a random odd `window` of `length` tokens are ones), for each number of `ones` (C,) in all."""
    seen = np.arange(window // 2 + 1, window + 1)[None, :]
    ones = np.asarray(ones)[:, None]
    return choose_ratio(ones, seen, length - ones, window - seen, over=(length, window)).sum(axis=1)


@lru_cache(maxsize=4096)
def largest_share(length: int, classes: int) -> float:
    """E[count of the commonest of `classes`] / length for `length` independent uniform tokens.

    P(all counts <= k) is a coefficient of a power series; with Poisson weights (mean length / classes) all numbers
    stay near 1, and a fast Fourier transform takes the power for every k at once.
    """
    mean = length / classes
    least = -(-length // classes)
    most = min(length, int(mean + 10 * np.sqrt(mean) + 30))
    size = 1 << (2 * length + 64).bit_length()
    counts = np.arange(min(most, size - 1) + 1)
    weights = np.exp(counts * np.log(mean) - mean - log_factorial(counts))
    bounds = np.arange(least, most)
    allowed = np.where(counts[None, :] <= bounds[:, None], weights, 0.0)
    powers = np.fft.irfft(np.fft.rfft(allowed, n=size, axis=1) ** classes, n=size, axis=1)
    total = np.exp(length * np.log(length) - length - log_factorial(length))
    below = np.clip(powers[:, length] / total, 0.0, 1.0)
    return float((least + (1.0 - below).sum()) / length)


def mean_largest_share(length: int, classes: int) -> float:
    """Mean of `largest_share` over 1…length; past 128 interpolated (errors below 5e-4)."""
    exact = np.arange(1, min(length, 128) + 1)
    beyond = np.unique(np.rint(np.geomspace(128, length, 24)).astype(int)) if length > 128 else exact[:0]
    knots = np.union1d(exact, beyond)
    shares = [largest_share(int(k), classes) for k in knots]
    return float(np.interp(np.arange(1, length + 1), knots, shares).mean())


def sum_at_most(terms: int, values: int, bounds: np.ndarray) -> np.ndarray:
    """P(the sum of `terms` independent uniform numbers from 0…values-1 is <= each of `bounds`)."""
    size = 1 << (terms * (values - 1) + 1).bit_length()
    spectrum = np.fft.rfft(np.full(values, 1.0 / values), n=size) ** terms
    cumulative = np.cumsum(np.fft.irfft(spectrum, n=size))[: terms * (values - 1) + 1]
    inside = np.clip(bounds, 0, len(cumulative) - 1)
    return np.where(bounds < 0, 0.0, np.clip(cumulative[inside], 0.0, 1.0))
