"""Training on Lightning: data, module, metrics, optimizers, schedules, callbacks, and the function that fits."""

from lengthwise.training.data import LengthData, MicroBatch, global_batch
from lengthwise.training.fit import TrainerOptions, fit
from lengthwise.training.module import LengthModule

__all__ = ["LengthData", "LengthModule", "MicroBatch", "TrainerOptions", "fit", "global_batch"]
