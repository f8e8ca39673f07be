"""What W&B shows of a run that is done, beside the rows of its training; all of it is in the run folder too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lengthwise.build import build_model
from lengthwise.errors import LengthwiseError
from lengthwise.evaluation import scorecard
from lengthwise.evaluation.position_codes import Subject, fill_empty_tables
from lengthwise.measure import tested
from lengthwise.runs import RunFolder, component_name, read_table, variant_hash
from lengthwise.runs.atomic import write_atomic
from lengthwise.tasks import Layout
from lengthwise.tracking import TrackedRun

WIDEST = 128
"""The width of `lengthwise scorecard`: of a wider model, the codes of all positions would fill the memory."""


def show_results(
    wandb_run: TrackedRun,
    folder: RunFolder,
    config: dict[str, Any],
    layout: Layout,
    results: dict[str, Any],
    pictures: Sequence[Path] = (),
) -> None:
    """Accuracy against length, the certificate and the scorecard as tables, `pictures`; `results` in the summary."""
    if wandb_run.run is None:
        return
    wandb_run.log_lengths(tested(folder, config["evaluation"]["checkpoints"][0]))
    wandb_run.log_table("certificate", read_table(folder.symmetry_csv))
    wandb_run.log_table("scorecard", variant_scorecard(config, layout))
    wandb_run.log_images(pictures)
    wandb_run.summarise(results)


def variant_scorecard(config: dict[str, Any], layout: Layout) -> list[dict[str, Any]]:
    """`scorecard_row` of the first run of the same variant here, with that run's `init_seed`: another seed's would cost
    as much and say the same, up to its random projections."""
    file = Path(config["outputs"]) / "wandb" / "cache" / "scorecards" / f"{variant_hash(config)}.json"
    with suppress(OSError, ValueError):
        return list(json.loads(file.read_text(encoding="utf-8")))
    rows = [{**row, "init_seed": config["init_seed"]} for row in scorecard_row(config, layout)]
    with suppress(OSError, TypeError, LengthwiseError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, json.dumps(rows).encode())
    return rows


def scorecard_row(config: dict[str, Any], layout: Layout) -> list[dict[str, Any]]:
    """The figures of the run's encoding at the sizes of its model, untrained, without what it costs.

    No row where there is no scorecard: of an encoder-decoder, which has two encodings, or without queries and keys.
    """
    sizes = {**config["model"], "width": min(config["model"]["width"], WIDEST)}
    try:
        model = build_model({**config, "model": sizes}, layout)
        if not hasattr(model, "stack"):
            return []
        fill_empty_tables(model)
        card = scorecard.measure(Subject.of(model))
    except Exception:  # somebody's own encoding may do anything
        return []
    figures = {name: value for name, value in card.figures.items() if value is not None}
    kept = [name for name, holds in card.symmetries.items() if holds]
    encoding = component_name(config["pe"])
    return [
        {
            "encoding": encoding,
            "width": sizes["width"],
            **figures,
            "symmetries": " ".join(kept),
            "notes": "; ".join(card.notes),
        }
    ]
