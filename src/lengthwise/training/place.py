"""Where one process of a run stands: its rank among the others, and who started them.

Read from the environment in one place, checked against what was asked for, and from there on passed explicitly: neither
Lightning's guesses nor a variable that another job left behind can make a run smaller or larger than it says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lightning_fabric.plugins.environments import ClusterEnvironment

from lengthwise.errors import ConfigError

_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Place:
    """One process among the `world` ones of a run.

    starter:    "nobody" (a run of one process), "leader" (rank 0 starts the others), "slurm" or "torchrun".
    rank:       0 leads. local_rank: among those of its node. node_rank: of the node.
    address, port: where the leader's store is to be found; port 0: the leader takes a free one.
    token:      names this start, so that two at once cannot take each other's words.
    """

    starter: str = "nobody"
    rank: int = 0
    world: int = 1
    local_rank: int = 0
    node_rank: int = 0
    address: str = "127.0.0.1"
    port: int = 0
    token: str = ""

    @property
    def leads(self) -> bool:
        return self.rank == 0

    @property
    def outside(self) -> bool:
        """Whether all ranks were started from outside, with the same command."""
        return self.starter in ("slurm", "torchrun")

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def place_of(trainer: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Place:
    """The place of this process in a run with these ``trainer`` options.

    Under ``srun`` (a step with several tasks) and ``torchrun`` every rank runs the same command; anywhere else this
    process is the leader and starts the others itself. A lone LOCAL_RANK or RANK is nobody's start and is not read.

    Raises ConfigError where the environment says another number of processes than ``trainer.devices`` x
    ``trainer.nodes``, or says it only in part.
    """
    env = os.environ if environment is None else environment
    devices, nodes = int(trainer["devices"]), int(trainer.get("nodes", 1))
    if _integer(env, "WORLD_SIZE", 1) > 1 or all(name in env for name in _TORCHRUN):
        return _torchrun(env, devices, nodes)
    if (tasks := _slurm_tasks(env)) > 1:
        return _slurm(env, tasks, devices, nodes)
    if nodes > 1:
        raise ConfigError(
            f"trainer.nodes={nodes}: this process is alone, and starts ranks on its own machine only. Start one "
            "process for each device on each node (srun, or torchrun), or use hydra/launcher=slurm"
        )
    if devices == 1:
        return Place()
    return Place("leader", world=devices, token=f"{os.getpid()}")


def _torchrun(env: Mapping[str, str], devices: int, nodes: int) -> Place:
    if missing := [name for name in _TORCHRUN if name not in env]:
        raise ConfigError(
            f"WORLD_SIZE={env['WORLD_SIZE']} is in the environment without {', '.join(missing)}: was it left there by "
            "another program? Unset it, or start with torchrun, which sets them all"
        )
    rank, world, local = (_integer(env, name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    given = ", ".join(f"{name}={env[name]}" for name in _TORCHRUN[:3])
    _check_world(world, devices, nodes, f"torchrun's variables ({given})", f"unset {', '.join(_TORCHRUN)}")
    if world == 1:
        return Place()
    _check_local(rank, world, local, devices, given)
    run, attempt = env.get("TORCHELASTIC_RUN_ID", "by-hand"), env.get("TORCHELASTIC_RESTART_COUNT", "0")
    return Place(
        "torchrun", rank, world, local, rank // devices, env["MASTER_ADDR"], _integer(env, "MASTER_PORT"),
        f"{run}.{attempt}",
    )  # fmt: skip


def _slurm_tasks(env: Mapping[str, str]) -> int:
    """Tasks of the step that this process belongs to; 1 in a batch script, which is no step of several."""
    if "SLURM_PROCID" not in env or "SLURM_STEP_ID" not in env:
        return 1
    return _integer(env, "SLURM_STEP_NUM_TASKS", _integer(env, "SLURM_NTASKS", 1))


def _slurm(env: Mapping[str, str], tasks: int, devices: int, nodes: int) -> Place:
    _check_world(tasks, devices, nodes, f"Slurm's step ({tasks} tasks)", "start it with --ntasks=1")
    rank, local, node = (_integer(env, name) for name in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"))
    given = f"SLURM_PROCID={rank}, SLURM_LOCALID={local}, SLURM_NODEID={node}"
    _check_local(rank, tasks, local, devices, given)
    if node != rank // devices:
        raise ConfigError(
            f"{given}: rank {rank} should be on node {rank // devices} with trainer.devices={devices}. Give each node "
            f"as many tasks as devices: --nodes={nodes} --ntasks-per-node={devices} --distribution=block"
        )
    job, step = env.get("SLURM_JOB_ID", "0"), env.get("SLURM_STEP_ID", "0")
    token = f"{job}.{step}.{env.get('SLURM_RESTART_COUNT', '0')}"
    hosts = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or "127.0.0.1"
    address = env.get("MASTER_ADDR") or first_host(hosts)
    # Above the registered ports and below those that systems hand out by themselves.
    port = _integer(env, "MASTER_PORT", 15000 + (31 * _digits(job) + _digits(step)) % 17000)
    return Place("slurm", rank, tasks, local, node, address, port, token)


def first_host(nodes: str) -> str:
    """The first name in Slurm's short form: ``a[3-5,9],b`` is ``a3``."""
    return re.sub(r"\[([^],-]+)[^]]*\]", r"\1", re.split(r",(?![^\[]*\])", nodes.strip())[0])


def _check_world(world: int, devices: int, nodes: int, says: str, remedy: str) -> None:
    if world != devices * nodes:
        raise ConfigError(
            f"trainer.devices={devices} x trainer.nodes={nodes} asks for {devices * nodes} process"
            f"{'' if devices * nodes == 1 else 'es'}, but {says} say{'s' if says.startswith('Slurm') else ''} {world}: "
            f"make them equal, or {remedy}"
        )


def _check_local(rank: int, world: int, local: int, devices: int, given: str) -> None:
    if not 0 <= rank < world or local != rank % devices:
        raise ConfigError(
            f"{given}: with trainer.devices={devices} rank {rank} of {world} should have local rank {rank % devices}; "
            "each node needs as many processes as trainer.devices says"
        )


def _integer(env: Mapping[str, str], name: str, default: int | None = None) -> int:
    if default is not None and not env.get(name):
        return default
    try:
        return int(env.get(name, ""))
    except ValueError:
        raise ConfigError(f"{name}={env.get(name, '')} in the environment is not a whole number") from None


def _digits(text: str) -> int:
    return int("".join(character for character in text if character.isdigit()) or 0)


class Surroundings(ClusterEnvironment):
    """A `Place` in Lightning's terms: every answer is given, nothing is looked up."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @property
    def creates_processes_externally(self) -> bool:
        return True

    @property
    def main_address(self) -> str:
        return self.place.address

    @property
    def main_port(self) -> int:
        return self.place.port

    @staticmethod
    def detect() -> bool:
        return False

    def world_size(self) -> int:
        return self.place.world

    def set_world_size(self, size: int) -> None:
        pass

    def global_rank(self) -> int:
        return self.place.rank

    def set_global_rank(self, rank: int) -> None:
        pass

    def local_rank(self) -> int:
        return self.place.local_rank

    def node_rank(self) -> int:
        return self.place.node_rank
