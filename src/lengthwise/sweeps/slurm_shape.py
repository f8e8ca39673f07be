"""What a job asks of Slurm, and whether a partition has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lengthwise.sweeps.slurm_client import Partition


@dataclass(frozen=True)
class Shape:
    """What a job asks for; `tasks`, `gpus` and memory are per node, `cpus` per task."""

    nodes: int
    tasks: int
    gpus: int
    cpus: int


def fits(shape: Shape, offer: Partition) -> bool:
    return shape.nodes <= offer.nodes and shape.gpus <= offer.gpus and shape.tasks * shape.cpus <= offer.cpus


def cannot_run(shape: Shape, offers: Sequence[Partition]) -> str:
    gpus, cpus = max(offer.gpus for offer in offers), max(offer.cpus for offer in offers)
    nodes = max(offer.nodes for offer in offers)
    return (
        f"a job needs {shape.nodes} nodes with {shape.gpus} GPUs and {shape.tasks * shape.cpus} CPUs each "
        f"(trainer.nodes, trainer.devices={shape.tasks}, hydra.launcher.gpus_per_task and cpus_per_task); partition "
        f"{names_of(offers)} has {nodes} nodes, at most {gpus} GPUs and {cpus} CPUs on one"
    )


def names_of(offers: Sequence[Partition]) -> str:
    return ",".join(offer.name for offer in offers)
