"""Real runs on a real Slurm: what they give is what they give without it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lengthwise.composing import compose
from lengthwise.pipeline import train
from lengthwise.runs import RunFolder, read_table
from lengthwise.sweeps.job import Job
from support.commandline import SMALL
from support.slurm import OneNode

RUN = [
    *SMALL, "pe=learned", "trainer.accelerator=cpu", "trainer.max_steps=12", "trainer.log_every=1",
    "trainer.validate_every=5", "trainer.checkpoint_every=4", "schedule.warmup_steps=4", "data.validation_size=31",
    "evaluation.count=16", "evaluation.lengths=[4,10,14]", "evaluation.symmetry=false", "wandb=disabled",
]  # fmt: skip


@pytest.fixture(autouse=True)
def tests_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    here = str(Path(__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")])))


def job(outputs: Path, *overrides: str) -> Job:
    outputs.mkdir()
    words = [*RUN, f"outputs={outputs}", *overrides]
    config = compose(words)
    name = RunFolder.locate(outputs, config).name
    sweep = outputs / "sweeps" / "sweep"
    return Job(name, config, words, sweep / "jobs" / f"{name}.json", sweep / "logs" / f"{name}.log")


def numbers(job: Job) -> dict[str, list[dict[str, Any]]]:
    """Everything measured but the times."""
    tables = {path.name: read_table(path) for path in (job.folder.train_csv, job.folder.length_csv)}
    assert tables["train.csv"][-1]["step"] == 12 and tables["length.csv"]
    return {
        name: [
            {k: v for k, v in row.items() if not k.startswith(("time", "seconds", "tokens_per"))}
            for row in rows
        ]
        for name, rows in tables.items()
    }


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_preempted_run_ends_with_the_numbers_of_an_undisturbed_one(
    driver, node: OneNode, tmp_path: Path, devices: int
):
    once = tmp_path / "paused"
    pause = [
        f"trainer.devices={devices}",
        "+callbacks.pause._target_=support.slurm_pause.Pausing",
        "+callbacks.pause.step=6",
        f"+callbacks.pause.once={once}",
    ]
    disturbed = job(tmp_path / "outputs", *pause)
    sweep = driver(gpus_per_task=1)
    sweep.start(disturbed)
    (job_id,) = sweep.ids().values()
    node.wait_until(once.exists, 90, "the run does not come to its pause")
    node.submit("--partition=high", "--gres=gpu:2", run="sleep 1")
    node.wait_until(lambda: node.jobs().get(job_id) == "PENDING", hint="it is not queued again")
    between = disturbed.folder.status()
    assert (between.state, between.steps) == ("interrupted", 6)
    assert not sweep.look(), "it has not ended"
    node.start_again(job_id)
    assert sweep.finish(90)[disturbed.name].code == 0, disturbed.log.read_text()
    starts = json.loads(disturbed.folder.provenance_file.read_text())["starts"]
    assert len(starts) == 2

    undisturbed = job(tmp_path / "undisturbed", *pause)
    train(undisturbed.config)
    assert numbers(disturbed) == numbers(undisturbed)
    assert disturbed.folder.status().results == undisturbed.folder.status().results


def test_a_job_of_two_tasks_equals_the_local_one(driver, node: OneNode, tmp_path: Path):
    two = job(tmp_path / "outputs", "trainer.devices=2")
    sweep = driver()
    sweep.start(two)
    end = sweep.finish(120)[two.name]
    assert end.code == 0, f"{end.reason} {two.reason()} {two.log.read_text()}"
    local = job(tmp_path / "local", "trainer.devices=2")
    train(local.config)
    assert numbers(two) == numbers(local)
    assert sorted(path.name for path in (tmp_path / "outputs" / "runs").iterdir()) == [two.name]
