"""What a job gets from its launcher, and what its launcher makes of its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lengthwise import compose, work
from lengthwise.errors import RunError
from lengthwise.runs import RunFolder, Status
from lengthwise.runs.atomic import PREFIX
from lengthwise.runs.ending import Stopped
from lengthwise.runs.identity import run_hash
from lengthwise.runs.owner import Owner
from lengthwise.sweeps.cells import Cell
from lengthwise.sweeps.job import BUSY, Job, clean_environment, describe_exit
from lengthwise.sweeps.launcher import Ended
from lengthwise.sweeps.record import Entry, Record, sweep_name
from lengthwise.sweeps.sweep import Sweep
from support.commandline import Result
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
    monkeypatch.setattr(work, "run_file", lambda path: 0)
    result = run("train", "-m", "seed=0", *BARE)
    assert result.code == 1
    outputs = Outputs(tmp_path / "outputs")
    assert outputs.states() == ["failed"]
    assert outputs.record()["cells"][0]["reason"] == "ended with exit code 0"


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


def job_of(tmp_path: Path, *words: str) -> Job:
    made = compose([*BARE, f"outputs={tmp_path}", *words])
    sweep = Sweep("seed", [Cell([], made)])
    job = sweep.job(sweep.entries[0].cell)
    job.write()
    return job


@pytest.mark.parametrize("code", [BUSY, 0, 3])
def test_what_exits_is_neither_busy_nor_done(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lengthwise.pipeline.train", lambda *_: sys.exit(code))
    job = job_of(tmp_path)
    assert work.run_file(job.file) == work.FAILED
    assert job.reason() == f"exited with code {code} before the end"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Stopped("worse than the median"), "worse than the median"),
        (KeyboardInterrupt(), "stopped by the user"),
    ],
    ids=["stopped", "Ctrl-C"],
)
def test_an_interrupted_job_gives_the_reason_of_its_status(
    error: BaseException, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tmp_path)

    def train(*_: object) -> None:
        folder = RunFolder.create(job.config["outputs"], job.config)
        with folder.ending(Status.first(job.config, 1, 1)):
            raise error

    monkeypatch.setattr("lengthwise.pipeline.train", train)
    assert work.run_file(job.file) == work.INTERRUPTED
    assert job.reason() == reason


def test_the_reason_of_an_earlier_interruption_is_not_this_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tmp_path)
    folder = RunFolder.create(job.config["outputs"], job.config)
    status = Status.first(job.config, 1, 1)
    status.state, status.reason = "interrupted", "SIGTERM"
    status.owner = {**Owner.current().to_dict(), "pid": 2**22 + 1}
    folder.write_status(status)

    def train(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lengthwise.pipeline.train", train)
    assert work.run_file(job.file) == work.INTERRUPTED
    assert job.reason() == "interrupted"


def test_a_component_that_changed_since_is_not_another_runs_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "changing.py"
    source.write_text("class Changing: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    job = job_of(tmp_path, "+callbacks.mine._target_=support.faulty.Faulty")
    job.config["callbacks"]["mine"]["_target_"] = "changing.Changing"
    job = replace(job, name=RunFolder.locate(tmp_path, job.config).name)
    job.write()
    source.write_text("class Changing: 'another'\n")
    assert work.run_file(job.file) == work.REFUSED
    assert "the source of changing.Changing" in (job.reason() or "")
    assert "changed since the sweep was composed" in (job.reason() or "")
    assert not (tmp_path / "runs").exists()


def test_exit_codes_in_words() -> None:
    assert describe_exit(-9) == "killed by SIGKILL"
    assert describe_exit(3) == "ended with exit code 3"
    assert describe_exit(None) == "ended without a word"


def test_a_job_that_fails_to_train_afresh_is_not_done_because_it_once_was(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs_in_this_process(monkeypatch)
    words = ["-m", "seed=0,1", *BARE]
    assert run("train", *words).code == 0
    monkeypatch.setattr(work, "run_file", lambda path: 2)  # it ends before it comes to anything
    again = run("train", *words, "overwrite=true")
    assert again.code == 1 and "0 of 2 runs done, 2 failed" in again.out
    listed = run("sweeps", "seed")
    assert listed.out.count("failed") >= 2, "what the sweep saw since the runs were done"


def test_a_sweep_that_asks_for_more_steps_is_not_listed_as_done(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs_in_this_process(monkeypatch)
    words = ["-m", "seed=0,1", *BARE]
    assert run("train", *words).code == 0
    monkeypatch.setattr(work, "run_file", lambda path: 2)
    assert run("train", *words, "trainer.max_steps=8").code == 1
    assert "done" not in run("sweeps", "seed").out.splitlines()[2]


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[" * 100_000,
        json.dumps({"format": 9, "id": "x", "study": None, "command": [], "updated": "", "cells": []}),
        json.dumps({"format": 1, "id": "x", "study": None, "command": 7, "updated": "", "cells": []}),
        json.dumps(
            {"format": 1, "id": "x", "study": None, "command": [], "updated": "", "cells": [{"run": "a"}]}
        ),
    ],
    ids=["cut", "deep", "newer", "types", "cells"],
)
def test_a_damaged_record_is_passed_over(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str
) -> None:
    folder = tmp_path / "outputs" / "sweeps"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text(content)
    (folder / f"{PREFIX}12-y.json").write_text("half-written")
    assert "no sweep under" in run("sweeps").out
    jobs_in_this_process(monkeypatch)
    assert run("train", "-m", "seed=0", *BARE).code == 0
    listed = run("sweeps")
    assert listed.code == 0 and len(listed.out.splitlines()) == 2
    assert not (folder / f"{PREFIX}12-y.json").exists()


def test_a_record_that_cannot_be_written_any_more_stops_no_job(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = jobs_in_this_process(monkeypatch)
    write, written = Record.write, []

    def once(record: Record, entries: Sequence[Entry]) -> None:
        written.append(record)
        if len(written) > 1:
            raise RunError("cannot write it: no space left on the device")
        write(record, entries)

    monkeypatch.setattr(Record, "write", once)
    monkeypatch.setattr("lengthwise.sweeps.sweep._RECORD_EVERY", 0.0)
    result = run("train", "-m", "seed=0,1", *BARE)
    assert result.code == 0 and len(started) == 2
    assert result.out.count("warning: the sweep's record is not up to date") == 1


def test_only_a_job_that_says_so_is_busy(tmp_path: Path) -> None:
    job = Job("run", {}, [], tmp_path / "run.json", tmp_path / "run.log")
    assert not Ended(job, BUSY).busy, "a component may exit with any code"
    job.last_words.write_text("already running as process 1 on host a")
    assert Ended(job, BUSY).busy
    assert not Ended(job, 2).busy
