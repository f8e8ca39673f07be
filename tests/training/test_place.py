"""Which rank of how many: read from the environment once, and never believed against what was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from lengthwise.errors import ConfigError
from lengthwise.training.fit import make_trainer
from lengthwise.training.place import Place, Surroundings, first_host, place_of
from support.tiny_training import tiny_options


def step(rank: int, tasks: int = 4, per_node: int = 2, **more: str) -> dict[str, str]:
    """The environment of one task of ``srun --ntasks=4 --ntasks-per-node=2``."""
    return {
        "SLURM_JOB_ID": "1234",
        "SLURM_STEP_ID": "5",
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_NTASKS": str(tasks),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank % per_node),
        "SLURM_NODEID": str(rank // per_node),
        "SLURM_STEP_NODELIST": "gpu[07-08]",
        **more,
    }


def torchrun(rank: int, world: int = 4, per_node: int = 2) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(rank % per_node),
        "MASTER_ADDR": "gpu07",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "abc",
    }


def place(environment: dict[str, str], devices: int = 1, nodes: int = 1) -> Place:
    return place_of({"devices": devices, "nodes": nodes}, environment)


def test_one_process_is_alone_and_several_have_a_leader():
    assert place({}) == Place()
    assert (place({}, 2).starter, place({}, 2).rank, place({}, 2).world) == ("leader", 0, 2)


def test_a_configuration_from_before_there_were_nodes_has_one():
    assert place_of({"devices": 1}, {}) == Place()


def test_slurms_tasks_and_torchruns_processes_are_the_ranks():
    for rank in range(4):
        ours = place(step(rank), 2, 2)
        assert (ours.starter, ours.rank, ours.world) == ("slurm", rank, 4)
        assert (ours.local_rank, ours.node_rank, ours.address) == (rank % 2, rank // 2, "gpu07")
        theirs = place(torchrun(rank), 2, 2)
        assert (theirs.starter, theirs.rank, theirs.local_rank, theirs.node_rank) == (
            "torchrun", rank, rank % 2, rank // 2,
        )  # fmt: skip
        assert (theirs.address, theirs.port) == ("gpu07", 29500)
    assert len({place(step(rank), 2, 2).port for rank in range(4)}) == 1


def test_two_starts_have_two_names():
    assert place(step(0), 2, 2).token != place(step(0, SLURM_RESTART_COUNT="1"), 2, 2).token
    assert place(step(0), 2, 2).token != place(step(0, SLURM_STEP_ID="6"), 2, 2).token


def test_torchrun_inside_a_step_of_slurm_counts():
    both = step(1, tasks=2, per_node=1) | torchrun(3)
    assert (place(both, 2, 2).starter, place(both, 2, 2).rank) == ("torchrun", 3)


@pytest.mark.parametrize(
    "environment",
    [
        {"LOCAL_RANK": "1"},
        {"RANK": "1", "LOCAL_RANK": "1"},
        {"WORLD_SIZE": "1"},
        {"MASTER_ADDR": "elsewhere", "MASTER_PORT": "1"},
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"},  # a batch script: no step
        step(0, tasks=1),
        torchrun(0, world=1),
    ],
    ids=str,
)
def test_what_lies_about_does_not_make_one_process_several(environment, monkeypatch):
    """Nor does Lightning, which looks for itself where it is not told, change its mind about who writes."""
    assert place(environment) == Place()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    trainer = make_trainer(tiny_options(), place=place_of({"devices": 1}))
    assert (trainer.world_size, trainer.global_rank, trainer.is_global_zero) == (1, 0, True)
    assert isinstance(trainer._accelerator_connector.cluster_environment, Surroundings)
    from pytorch_lightning.utilities.rank_zero import rank_zero_only

    assert rank_zero_only.rank == 0


@pytest.mark.parametrize(
    ("environment", "devices", "nodes", "words"),
    [
        (torchrun(0), 1, 1, ["trainer.devices=1", "WORLD_SIZE=4", "unset"]),
        (torchrun(0, world=1), 2, 1, ["asks for 2 processes", "WORLD_SIZE=1"]),
        (torchrun(0), 2, 1, ["asks for 2 processes", "WORLD_SIZE=4"]),
        (torchrun(1), 4, 1, None),
        ({"WORLD_SIZE": "2", "RANK": "0"}, 2, 1, ["without LOCAL_RANK, MASTER_ADDR, MASTER_PORT"]),
        ({"WORLD_SIZE": "two"}, 2, 1, ["WORLD_SIZE=two", "whole number"]),
        (torchrun(1) | {"LOCAL_RANK": "0"}, 2, 2, ["should have local rank 1"]),
        (step(0), 2, 1, ["asks for 2 processes", "Slurm's step (4 tasks) says 4"]),
        (step(1), 4, 1, None),
        (step(2) | {"SLURM_NODEID": "0"}, 2, 2, ["rank 2 should be on node 1", "--ntasks-per-node=2"]),
        (step(1, per_node=1), 2, 2, ["should have local rank 1"]),
        ({}, 1, 2, ["trainer.nodes=2", "torchrun"]),
    ],
)
def test_what_contradicts_is_refused(environment, devices, nodes, words):
    if words is None:  # four on one node: local ranks 0, 1, 0, 1 do not fit
        words = ["local rank"]
        environment = {**environment, "LOCAL_RANK": "3", "SLURM_LOCALID": "3"}
    with pytest.raises(ConfigError) as refused:
        place(environment, devices, nodes)
    assert all(word in str(refused.value) for word in words), refused.value


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu07", "gpu07"),
        ("gpu[07-09,12]", "gpu07"),
        ("a[3,5],b", "a3"),
        ("a1,b[2-4]", "a1"),
        ("rack[1-2]-n[03-04]", "rack1-n03"),
    ],
)
def test_the_first_of_slurms_nodes(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


def test_a_step_of_one_task_is_answered_as_if_there_were_no_slurm(monkeypatch: Any) -> None:
    """Lightning's own answer to Slurm would be to take over its signals."""
    for name, value in step(0, tasks=1).items():
        monkeypatch.setenv(name, value)
    trainer = make_trainer(tiny_options(), place=place_of({"devices": 1, "nodes": 1}))
    assert type(trainer._accelerator_connector.cluster_environment) is Surroundings
