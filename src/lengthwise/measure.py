"""Testing the checkpoints of a run, and adding what is found to its folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from lengthwise.console import say
from lengthwise.evaluation.actions import PERMUTATIONS
from lengthwise.evaluation.bins import bin_items, evaluate_bins
from lengthwise.evaluation.length import counts_in, evaluate_lengths, summarise, with_baselines
from lengthwise.evaluation.perplexity import perplexity
from lengthwise.evaluation.symmetry import certificate
from lengthwise.evaluation.verdict import kept, verdicts
from lengthwise.nn import Transformer
from lengthwise.runs import RunFolder, Status, Table, read_table
from lengthwise.runs.lengths import SLIDING, bin_of
from lengthwise.runs.tables import LENGTH_COLUMNS, LENGTH_KEY, SYMMETRY_COLUMNS, SYMMETRY_KEY
from lengthwise.runs.tested import (
    TRAINED,
    current_rows,
    is_certified,
    symmetry_length,
    tested_bins,
    tested_lengths,
)
from lengthwise.tasks import Layout, Task, test_items, train_overlap
from lengthwise.tasks.items import legal_lengths
from lengthwise.tasks.overlap import AT_LEAST, EXACT
from lengthwise.training.callbacks.checkpoints import load_weights
from lengthwise.training.data import global_examples
from lengthwise.training.hardware import device_of

Row = dict[str, Any]

_LONG = 1000
"""The longest test that begins without a word."""

_SILENCE = 10.0
"""Seconds of testing until it is told how far it is."""


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
        rows = _tested(config, task, layout, model, *missing, f"testing {checkpoint}")
        head = {"checkpoint": checkpoint, "step": step, "evaluation_id": evaluation_id}
        rows = [{**head, **row} for row in _beside(rows, config, task, step)]
        Table(folder.length_csv, _columns(rows)).replace(rows, LENGTH_KEY)
        found += rows
        if config["evaluation"]["symmetry"] and evaluation_id == TRAINED:
            record_symmetry(folder, config, task, layout, model, checkpoint, step)
    return found


def _missing(
    folder: RunFolder, config: dict[str, Any], task: Task, checkpoint: str, step: int, evaluation_id: str
) -> tuple[list[int], list[tuple[int, int]]]:
    """The asked-for lengths and bins that are not in ``length.csv`` for these weights with this many sequences."""
    asked = config["evaluation"]
    count = asked["count"]
    if (fixed := task.fixed_items("test")) is not None:
        count = min(count, len(fixed))
    those: dict[str, Any] = {"step": step, "evaluation_id": evaluation_id}
    lengths = tested_lengths(folder, checkpoint, count, **those)
    bins = tested_bins(folder, checkpoint, count, **those)
    return [length for length in asked["lengths"] if length not in lengths], [
        (low, high) for low, high in asked["bins"] if (low, high) not in bins
    ]


def _tested(
    config: dict[str, Any],
    task: Task,
    layout: Layout,
    model: Transformer,
    lengths: Sequence[int],
    bins: Sequence[tuple[int, int]],
    label: str,
) -> list[Row]:
    if not (lengths or bins):
        return []
    began, count = time.monotonic(), config["evaluation"]["count"]
    options: dict[str, Any] = {
        "train_lengths": config["data"]["lengths"],
        "max_tokens_per_batch": config["evaluation"]["batch_tokens"],
    }
    rows, told = [], began
    if lengths and max(lengths) > _LONG:
        say(f"{label}: {len(lengths)} lengths, up to {max(lengths)}")
    for number, length in enumerate(lengths, start=1):
        rows += evaluate_lengths(model, task, layout, [length], count, **options)
        if number < len(lengths) and time.monotonic() - told > _SILENCE:
            told = time.monotonic()
            say(f"{label}: {number} of {len(lengths)} lengths in {told - began:.0f} s")
    rows += evaluate_bins(model, task, layout, bins, count, **options)
    say(f"{label}: {what_of(rows)} in {time.monotonic() - began:.1f} s")
    return [{**row, "asked": count} for row in rows]


def what_of(rows: Sequence[Row]) -> str:
    """How many lengths and bins `rows` are about, in words."""
    bins = {row["stratum"] for row in rows if bin_of(row["stratum"])}
    lengths = {row["length"] for row in rows if not bin_of(row["stratum"])}
    return f"{len(lengths)} lengths" + (f" and {len(bins)} bins" if bins else "")


def _beside(rows: list[Row], config: dict[str, Any], task: Task, step: int) -> list[Row]:
    """`rows`, those of whole lengths with the task's baselines, and with the bins the share of test items that training
    has seen."""
    if not rows:
        return []
    bins = [row for row in rows if bin_of(row["stratum"])]
    completed: list[Row] = []
    for row in with_baselines([row for row in rows if not bin_of(row["stratum"])], task):
        known = row.pop("baselines")
        if row["stratum"] == "all":
            row |= {f"baseline_{k}": v for k, v in known.items()}
        else:
            del row["best_blind"]  # computed for whole lengths
        completed.append(row)
    _add_overlap([row for row in completed if row["stratum"] == "all"] + bins, config, task, step)
    return completed + bins


def _add_overlap(rows: list[Row], config: dict[str, Any], task: Task, step: int) -> None:
    """Enter into `rows` which share of their test items is among the sequences trained on up to `step`.

    Lengths that training never shows share nothing.
    """
    data, trained = config["data"], set(config["data"]["lengths"])
    tests = {}
    for index, row in enumerate(rows):
        if found := bin_of(row["stratum"]):
            sets = bin_items(task, *found, row["asked"]) if row["n"] else []
            tests[index] = [examples for examples in sets if int(examples.lengths[0]) in trained]
        else:
            known = row["n"] and row["length"] in trained
            tests[index] = [test_items(task, row["length"], row["n"])] if known else []
    which = {"lengths": data["lengths"], "batch_size": data["batch_size"], "data_seed": config["data_seed"]}
    batches = range(1 if data["repeat_batch"] else step)
    seen = (global_examples(task, **which, split="train", step=i) for i in batches)
    shares = iter(train_overlap([examples for sets in tests.values() for examples in sets], seen))
    for index, sets in tests.items():
        found_in = [(len(examples), *next(shares)) for examples in sets]
        seen_items = sum(size * share for size, share, _ in found_in)
        rows[index]["train_overlap"] = seen_items / rows[index]["n"] if rows[index]["n"] else 0.0
        rows[index]["overlap_is"] = AT_LEAST if any(kind == AT_LEAST for *_, kind in found_in) else EXACT


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
    lengths = (row["length"] for row in rows if not bin_of(row["stratum"]))
    status.evaluations[evaluation_id] = sorted({*known, *lengths})


def protocols(folder: RunFolder, evaluation: dict[str, Any], task: Task) -> dict[str, float | None]:
    """The figures of bins, of the mean over a range of lengths, and of a text, that `evaluation` asks for; see
    `headline`."""
    figures: dict[str, float | None] = {}
    for checkpoint in evaluation["checkpoints"]:
        figures |= _protocols(tested(folder, checkpoint), evaluation, task, checkpoint)
    return figures


def _protocols(
    rows: Sequence[Row], evaluation: dict[str, Any], task: Task, checkpoint: str
) -> dict[str, float | None]:
    figures: dict[str, float | None] = {}
    everything = {row["length"]: row for row in rows if row["stratum"] == "all"}
    for measure in ("token_accuracy", "exact_match"):
        for row in rows:
            if (found := bin_of(row["stratum"])) and list(found) in evaluation["bins"]:
                figures[f"{checkpoint}/{measure}/{found[0]}-{found[1]}"] = row[measure]
        if evaluation["mean"] is not None:
            low, high = evaluation["mean"]
            asked = [everything.get(length) for length in legal_lengths(task, low, high)]
            values = [
                None if row is None else row[measure]
                for row in asked
                if row is None or counts_in(row, measure)
            ]
            known = [value for value in values if value is not None]
            complete = bool(known) and len(known) == len(values)
            figures[f"{checkpoint}/{measure}/mean_{low}-{high}"] = (
                sum(known) / len(known) if complete else None
            )
    if any(row["stratum"] == SLIDING for row in rows):
        for row in rows:
            if row["stratum"] in ("all", SLIDING) and row["length"] in evaluation["lengths"]:
                name = f"{checkpoint}/perplexity/{row['length']}"
                name += "" if row["stratum"] == "all" else f"/{row['stratum']}"
                figures[name] = perplexity(row["loss"])
    return figures


def headline(folder: RunFolder, config: dict[str, Any], layout: Layout, model: Transformer) -> dict[str, Any]:
    """The figures that runs are sorted by, from the folder's tables: flat names, plain numbers.

    ``<checkpoint>/<measure>/in_distribution``, ``…/extrapolation``, ``…/reach``; ``…/51-100`` of a bin;
    ``…/mean_41-500`` of ``evaluation.mean`` (None unless each of these lengths that the task has was tested);
    ``<checkpoint>/perplexity/128`` and ``…/perplexity/128/sliding_window`` of a text; the symmetry verdicts before
    training; the mean equivariance errors of the first checkpoint, ``equivariance/<permutation>/<dtype>`` relative to
    ‖f(x)‖ and ``…/difference`` relative to ‖f(x) − f(x′)‖.
    """
    figures: dict[str, Any] = dict(protocols(folder, config["evaluation"], layout.task))
    own = set(config["evaluation"]["lengths"])  # comparable between runs, whatever was tested besides
    for checkpoint in config["evaluation"]["checkpoints"]:
        of_checkpoint = [row for row in tested(folder, checkpoint) if row["length"] in own]
        if not any(row["stratum"] == "all" for row in of_checkpoint):
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
    for verdict in verdicts(initial, kept(model, layout)):
        figures[f"symmetry/{verdict['symmetry']}/declared"] = verdict["declared"]
        figures[f"symmetry/{verdict['symmetry']}/measured"] = verdict["measured"]
    return figures
