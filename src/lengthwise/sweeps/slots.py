"""Which cores and GPUs a job may use: all that it needs, or it waits."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lengthwise.errors import ConfigError
from lengthwise.sweeps.job import Job


@dataclass
class Share:
    """What a job holds while it runs: `slots` of the CPU, and of each GPU named a share."""

    slots: float
    gpus: dict[str, float] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Inside the job its devices are always 0, 1, …; one without GPUs sees none."""
        return {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus)}


class Slots:
    """The cores and GPUs of this machine.

    workers: jobs at once, None = as many as the cores allow. gpus: their names; jobs that ask for the CPU get none.
    gpus_per_job: None = as many as the job has devices; below 1 that share of one.

    A job counts for as many slots as it has processes, each with the threads of its configuration, but never for more
    than there are: results depend on the threads of a run, never on how many runs there are.
    """

    def __init__(self, workers: int | None, gpus: Sequence[str], gpus_per_job: float | None = None) -> None:
        self.workers, self.gpus_per_job = workers, gpus_per_job
        self.capacity = float(workers or usable_cores())
        self.free_slots = self.capacity
        self.free_gpus = dict.fromkeys(gpus, 1.0)
        self.gpus = list(gpus)

    def refuse(self, job: Job) -> None:
        """Raises ConfigError for a job that needs more GPUs than there are, or than it would get."""
        if job.nodes > 1:
            raise ConfigError(
                f"trainer.nodes={job.nodes}: this machine is one; several take a cluster (hydra/launcher=slurm)"
            )
        needed = self._gpus_of(job)
        if needed > 1 and needed != int(needed):
            raise ConfigError(
                f"sweep.gpus_per_job={needed:g} for trainer.devices={job.devices}: more than one GPU are given whole, "
                f"as {int(needed)} or {int(needed) + 1}; below 1 it is a share of one"
            )
        if 0 < needed < job.devices > 1:
            raise ConfigError(
                f"trainer.devices={job.devices} with sweep.gpus_per_job={needed:g}: each device takes a whole GPU; "
                f"use sweep.gpus_per_job={job.devices} or leave it out"
            )
        if needed > len(self.gpus):
            how = (
                f"trainer.devices={job.devices}"
                if self.gpus_per_job is None
                else f"sweep.gpus_per_job={needed:g}"
            )
            here = f"{len(self.gpus)} GPUs here ({', '.join(self.gpus)})" if self.gpus else "no GPU here"
            raise ConfigError(
                f"{how} trainer.accelerator={job.config['trainer']['accelerator']}: there are {here}"
            )

    def take(self, job: Job) -> Share | None:
        """What the job needs, all or nothing; None where there is not enough now."""
        slots = min(self.capacity, float(job.devices * (1 if self.workers else job.threads)))
        if slots > self.free_slots:
            return None
        needed = self._gpus_of(job)
        share = min(1.0, needed) if needed else 0.0
        free = sorted(
            (name for name in self.gpus if self.free_gpus[name] >= share - 1e-9),
            key=lambda name: (self.free_gpus[name], self.gpus.index(name)),
        )  # the fullest first, so that whole ones stay whole
        count = max(1, round(needed)) if needed else 0
        if len(free) < count:
            return None
        taken = Share(slots, dict.fromkeys(sorted(free[:count], key=self.gpus.index), share))
        self.free_slots -= slots
        for name in taken.gpus:
            self.free_gpus[name] -= share
        return taken

    def give_back(self, share: Share) -> None:
        """A job has ended."""
        self.free_slots += share.slots
        for name, part in share.gpus.items():
            self.free_gpus[name] += part

    def _gpus_of(self, job: Job) -> float:
        accelerator = job.config["trainer"]["accelerator"]
        if accelerator == "cpu" or (accelerator == "auto" and not self.gpus):
            return 0.0
        return float(job.devices if self.gpus_per_job is None else self.gpus_per_job)


def usable_cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_gpus(asked: Any) -> list[str]:
    """The GPUs that ``sweep.gpus`` stands for: None = all visible, a number, or a list of their names.

    Raises ConfigError where they are not there.
    """
    visible = visible_gpus()
    if asked is None:
        return visible
    if isinstance(asked, bool) or not isinstance(asked, int | list):
        raise ConfigError(f"sweep.gpus={asked}: must be null, a number, or a list such as [0,2]")
    if isinstance(asked, int):
        if not 0 <= asked <= len(visible):
            raise ConfigError(f"sweep.gpus={asked}: there are {len(visible)} GPUs here")
        return visible[:asked]
    names = [str(name) for name in asked]
    if missing := [name for name in names if name not in visible]:
        raise ConfigError(
            f"sweep.gpus={asked}: no GPU {', '.join(missing)} here; visible: {', '.join(visible) or 'none'}"
        )
    return list(dict.fromkeys(names))


def visible_gpus() -> list[str]:
    """As CUDA_VISIBLE_DEVICES says, else the driver's tool; never through CUDA, which could then not be forked."""
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        names = [name.strip() for name in named.split(",")]
        return names[: next((i for i, name in enumerate(names) if name in ("", "-1")), len(names))]
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        listed = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(i) for i, line in enumerate(line for line in listed.splitlines() if line.startswith("GPU "))]
