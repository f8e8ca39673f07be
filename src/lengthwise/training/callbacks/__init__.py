"""What watches a run: progress, checkpoints, the record on disk, W&B, divergence, symmetry."""

from lengthwise.training.callbacks.checkpoints import Checkpoints
from lengthwise.training.callbacks.divergence import StopOnDivergence
from lengthwise.training.callbacks.progress import Progress
from lengthwise.training.callbacks.pruning import StopOnRequest
from lengthwise.training.callbacks.recorder import Recorder
from lengthwise.training.callbacks.symmetry import SymmetryProbe
from lengthwise.training.callbacks.wandb import WandbRun

__all__ = [
    "Checkpoints",
    "Progress",
    "Recorder",
    "StopOnDivergence",
    "StopOnRequest",
    "SymmetryProbe",
    "WandbRun",
]
