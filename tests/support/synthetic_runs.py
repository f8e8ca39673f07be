"""Run folders with made-up figures, as a real run would leave them: what the report is tested on.

The figures follow a plain model (a level inside the trained range, an exponential fall outside it, noise over seeds
and over test items), so that a test knows the truth behind them.
"""

from __future__ import annotations

import copy
import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lengthwise.runs import run_hash, run_name

LENGTHS = (4, 6, 8, 10, 20, 50, 100)
TRAINED = (4, 5, 6, 7, 8, 9, 10)

ENCODINGS = {
    # name: (target, level where the evidence is outside the trained range, decay per unit of log length)
    "none": ("lengthwise.nn.position.none.NoPosition", 0.5, 0.0),
    "sinusoidal": ("lengthwise.nn.position.sinusoidal.Sinusoidal", 0.55, 0.10),
    "learned": ("lengthwise.nn.position.learned.Learned", 0.5, 0.03),
    "rotary": ("lengthwise.nn.position.rotary.Rotary", 0.93, 0.02),
    "alibi": ("lengthwise.nn.position.alibi.ALiBi", 0.86, 0.04),
    "t5": ("lengthwise.nn.position.t5.T5Bias", 0.95, 0.015),
}

CONFIG: dict[str, Any] = {
    "task": {"_target_": "lengthwise.tasks.word_order.WordOrder"},
    "pe": {"_target_": "lengthwise.nn.position.rotary.Rotary", "_partial_": True},
    "norm": {"_target_": "lengthwise.nn.norm.PreNorm", "_partial_": True},
    "norm_layer": {"_target_": "lengthwise.nn.norm.LayerNorm", "_partial_": True},
    "attention": {"_target_": "lengthwise.nn.attention.scaled.ScaledAttention", "_partial_": True},
    "init": {"_target_": "lengthwise.nn.init.DefaultInit"},
    "activation": {"_target_": "lengthwise.nn.feedforward.ReLU", "_partial_": True},
    "optimizer": {"_target_": "torch.optim.AdamW", "_partial_": True, "lr": 0.003},
    "schedule": {
        "_target_": "lengthwise.training.schedules.cosine", "_partial_": True,
        "warmup_steps": 100, "floor": 0.05, "steps": None,
    },
    "model": {
        "_target_": "lengthwise.nn.transformer.Encoder", "width": 64, "layers": 2, "heads": 4, "key_dim": None,
        "value_dim": None, "mlp_ratio": 4.0, "bias": False, "output_projection": True, "residual": True,
        "dropout": 0.0, "embedding_scale": 1.0,
    },
    "data": {"lengths": list(TRAINED), "batch_size": 32, "validation_size": 64, "repeat_batch": False},
    "evaluation": {"lengths": list(LENGTHS), "count": 1024, "checkpoints": ["last"], "symmetry": True},
    "trainer": {
        "max_steps": 300, "accumulate": 1, "clip": 1.0, "precision": "auto", "accelerator": "auto", "devices": 1,
        "threads": 1, "log_every": 10, "validate_every": 50, "checkpoint_every": 100, "profile": False,
    },
    "callbacks": {},
    "wandb": {"mode": "offline", "project": "lengthwise", "entity": None, "group": None, "tags": []},
    "debug": {},
    "study": {},
    "readout": "end",
    "seed": 0,
    "init_seed": 0,
    "data_seed": 0,
    "overwrite": False,
    "outputs": "outputs",
    "run": {"label": None},
}  # fmt: skip

START: dict[str, Any] = {
    "argv": ["train.py"],
    "precision": "32-true",
    "device": "cpu",
    "results_version": 1,
    "python": "3.11.9",
    "packages": {"lengthwise": "0.1.0", "torch": "2.13.0", "pytorch-lightning": "2.6.6", "numpy": "2.4.6"},
}

KEEPS = {
    "permutation": {"none"},
    "reversal": {"none", "alibi"},
    "translation": {"none", "rotary", "alibi", "t5"},
}
SYMMETRY_OF = {"whole_reversal": "reversal", "translation": "translation"}
ACTIONS = (
    "adjacent_swap", "reversal", "cyclic_shift", "block", "uniform", "whole_reversal", "translation", "padding",
)  # fmt: skip

LENGTH_COLUMNS = (
    "checkpoint", "step", "split", "protocol", "length", "stratum", "n", "n_tokens", "token_accuracy", "exact_match",
    "loss", "flags", "evaluation_id",
    "baseline_uniform", "baseline_bag_optimal", "best_blind",
)  # fmt: skip


def config_for(encoding: str, seed: int, **changes: Any) -> dict[str, Any]:
    """The config of one run; `changes` are dotted keys with ``__`` for the dot (``trainer__max_steps=600``)."""
    config = copy.deepcopy(CONFIG)
    config["pe"]["_target_"] = ENCODINGS[encoding][0]
    config |= {"seed": seed, "init_seed": seed, "data_seed": seed}
    for key, value in changes.items():
        *parents, leaf = key.split("__")
        node = config
        for parent in parents:
            node = node[parent]
        node[leaf] = value
    return config


