"""The fixed keys of the configuration: their types and legal ranges; the values are in ``conf/``.

Hydra checks the types. Ranges, unknown keys and combinations are ours (`lengthwise.config`), since a structured
config does not stop ``+modle.width=8`` or ``++model.wdth=8``. A field typed `Any` without a range is an open slot:
its keys are the options of the component that its ``_target_`` names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


def _at_least(low: float, default: Any = MISSING) -> Any:
    return field(default=default, metadata={"at_least": low})


def _one_of(*options: Any, default: Any = MISSING) -> Any:
    return field(default=default, metadata={"one_of": options})


def _slot() -> Any:
    return field(default=MISSING, metadata={"slot": True})


@dataclass
class Model:
    """Sizes and wiring; the parts are slots of their own."""

    _target_: str = MISSING
    width: int = _at_least(1)
    layers: int = _at_least(0)
    heads: int = _at_least(1)
    key_dim: int | None = _at_least(1)
    value_dim: int | None = _at_least(1)
    mlp_ratio: float = _at_least(0)
    bias: bool = MISSING
    output_projection: bool = MISSING
    residual: bool = MISSING
    dropout: float = field(default=MISSING, metadata={"at_least": 0, "below": 1})
    embedding_scale: float = MISSING


@dataclass
class Data:
    lengths: Any = MISSING
    batch_size: int = _at_least(1)
    validation_size: int = _at_least(1)
    repeat_batch: bool = MISSING


@dataclass
class Evaluation:
    lengths: Any = MISSING
    bins: Any = MISSING
    mean: Any = MISSING
    positions: Any = MISSING
    count: int = _at_least(1)
    checkpoints: Any = MISSING
    batch_tokens: int = _at_least(1)
    symmetry: bool = MISSING
    symmetry_length: int | None = _at_least(2)
    symmetry_sequences: int = _at_least(2)
    symmetry_draws: int = _at_least(1)
    pictures: Any = MISSING


@dataclass
class Trainer:
    max_steps: int = _at_least(1)
    accumulate: int = _at_least(1)
    clip: float | None = _at_least(0)
    precision: str = _one_of("auto", "32-true", "64-true", "bf16-mixed", "16-mixed")
    accelerator: str = _one_of("auto", "cpu", "gpu")
    devices: int = _at_least(1)
    nodes: int = _at_least(1)
    strategy: str = _one_of("auto", "ddp", "fsdp")
    threads: int = _at_least(1)
    log_every: int = _at_least(1)
    validate_every: int = _at_least(1)
    checkpoint_every: int = _at_least(1)
    profile: bool = MISSING


@dataclass
class Sweep:
    """How many runs are carried out together; the same for all of them."""

    workers: int | None = _at_least(1)
    gpus: Any = MISSING
    gpus_per_job: float | None = field(default=MISSING, metadata={"above": 0})
    on_fail: str = _one_of("continue", "stop")
    on_illegal: str = _one_of("stop", "skip")
    on_other_steps: str = _one_of("stop", "keep")
    time_limit: float | None = field(default=MISSING, metadata={"above": 0})
    start: str = _one_of("auto", "warm", "cold")
    dry_run: bool = MISSING


@dataclass
class Wandb:
    mode: str = _one_of("offline", "online", "disabled")
    project: str = MISSING
    entity: str | None = MISSING
    group: str | None = MISSING
    tags: list[str] = MISSING


@dataclass
class Run:
    label: str | None = MISSING
    components: str | None = MISSING


@dataclass
class Schema:
    """Everything that one run is made of."""

    task: Any = _slot()
    pe: Any = _slot()
    positions: Any = _slot()
    norm: Any = _slot()
    norm_layer: Any = _slot()
    attention: Any = _slot()
    init: Any = _slot()
    activation: Any = _slot()
    optimizer: Any = _slot()
    schedule: Any = _slot()
    model: Model = field(default_factory=Model)
    data: Data = field(default_factory=Data)
    evaluation: Evaluation = field(default_factory=Evaluation)
    trainer: Trainer = field(default_factory=Trainer)
    callbacks: Any = field(default_factory=dict)
    wandb: Wandb = field(default_factory=Wandb)
    debug: Any = field(default_factory=dict)
    study: Any = field(default_factory=dict)
    sweep: Sweep = field(default_factory=Sweep)
    readout: str = _one_of("front", "end", "mean")
    seed: int = _at_least(0)
    init_seed: int = _at_least(0)
    data_seed: int = _at_least(0)
    overwrite: bool = MISSING
    outputs: str = MISSING
    run: Run = field(default_factory=Run)
