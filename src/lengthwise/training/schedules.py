"""The learning rate's factor at each optimizer step: pure functions of the step, so that resuming needs no state.

Every schedule warms up linearly over `warmup_steps`, and rests at `floor` from its horizon `steps` on. The horizon
is fixed once: None stands for the number of steps that training first started with, and a run that is extended
later keeps it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Schedule:
    """factor(step) for step 0, 1, …: `warmup_steps` of rise, then `shape`, then the floor.

    Raises ValueError for a negative warm-up, a horizon below 1 or a floor outside [0, 1].
    """

    warmup_steps: int = 100
    floor: float = 0.05
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.warmup_steps < 0:
            raise ValueError(f"schedule.warmup_steps={self.warmup_steps} must be at least 0")
        if not 0 <= self.floor <= 1:
            raise ValueError(
                f"schedule.floor={self.floor} is a share of the learning rate: use a number from 0 to 1"
            )
        if self.steps is not None and self.steps < 1:
            raise ValueError(
                f"schedule.steps={self.steps} must be at least 1, or null for the length of training"
            )

    def __call__(self, step: int) -> float:
        if self.steps is None:
            raise ValueError("the schedule has no horizon yet: give `steps`, or let LengthModule fill it in")
        if step >= self.steps:
            return self.floor
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.floor + (1 - self.floor) * self.shape(progress)

    def shape(self, progress: float) -> float:
        """From 1 at progress 0 to 0 at progress 1."""
        raise NotImplementedError


@dataclass
class Cosine(Schedule):
    """Half a cosine (Loshchilov & Hutter 2017, arXiv:1608.03983, without restarts)."""

    def shape(self, progress: float) -> float:
        return 0.5 * (1 + math.cos(math.pi * progress))


@dataclass
class Linear(Schedule):
    """A straight line."""

    def shape(self, progress: float) -> float:
        return 1 - progress


@dataclass
class Constant(Schedule):
    """The full rate after the warm-up, for as long as training lasts."""

    floor: float = 1.0

    def shape(self, progress: float) -> float:
        return 1.0
