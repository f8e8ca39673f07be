"""What holds for every task that conf/ offers: an oracle that scores 1, chance that scores chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from lengthwise.batch import IGNORE, Batch
from lengthwise.build import build
from lengthwise.config import options
from lengthwise.evaluation.length import evaluate_lengths
from lengthwise.keyed import philox
from lengthwise.paths import conf_dir
from lengthwise.runs.lengths import parse_lengths
from lengthwise.tasks import SHAPES, Layout, Task
from lengthwise.training.metrics import AnswerMetrics

OPTIONS = options("task")


def of(option: str) -> tuple[Task, list[int]]:
    """The task, and the lengths that it is tested at by default."""
    config: Any = OmegaConf.to_container(OmegaConf.load(conf_dir() / "task" / f"{option}.yaml"))
    return build("task", config["task"]), parse_lengths(config["evaluation"]["lengths"])


def layouts(task: Task) -> list[Layout]:
    found = []
    for shape in SHAPES:
        try:
            found.append(Layout(task, shape))
        except ValueError as error:
            assert "use " in str(error), "a refusal says what would work"
    assert found, "no shape is legal"
    return found


class Told(nn.Module):
    """Stands for a model: says the symbols that `choose` gives for the targets of a batch."""

    prefix_stable = True

    def __init__(self, size: int, choose: Any) -> None:
        super().__init__()
        self.size, self.choose = size, choose

    def position_flags(self, *counts: int) -> tuple[str, ...]:
        return ()

    def forward(self, batch: Batch) -> Tensor:
        said = self.choose(batch.targets)
        return 20.0 * nn.functional.one_hot(said, self.size).float()


@pytest.mark.parametrize("option", OPTIONS)
def test_an_oracle_scores_one_and_chance_scores_chance(option: str) -> None:
    task, lengths = of(option)
    tested = [min(lengths), max(n for n in lengths if n <= max(40, min(lengths)))]
    for layout in layouts(task):
        size, ids = len(layout.vocabulary), torch.from_numpy(task.answer_ids)
        oracle = Told(size, lambda targets: targets.clamp(min=0))
        count = max(4, min(64, 2_000_000 // (size * tested[-1])))  # a large vocabulary makes large logits
        rows = evaluate_lengths(oracle, task, layout, tested, count, train_lengths=tested)  # type: ignore[arg-type]
        assert {row[name] for row in rows for name in ("token_accuracy", "exact_match")} <= {1.0, None}
        assert any(row["exact_match"] == 1.0 for row in rows)
        metrics = AnswerMetrics(layout.vocabulary.eos)
        batch = layout(task.generate(np.full(16, tested[0]), philox("oracle", option)))
        metrics.update(oracle(batch), batch.targets)
        figures = metrics.compute()
        assert (figures["token_accuracy"], figures["exact_match"]) == (1.0, 1.0)

        generator = torch.Generator().manual_seed(0)

        def guess(targets: Tensor, ids: Tensor = ids, generator: torch.Generator = generator) -> Tensor:
            return ids[torch.randint(len(ids), targets.shape, generator=generator)]

        for row in evaluate_lengths(
            Told(size, guess), task, layout, tested[-1:], 4 * count, train_lengths=tested
        ):  # type: ignore[arg-type]
            if row["stratum"] == "all" and row["n_tokens"]:
                chance = 1 / len(ids)
                deviation = (chance * (1 - chance) / row["n_tokens"]) ** 0.5
                assert abs(row["token_accuracy"] - chance) < 3 * deviation, layout.shape


@pytest.mark.parametrize("option", OPTIONS)
def test_baselines_are_accuracies(option: str) -> None:
    task, lengths = of(option)
    for length in (min(lengths), max(n for n in lengths if n <= max(40, min(lengths)))):
        known = task.baselines(length)
        assert "uniform" in known
        assert all(0 <= value <= 1 + 1e-12 for value in known.values()), known


@pytest.mark.parametrize("option", OPTIONS)
def test_scored_places_are_those_with_an_answer(option: str) -> None:
    """Nothing of the answer stands among what a model sees before it answers."""
    task, lengths = of(option)
    examples = task.generate(np.full(8, min(lengths)), philox("scored", option))
    for layout in layouts(task):
        batch = layout(examples)
        real = batch.targets != IGNORE
        assert real.any(1).all() or task.variable_answers or task.partly_scored
        if batch.targets.shape == batch.key_mask.shape:
            assert not (real & ~batch.key_mask).any()
