"""Testing the checkpoints of a run, and adding what is found to its folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from lengthwise.console import say
from lengthwise.evaluation.actions import PERMUTATIONS
from lengthwise.evaluation.length import evaluate_lengths, summarise, with_baselines
from lengthwise.evaluation.symmetry import certificate
from lengthwise.evaluation.verdict import verdicts
from lengthwise.nn import Transformer
from lengthwise.runs import RunFolder, Status, Table, read_table
from lengthwise.runs.tables import LENGTH_COLUMNS, LENGTH_KEY, SYMMETRY_COLUMNS, SYMMETRY_KEY
from lengthwise.runs.tested import TRAINED, current_rows, is_certified, symmetry_length, tested_lengths
from lengthwise.tasks import Layout, Task, seen_inputs, shared_items, test_items
from lengthwise.training.callbacks.checkpoints import load_weights
from lengthwise.training.data import global_examples
from lengthwise.training.hardware import device_of

Row = dict[str, Any]

_OVERLAP_SEQUENCES = 100_000


def measure(
    folder: RunFolder,
    config: dict[str, Any],
    task: Task,
    layout: Layout,
    model: Transformer,
    *,
    evaluation_id: str = TRAINED,
) -> list[Row]:
    """Test the checkpoints in ``evaluation.checkpoints`` where a length, or the certificate, is still missing.

    Returns the new rows of ``length.csv``. The model is left with the weights of the last checkpoint in the list.

    Raises RunError for a checkpoint that is missing or damaged.
    """
    model.to(device_of(config["trainer"]["accelerator"]))  # Lightning leaves it on the CPU
    found: list[Row] = []
    steps: dict[int, str] = {}
    for checkpoint in config["evaluation"]["checkpoints"]:
        step = load_weights(model, folder.checkpoints / f"{checkpoint}.ckpt")
        if twin := steps.get(step):  # the best weights are the last ones
            _copy_rows(folder, twin, checkpoint, step, evaluation_id)
            continue
        steps[step] = checkpoint
        missing = _missing(folder, config, task, checkpoint, step, evaluation_id)
        rows = _lengths(config, task, layout, model, missing, f"testing {checkpoint}")
        head = {"checkpoint": checkpoint, "step": step, "evaluation_id": evaluation_id}
        rows = [{**head, **row} for row in _beside(rows, config, task, step)]
        Table(folder.length_csv, _columns(rows)).replace(rows, LENGTH_KEY)
        found += rows
        if config["evaluation"]["symmetry"] and evaluation_id == TRAINED:
            record_symmetry(folder, config, task, layout, model, checkpoint, step)
    return found


def _missing(
    folder: RunFolder, config: dict[str, Any], task: Task, checkpoint: str, step: int, evaluation_id: str
) -> list[int]:
    """The asked-for lengths that are not in ``length.csv`` for these weights with this many sequences."""
    count = config["evaluation"]["count"]
    if (fixed := task.fixed_items("test")) is not None:
        count = min(count, len(fixed))
    present = tested_lengths(folder, checkpoint, count, step=step, evaluation_id=evaluation_id)
    return [length for length in config["evaluation"]["lengths"] if length not in present]


def _lengths(
    config: dict[str, Any], task: Task, layout: Layout, model: Transformer, lengths: Sequence[int], label: str
) -> list[Row]:
    if not lengths:
        return []
    began = time.monotonic()
    rows = evaluate_lengths(
        model,
        task,
        layout,
        lengths,
        config["evaluation"]["count"],
        train_lengths=config["data"]["lengths"],
        max_tokens_per_batch=config["evaluation"]["batch_tokens"],
    )
    say(f"{label}: {len(lengths)} lengths in {time.monotonic() - began:.1f} s")
    return rows


def _beside(rows: list[Row], config: dict[str, Any], task: Task, step: int) -> list[Row]:
    """`rows`, those of whole lengths with the task's baselines and the share of test items that training has seen."""
    if not rows:
        return []
    seen = _train_overlap(
        config, task, {row["length"]: row["n"] for row in rows if row["stratum"] == "all"}, step
    )
    completed: list[Row] = []
    for row in with_baselines(rows, task):
        known = row.pop("baselines")
        if row["stratum"] == "all":
            row |= {"train_overlap": seen[row["length"]], **{f"baseline_{k}": v for k, v in known.items()}}
        else:
            del row["best_blind"]  # computed for whole lengths
        completed.append(row)
    return completed


