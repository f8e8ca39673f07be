"""Weights & Biases: a view of what is in the run folders, offline unless asked otherwise. Imports no torch."""

from lengthwise.tracking.account import refuse_unreachable
from lengthwise.tracking.options import options_of, refuse_names
from lengthwise.tracking.run import TrackedRun
from lengthwise.tracking.service import preload
from lengthwise.tracking.uploads import not_uploaded, reminder

__all__ = [
    "TrackedRun",
    "not_uploaded",
    "options_of",
    "preload",
    "refuse_names",
    "refuse_unreachable",
    "reminder",
]
