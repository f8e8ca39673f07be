"""What a job gets from its launcher, and what its launcher makes of its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lengthwise import compose, work
from lengthwise.runs import RunFolder
from lengthwise.runs.identity import run_hash
from lengthwise.sweeps.cells import Cell
from lengthwise.sweeps.job import BUSY, clean_environment, describe_exit
from lengthwise.sweeps.record import sweep_name
from lengthwise.sweeps.sweep import Sweep
from support.commandline import Result
from support.faulty import FAULTY, VARIABLE
from support.launching import jobs_in_this_process
from sweeps.conftest import BARE, Outputs


def test_a_job_does_not_take_itself_for_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "SLURM_NTASKS", "SLURM_PROCID", "PMI_RANK"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HARMLESS", "1")
    environment = clean_environment()
    assert environment["HARMLESS"] == "1"
    assert not [name for name in environment if name.startswith(("SLURM", "PMI")) or "RANK" in name]
    assert not {"WORLD_SIZE", "MASTER_ADDR"} & set(environment)


def test_the_file_of_a_job_holds_its_configuration_and_the_group(tmp_path: Path) -> None:
    made = compose(["pe=learned", "seed=3", f"outputs={tmp_path}"])
    sweep = Sweep("seed", [Cell(["seed=3"], made)])
    job = sweep.job(sweep.entries[0].cell)
    job.write()
    content = json.loads(job.file.read_text())
    assert content["argv"] == ["seed=3"]
    assert content["config"]["wandb"]["group"] == sweep.name
    assert run_hash(content["config"]) == run_hash(made) == job.name[-10:]
    assert job.command()[-2:] == ["job", str(job.file)]


def test_a_sweep_is_named_by_its_cells_in_whatever_order(tmp_path: Path) -> None:
    one, two, three = (Cell([], compose([f"seed={seed}", f"outputs={tmp_path}"])) for seed in (1, 2, 3))
    assert sweep_name("seed", [one, two]) == sweep_name("seed", [two, one])
    assert sweep_name("seed", [one, two]) != sweep_name("seed", [one, three])


def test_an_exit_code_of_zero_is_not_done(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs_in_this_process(monkeypatch)
    monkeypatch.setenv(VARIABLE, "1:exit")
    result = run("train", "-m", "seed=0,1", FAULTY, *BARE)
    assert result.code == 1
    outputs = Outputs(tmp_path / "outputs")
    assert outputs.states() == ["done", "failed"]
    assert outputs.record()["cells"][1]["reason"] == "exited with code 0 before the end"


def test_a_run_that_another_process_holds_is_not_failed(tmp_path: Path) -> None:
    made = compose([*BARE, f"outputs={tmp_path}"])
    sweep = Sweep("seed", [Cell([], made)])
    job = sweep.job(sweep.entries[0].cell)
    job.write()
    folder = RunFolder.create(made["outputs"], made)
    with folder.claim():
        assert work.run_file(job.file) == BUSY
    assert "already running" in (job.reason() or "")
    assert not folder.status_file.exists()


def test_exit_codes_in_words() -> None:
    assert describe_exit(-9) == "killed by SIGKILL"
    assert describe_exit(3) == "ended with exit code 3"
    assert describe_exit(None) == "ended without a word"