def _train_overlap(config: dict[str, Any], task: Task, counts: dict[int, int], step: int) -> dict[int, float]:
    """Length -> share of the test items that are among the sequences trained on up to `step`.

    Exact for the first `_OVERLAP_SEQUENCES` training sequences, and so a lower bound for longer training. Lengths that
    training never shows share nothing.
    """
    data = config["data"]
    batches = 1 if data["repeat_batch"] else min(step, -(-_OVERLAP_SEQUENCES // data["batch_size"]))
    which = {"lengths": data["lengths"], "batch_size": data["batch_size"], "data_seed": config["data_seed"]}
    seen = seen_inputs(global_examples(task, **which, split="train", step=i) for i in range(batches))
    return {
        length: shared_items(test_items(task, length, n), seen) if length in data["lengths"] and n else 0.0
        for length, n in counts.items()
    }


def _columns(rows: list[Row]) -> list[str]:
    extra = sorted({name for row in rows for name in row if name.startswith("baseline_")})
    return [*LENGTH_COLUMNS, *extra]


def _copy_rows(folder: RunFolder, source: str, target: str, step: int, evaluation_id: str) -> None:
    head = {"checkpoint": source, "step": step, "evaluation_id": evaluation_id}
    for path, key in ((folder.length_csv, LENGTH_KEY), (folder.symmetry_csv, SYMMETRY_KEY)):
        rows = [r for r in read_table(path) if all(r[name] == value for name, value in head.items())]
        if rows:
            Table(path, list(rows[0])).replace([{**row, "checkpoint": target} for row in rows], key)


def record_symmetry(
    folder: RunFolder,
    config: dict[str, Any],
    task: Task,
    layout: Layout,
    model: Transformer,
    checkpoint: str,
    step: int,
) -> None:
    """Measure the model's certificate and add it to ``symmetry.csv`` under `checkpoint`, unless it is there."""
    options = config["evaluation"]
    if is_certified(folder, config, checkpoint, step=step):
        return
    rows = certificate(
        model,
        task,
        layout,
        length=symmetry_length(config),
        draws=options["symmetry_draws"],
        sequences=options["symmetry_sequences"],
    )
    head = {"checkpoint": checkpoint, "step": step, "evaluation_id": TRAINED}
    table = Table(folder.symmetry_csv, SYMMETRY_COLUMNS)
    table.replace([{**head, **row} for row in rows], SYMMETRY_KEY)


def tested(folder: RunFolder, checkpoint: str) -> list[Row]:
    """The rows of ``length.csv`` for a checkpoint's present weights, with the options they were trained with."""
    return current_rows(read_table(folder.length_csv), checkpoint)


def note(status: Status, rows: Sequence[Row], evaluation_id: str = TRAINED) -> None:
    """Enter the lengths of `rows`, new in ``length.csv``, under their evaluation."""
    known = status.evaluations.get(evaluation_id, [])
    status.evaluations[evaluation_id] = sorted({*known, *(row["length"] for row in rows)})


def headline(folder: RunFolder, config: dict[str, Any], model: Transformer) -> dict[str, Any]:
    """The figures that runs are sorted by, from the folder's tables: flat names, plain numbers.

    ``<checkpoint>/<measure>/in_distribution``, ``…/extrapolation``, ``…/reach``; the symmetry verdicts before training;
    the mean equivariance errors of the first checkpoint, ``equivariance/<permutation>/<dtype>`` relative to ‖f(x)‖ and
    ``…/difference`` relative to ‖f(x) − f(x′)‖.
    """
    figures: dict[str, Any] = {}
    own = set(config["evaluation"]["lengths"])  # comparable between runs, whatever was tested besides
    for checkpoint in config["evaluation"]["checkpoints"]:
        of_checkpoint = [row for row in tested(folder, checkpoint) if row["length"] in own]
        if not of_checkpoint:
            continue
        for measure, values in summarise(of_checkpoint, config["data"]["lengths"]).items():
            if isinstance(values, dict):
                figures |= {f"{checkpoint}/{measure}/{name}": value for name, value in values.items()}
    certificates = [
        row for row in read_table(folder.symmetry_csv) if row["length"] == symmetry_length(config)
    ]
    for row in current_rows(certificates, config["evaluation"]["checkpoints"][0]):
        if row["action"] in PERMUTATIONS and row["quantity"] == (
            "inputs" if model.readout == "token" else "answer"
        ):
            name = f"equivariance/{row['action']}/{row['dtype']}"
            figures |= {name: row["error_mean"], f"{name}/difference": row["difference_mean"]}
    initial = [row for row in certificates if row["checkpoint"] == "initial"]
    for verdict in verdicts(initial, model.symmetries):
        figures[f"symmetry/{verdict['symmetry']}/declared"] = verdict["declared"]
        figures[f"symmetry/{verdict['symmetry']}/measured"] = verdict["measured"]
    return figures
