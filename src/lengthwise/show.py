"""``lengthwise show``: sequences of a task as a person reads them, and what a trained run answers."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from lengthwise.batch import IGNORE, Batch
from lengthwise.build import build_layout, build_parts, build_task
from lengthwise.composing import compose
from lengthwise.config import check, hint
from lengthwise.errors import ConfigError
from lengthwise.evaluation.decoding import at_targets, greedy
from lengthwise.evaluation.modes import device_of, evaluation_mode
from lengthwise.keyed import philox
from lengthwise.nn import Transformer
from lengthwise.runs import find_run
from lengthwise.runs.lengths import LONGEST
from lengthwise.tasks import Examples, Layout, Task, test_items, validation_items
from lengthwise.training.callbacks.checkpoints import load_weights

_MOST = 4096
"""Sequences at once; nobody reads more."""

_OWN = {
    "length": None,
    "count": "5",
    "split": "test",
    "run": None,
    "outputs": "outputs",
    "checkpoint": "last",
}


def show(arguments: Sequence[str]) -> int:
    """Print `count` sequences of a task at one length, laid out for a model; with ``run=`` the model's answers too.

    Raises ConfigError for a length that the task does not have, a wrong key, or a run that is asked for with options
    of another; RunError for a run that is not there.
    """
    own, overrides = _split(arguments)
    if own["run"]:
        if overrides:
            raise ConfigError(f"{overrides[0]}: run={own['run']} has a task and a model of its own")
        config, task, layout, model = _trained(str(own["run"]), str(own["outputs"]), str(own["checkpoint"]))
    else:
        config, model = compose([*overrides, "evaluation.symmetry=false"]), None
        task = build_task(config)
        layout = build_layout(config, task)
    length = _number("length", own["length"] or max(config["data"]["lengths"]), LONGEST)
    examples = _examples(task, length, _number("count", own["count"], _MOST), str(own["split"]))
    key = (own["split"], length)
    batch = layout(examples, *key)
    said = None if model is None else _answers(model, layout, examples, batch)
    print(f"task {task.name}, {length} input symbols, for a model of shape {layout.shape}")
    for index in range(len(examples)):
        print(f"\n{_sequence(task, layout, examples, batch, said, index)}")
    return 0


def _split(arguments: Sequence[str]) -> tuple[dict[str, str | None], list[str]]:
    """What is ours, and the overrides of the configuration."""
    own: dict[str, str | None] = dict(_OWN)
    overrides = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            raise ConfigError(f"{argument}: arguments are written key=value.{hint(key, list(_OWN))}")
        if key in own:
            own[key] = value
        else:
            overrides.append(argument)
    return own, overrides


def _number(option: str, value: Any, most: int) -> int:
    try:
        number = int(value)
    except ValueError:
        number = 0
    if not 1 <= number <= most:
        raise ConfigError(f"{option}={value}: must be a whole number from 1 to {most}")
    return number


def _trained(run: str, outputs: str, checkpoint: str) -> tuple[dict[str, Any], Task, Layout, Transformer]:
    folder = find_run(outputs, run)
    config = check(folder.read_config())
    folder.refuse_changed_source(config)
    task, layout, model = build_parts(config)
    load_weights(model, folder.checkpoints / f"{checkpoint}.ckpt")
    return config, task, layout, model.eval()


def _examples(task: Task, length: int, count: int, split: str) -> Examples:
    try:
        if split == "test":
            return test_items(task, length, count)
        if split == "val":
            return validation_items(task, length, count)
        return task.generate(np.full(count, length), philox("show", task.identity, length), split)
    except ValueError as error:
        raise ConfigError(f"length={length} split={split}: {error}") from error


def _answers(model: Transformer, layout: Layout, examples: Examples, batch: Batch) -> torch.Tensor:
    """(B, N) what the model answers where `batch` has targets, decoded symbol by symbol where it reads its answers."""
    if layout.autoregressive:
        return at_targets(greedy(model, examples, layout), batch.targets)
    with evaluation_mode(model):
        return model(batch.to(device_of(model))).argmax(-1).cpu()


def _sequence(
    task: Task, layout: Layout, examples: Examples, batch: Batch, said: torch.Tensor | None, index: int
) -> str:
    """One example, and below it what a model sees of it."""
    names = layout.vocabulary
    length, count = int(examples.lengths[index]), int(examples.answer_lengths[index])
    lines = []
    if examples.features is None:
        lines.append(f"input   {names.decode(examples.inputs[index, :length])}")
    else:
        vectors = [
            " ".join(f"{v:.3g}" for v in vector) for vector in examples.features[index, :length].tolist()
        ]
        lines += [f"{'' if row else 'input':<7} {row}: {vector}" for row, vector in enumerate(vectors)]
    lines.append(f"answer  {names.decode(examples.answers[index, :count])}")
    place = int(examples.evidence[index])
    if place >= 0:
        lines.append(f"decided at input position {place} (from 0)")
    sides = [("source", batch.source)] if batch.source is not None else []
    for name, side in [*sides, ("sequence", batch)]:
        real = side.key_mask[index]
        rows = {"sees": [names.decode([i]) for i in side.tokens[index][real]]}
        if side.positions is not None:
            rows["number"] = [f"{n:g}" for n in side.positions[index][real].tolist()]
        if side is batch and batch.targets.shape[1] == batch.tokens.shape[1]:
            rows["answers"] = _marked(names, batch.targets[index][real])
            if said is not None:
                scored = torch.where(batch.targets == IGNORE, IGNORE, said)
                rows["model"] = _marked(names, scored[index][real])
        elif side is batch and said is not None:  # one answer, read from the mean of all positions
            lines.append(f"model   {names.decode(said[index])}")
        lines.append(_aligned(rows) if name == "sequence" else f"{name}\n{_aligned(rows)}")
    return "\n".join(lines)


def _marked(names: Any, ids: torch.Tensor) -> list[str]:
    return ["" if i == IGNORE else ("?" if i < 0 else names.decode([i])) for i in ids.tolist()]


def _aligned(rows: dict[str, list[str]]) -> str:
    """Rows below each other, in columns, folded at the width of the terminal."""
    width = shutil.get_terminal_size((100, 24)).columns
    label = max(map(len, rows)) + 4
    columns = list(zip(*rows.values(), strict=True))
    lines, start = [], 0
    while start < len(columns):
        taken, used = start, label
        while taken < len(columns):
            cell = max(map(len, columns[taken])) + 1
            if taken > start and used + cell > width:
                break
            used, taken = used + cell, taken + 1
        for row, name in enumerate(rows):
            cells = " ".join(c[row].rjust(max(map(len, c))) for c in columns[start:taken])
            lines.append(f"  {name.ljust(label - 2)}{cells}".rstrip())
        start = taken
        if start < len(columns):
            lines.append("")
    return "\n".join(lines)