def write_run(
    outputs: Path,
    encoding: str = "rotary",
    seed: int = 0,
    *,
    name: str | None = None,
    state: str = "done",
    reason: str | None = None,
    start: dict[str, Any] | None = None,
    later: tuple[dict[str, Any], ...] = (),
    variant: str = "",
    items: int = 1024,
    lengths: tuple[int, ...] = LENGTHS,
    shift: float = 0.0,
    **changes: Any,
) -> Path:
    """One run folder; `shift` is added to every true accuracy. Returns the folder.

    `start` changes the record of the first start, each of `later` is what differs in a further one.
    """
    config = config_for(encoding, seed, **changes)
    folder = outputs / "runs" / (name or run_name(config, run_hash(config)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
    steps = config["trainer"]["max_steps"]
    status = {
        "format": 1,
        "state": state,
        "reason": reason,
        "steps": steps,
        "max_steps": steps,
        "horizon": steps,
        "variant": variant,
        "results": {f"symmetry/{name}/declared": encoding in kept for name, kept in KEEPS.items()},
    }
    (folder / "status.json").write_text(json.dumps(status), encoding="utf-8")
    starts = [START | (start or {})]
    record = {"format": 1, "starts": starts + [starts[0] | other for other in later]}
    (folder / "provenance.json").write_text(json.dumps(record), encoding="utf-8")
    if state == "done":
        rng = np.random.default_rng([seed, *encoding.encode(), *str(changes).encode()])
        _write(folder / "length.csv", LENGTH_COLUMNS, length_rows(encoding, rng, lengths, items, shift))
        _write(folder / "symmetry.csv", None, symmetry_rows(encoding, rng))
        _write(folder / "train.csv", None, train_rows(rng, config["trainer"]["max_steps"]))
    return folder


def length_rows(
    encoding: str, rng: np.random.Generator, lengths: tuple[int, ...], items: int, shift: float
) -> list[dict[str, Any]]:
    """Accuracies by length and by where the evidence lies."""
    _, outside_level, decay = ENCODINGS[encoding]
    rows = []
    seed_shift = rng.normal(0, 0.25)
    for length in lengths:
        beyond = max(0.0, math.log(length / TRAINED[-1]))
        share = min(1.0, TRAINED[-1] / length)
        inside = 0.5 if encoding == "none" else _logit(0.99 - decay * beyond + shift, seed_shift)
        outside = 0.5 if encoding == "none" else _logit(outside_level - decay * beyond + shift, seed_shift)
        n_inside = round(items * share)
        right_inside = _draw(rng, encoding, n_inside, inside)
        right_outside = _draw(rng, encoding, items - n_inside, outside)
        strata = {
            "all": (items // 2 if encoding == "none" else right_inside + right_outside, items),
            "evidence_inside": (right_inside, n_inside),
            "evidence_outside": (right_outside, items - n_inside),
        }
        for stratum, (right, n) in strata.items():
            accuracy = right / n if n else ""
            flags = "untrained_positions" if encoding == "learned" and length > TRAINED[-1] else ""
            rows.append({
                "checkpoint": "last", "step": 300, "split": "test", "protocol": "parallel", "length": length,
                "stratum": stratum,
                "n": n, "n_tokens": n, "token_accuracy": accuracy, "exact_match": accuracy,
                "loss": 0.3 if n else "", "flags": flags, "evaluation_id": "trained",
                "baseline_uniform": 0.5, "baseline_bag_optimal": 0.5, "best_blind": 0.5,
            })  # fmt: skip
    return rows


def add_rows(folder: Path, *rows: dict[str, Any]) -> None:
    """Append to ``length.csv`` copies of its last row of a whole length that differ in what each of `rows` says."""
    with (folder / "length.csv").open(newline="") as stream:
        known = list(csv.DictReader(stream))
    base = [row for row in known if row["stratum"] == "all"][-1]
    with (folder / "length.csv").open("a", newline="") as stream:
        csv.DictWriter(stream, list(base)).writerows(base | row for row in rows)


def with_columns(folder: Path, **columns: str) -> None:
    """Give ``length.csv`` columns of those names, with these values in all rows."""
    with (folder / "length.csv").open(newline="") as stream:
        rows = [row | columns for row in csv.DictReader(stream)]
    with (folder / "length.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def symmetry_rows(encoding: str, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Errors at rounding level for what an encoding keeps, of order one for what it breaks."""
    rows = []
    for checkpoint, step in (("initial", 0), ("last", 300)):
        for action in ACTIONS:
            keeps = action == "padding" or encoding in KEEPS[SYMMETRY_OF.get(action, "permutation")]
            for dtype, rounding in (("float32", 2e-7), ("float64", 4e-16)):
                error = (rounding if keeps else 0.2) * rng.uniform(0.7, 1.3)
                if not keeps:
                    error *= 1 if checkpoint == "last" else 0.3
                rows.append({
                    "checkpoint": checkpoint, "step": step, "length": 10, "action": action, "quantity": "inputs",
                    "dtype": dtype, "draws": 8, "error_mean": error, "error_max": error * 1.5,
                    "difference_mean": error * 1.4, "difference_max": error * 2,
                    "flips": 0.0 if keeps else 0.2,
                    "evaluation_id": "trained",
                })  # fmt: skip
    return rows


def train_rows(rng: np.random.Generator, steps: int) -> list[dict[str, Any]]:
    return [
        {"step": step, "loss": 0.7 * math.exp(-step / 100) + abs(rng.normal(0, 0.01)), "lr": 0.003}
        for step in range(10, steps + 1, 10)
    ]


def _logit(level: float, shift: float) -> float:
    level = min(max(level, 0.01), 0.995)
    return 1 / (1 + math.exp(-(math.log(level / (1 - level)) + shift)))


def _draw(rng: np.random.Generator, encoding: str, n: int, probability: float) -> int:
    # Anagram twins: a blind model has exactly one of each pair right.
    return n // 2 if encoding == "none" else int(rng.binomial(n, probability))


def _write(path: Path, columns: tuple[str, ...] | None, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns or list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
