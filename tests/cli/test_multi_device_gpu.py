"""One run on several GPUs: needs two of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lengthwise.runs import read_table
from support.commandline import SMALL, in_process

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
]
COMMAND = [
    *SMALL, "pe=t5", "wandb=disabled", "trainer.precision=32-true", "trainer.max_steps=12", "trainer.log_every=1",
    "trainer.validate_every=5", "schedule.warmup_steps=4", "data.validation_size=33", "evaluation.count=16",
    "evaluation.lengths=[4,10]", "evaluation.symmetry_draws=2",
]  # fmt: skip


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_gpus_give_the_numbers_of_one(strategy: str, tmp_path: Path) -> None:
    tables = []
    for name, words in (("one", []), ("two", ["trainer.devices=2", f"trainer.strategy={strategy}"])):
        (tmp_path / name).mkdir()
        result = in_process(tmp_path / name, "train", *COMMAND, *words)
        assert result.code == 0, result.err
        (folder,) = (tmp_path / name / "outputs" / "runs").iterdir()
        tables.append(read_table(folder / "train.csv"))
    for one, two in zip(*tables, strict=True):
        assert two["loss"] == (None if one["loss"] is None else pytest.approx(one["loss"], abs=1e-4))
