"""What can never run on the cluster is refused before anything is submitted, and Slurm's answers are understood."""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lengthwise.errors import ConfigError, RunError
from lengthwise.sweeps import slurm_client
from lengthwise.sweeps.job import Job
from lengthwise.sweeps.slurm import SlurmLauncher
from lengthwise.sweeps.slurm_client import Partition, SlurmJob, SlurmSilent
from lengthwise.sweeps.slurm_notes import is_same
from support.launching import NO_WARM_START
from support.slurm import OneNode
from support.slurm_jobs import Driver

NO_LIMIT = {"time_limit": None, "workers": None}


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """commands(squeue="echo 1"): stand-ins of Slurm's commands, and no others."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(**scripts: str) -> None:
        for name, script in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
            (folder / name).chmod(stat.S_IRWXU)

    return make


@pytest.mark.parametrize(
    ("options", "trainer", "says"),
    [
        ({"partition": "gpu"}, {}, "no partition gpu; this cluster has main, high"),
        ({"gpus_per_task": 1}, {"devices": 3}, "1 nodes with 3 GPUs .* at most 2 GPUs"),
        ({}, {"devices": 3, "accelerator": "gpu"}, "3 GPUs"),
        ({}, {"devices": 9}, "9 CPUs .* 8 CPUs on one"),
        ({}, {"nodes": 2}, "needs 2 nodes .* has 1 nodes"),
        ({"timeout_min": 601}, {}, "at most 600 minutes"),
        ({"timeout_min": 2, "signal_delay": 60}, {}, "told to stop as soon as it starts"),
    ],
)
def test_what_can_never_run_is_refused(driver, node: OneNode, options, trainer, says):
    sweep = driver(**options)
    with pytest.raises(ConfigError, match=says):
        sweep.start(sweep.scripted("cell", "pass", **trainer))
    assert not node.jobs()


def test_what_slurm_itself_refuses_is_said_in_its_words(driver, node: OneNode):
    sweep = driver(constraint="a100")
    with pytest.raises(RunError, match=r"Slurm takes no job: .*feature"):
        sweep.start(sweep.scripted("cell", "pass"))


@pytest.mark.parametrize(
    ("accelerator", "gpus_per_task", "expected"),
    [("cpu", None, 0), ("gpu", None, 2), ("auto", None, 2), ("auto", 0, 0), ("cpu", 1, 2)],
)
def test_gpus_are_asked_for_where_they_are_used(driver, node: OneNode, accelerator, gpus_per_task, expected):
    sweep = driver(gpus_per_task=gpus_per_task)
    job = sweep.scripted("cell", "pass", devices=2, accelerator=accelerator)
    assert sweep.launcher.shape(job).gpus == expected


@pytest.mark.parametrize(
    ("time_limit", "timeout_min", "expected"),
    [(None, None, 600), (60.0, None, 6), (60.0, 30, 30), (1e6, None, 600)],
)
def test_slurms_limit_leaves_room_for_ours(driver, node: OneNode, time_limit, timeout_min, expected):
    sweep = driver(time_limit=time_limit, timeout_min=timeout_min, signal_delay=90)
    assert sweep.launcher._minutes() == expected


def test_without_submitit_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ConfigError, match=r"pip install 'lengthwise\[slurm\]'"):
        SlurmLauncher(NO_LIMIT, tmp_path, NO_WARM_START)


def test_without_slurm_its_commands_are_named(tmp_path: Path, commands):
    with pytest.raises(ConfigError, match="sbatch, squeue, sinfo, scancel not found"):
        SlurmLauncher(NO_LIMIT, tmp_path, NO_WARM_START)


def test_a_slurm_that_does_not_answer_is_waited_for_and_not_taken_for_an_end(
    tmp_path: Path, commands, capsys, monkeypatch: pytest.MonkeyPatch
):
    scripts = dict.fromkeys(("sbatch", "scancel", "sinfo"), "exit 0")
    commands(squeue="sleep 5", **scripts)
    monkeypatch.setattr(slurm_client, "TIMEOUT", 0.3)
    launcher = SlurmLauncher(NO_LIMIT, tmp_path, NO_WARM_START)
    launcher._running.append(object())  # type: ignore[arg-type]
    assert launcher.poll() == []
    assert "Slurm does not answer (squeue: " in capsys.readouterr().err
    commands(squeue="echo slurm_load_jobs error: no controller >&2; exit 1")
    with pytest.raises(SlurmSilent, match="no controller"):
        slurm_client.jobs()


def test_the_queue_is_read(commands):
    commands(squeue="echo '17_3|OUT_OF_MEMORY|lengthwise-1|None'; echo '18|PENDING|other|Resources'")
    assert slurm_client.jobs() == {
        "17_3": SlurmJob("17_3", "OUT_OF_MEMORY", "lengthwise-1", "None"),
        "18": SlurmJob("18", "PENDING", "other", "Resources"),
    }
    assert [(one.has_ended, one.place) for one in slurm_client.jobs().values()] == [(True, 3), (False, 0)]


def test_the_partitions_are_read(commands):
    lines = [
        "cpu*|10|64|(null)|1:00:00|infinite",
        "gpu|2|32|gpu:a100:4(S:0-1)|n/a|1-12:30:00",
        "gpu|1|64|gpu:h100:8|n/a|1-12:30:00",
    ]
    commands(sinfo="\n".join(f"echo '{line}'" for line in lines))
    assert slurm_client.partitions() == [
        Partition("cpu", True, 10, 64, 0, 60, None),
        Partition("gpu", False, 3, 64, 8, 2190, 2190),
    ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("echo 'CANCELLED by 1000'", "CANCELLED"),
        ("echo 'Slurm accounting storage is disabled' >&2; exit 1", None),
        ("exit 0", None),
    ],
)
def test_accounting_is_asked_where_there_is_one(commands, answer, expected):
    commands(sacct=answer)
    assert slurm_client.final_state("17") == expected


def test_sbatch_gets_none_of_the_variables_of_a_job(driver, node: OneNode, monkeypatch: pytest.MonkeyPatch):
    """A sweep may be started from within a job."""
    for name in ("SLURM_NTASKS", "SLURM_MEM_PER_CPU", "SLURM_PROCID", "LOCAL_RANK", "LENGTHWISE_LIFELINES"):
        monkeypatch.setenv(name, "7")
    sweep = driver()
    seen = "print(sorted(k for k in os.environ if os.environ[k] == '7'))"
    job = sweep.scripted("cell", seen, devices=2)
    sweep.start(job)
    sweep.finish()
    assert job.log.read_text() == "[]\n"
    assert os.environ["SLURM_NTASKS"] == "7"


def test_what_sbatch_is_asked_for(tmp_path: Path, commands):
    commands(
        sinfo="echo 'gpu*|4|32|gpu:4|n/a|2:00:00'",
        sbatch=f"cp $1 {tmp_path}/script; echo Submitted batch job 12",
        **dict.fromkeys(("squeue", "scancel", "srun"), "exit 0"),
    )
    folder = tmp_path / "sweeps" / "sweep"
    given = {"time_limit": None, "workers": 2}
    launcher = SlurmLauncher(given, folder, NO_WARM_START, account="me", additional={"exclude": "n1"})
    sweep = Driver(launcher, folder)
    jobs = [
        sweep.scripted(f"cell{i}", "pass", devices=2, nodes=2, threads=3, accelerator="gpu") for i in range(3)
    ]
    assert sweep.start(*jobs) == ["cell0", "cell1", "cell2"]
    assert list(sweep.ids().values()) == ["12_0", "12_1", "12_2"]
    script = (tmp_path / "script").read_text()
    options = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", script, flags=re.M))
    expected = {
        "account": "me", "array": "0-2%2", "cpus-per-task": "3", "exclude": "n1", "gpus-per-node": "2", "nodes": "2",
        "ntasks-per-node": "2", "requeue": "", "signal": "USR2@90", "time": "120",
    }  # fmt: skip
    assert options.items() >= expected.items()
    assert "partition" not in options
    (line,) = [line for line in script.splitlines() if line.startswith("srun")]
    assert {"--cpus-per-task=3", "--kill-on-bad-exit=1", "--distribution=block"} <= set(line.split())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"wandb": {"group": "another"}}, True),
        ({"sweep": {"workers": 3}}, True),
        ({"seed": 1}, False),
        ({"trainer": {"max_steps": 9}}, False),
    ],
)
def test_an_earlier_job_is_the_same_where_it_makes_the_same(tmp_path: Path, change, expected):
    config = {"trainer": {"max_steps": 5}, "seed": 0, "wandb": {"group": "one"}, "sweep": {"workers": None}}
    job = Job("cell", config, [], tmp_path / "cell.json", tmp_path / "cell.log")
    job.write()
    assert is_same(job.file, replace(job, config=config | change)) is expected
