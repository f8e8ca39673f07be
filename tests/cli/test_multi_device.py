"""One run on several devices, as a user starts it: the numbers of one device, and nobody left when it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lengthwise.runs import read_table
from support.commandline import SMALL, Result, in_own_process, in_process
from support.ranks import free_port
from support.wandb_file import read_all

TWO = "trainer.devices=2"
QUICK = [
    *SMALL, "pe=learned", "trainer.max_steps=12", "trainer.log_every=1", "trainer.validate_every=5",
    "trainer.checkpoint_every=4", "schedule.warmup_steps=4", "data.validation_size=33", "evaluation.count=16",
    "evaluation.lengths=[4,10,14]", "evaluation.symmetry_draws=2",
]  # fmt: skip
ENDLESS = ["trainer.max_steps=100000", "wandb=disabled", "evaluation.symmetry=false"]
_TESTS = Path(__file__).resolve().parents[1]


def folder_of(root: Path) -> Path:
    (found,) = (root / "outputs" / "runs").iterdir()
    return found


def status_of(root: Path) -> dict[str, Any]:
    return json.loads((folder_of(root) / "status.json").read_text())


TABLES = ("train.csv", "length.csv", "symmetry.csv")


def same(ours: Path, theirs: Path, tables: Sequence[str] = TABLES, tolerance: float = 1e-5) -> None:
    """Equal tables: figures within `tolerance`, everything else exactly."""
    for table in tables:
        a, b = read_table(ours / table), read_table(theirs / table)
        assert len(a) == len(b) > 0
        for one, two in zip(a, b, strict=True):
            assert one == {
                k: pytest.approx(v, abs=tolerance) if isinstance(v, float) else v for k, v in two.items()
            }


# -- processes -----------------------------------------------------------------------------------------------------


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)
    return found


def takes_steps(root: Path) -> bool:
    return any(len(table.read_text().splitlines()) > 3 for table in root.glob("outputs/runs/*/train.csv"))


@dataclass
class Started:
    """A command that runs, as a terminal or a batch system sees it: a process group of its own."""

    process: subprocess.Popen[str]
    root: Path
    followers: list[int] = field(default_factory=list)

    def trains(self) -> Started:
        """Wait until it takes steps."""

        def steps() -> bool:
            assert self.process.poll() is None, self.process.communicate()[1]
            return takes_steps(self.root)

        until(steps)
        self.followers = children_of(self.process.pid)
        return self

    def end(self, seconds: float = 30) -> Result:
        out, err = self.process.communicate(timeout=seconds)
        return Result(self.process.returncode, out, err)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Start ``lengthwise train <arguments>`` and leave it running."""
    started: list[Started] = []

    def start(*arguments: str, environment: Mapping[str, str] | None = None) -> Started:
        path = os.pathsep.join(filter(None, [str(_TESTS), os.environ.get("PYTHONPATH")]))
        process = subprocess.Popen(
            [sys.executable, "-m", "lengthwise", "train", *QUICK, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(Started(process, tmp_path))
        return started[-1]

    yield start
    for one in started:
        for pid in (one.process.pid, *one.followers):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        one.process.communicate()


# -- what it computes ----------------------------------------------------------------------------------------------


def test_two_devices_give_the_numbers_of_one(tmp_path: Path) -> None:
    """Validation on an odd number of items, W&B's history and the tests by length included."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = in_process(tmp_path / "one", "train", *QUICK)
    assert one.code == 0, one.err
    two = in_process(tmp_path / "two", "train", *QUICK, TWO)
    assert two.code == 0, two.err
    assert folder_of(tmp_path / "two").name == folder_of(tmp_path / "one").name
    same(folder_of(tmp_path / "two"), folder_of(tmp_path / "one"))
    assert "12 steps; batch 8 = 2 devices x 1 micro-batch x 4" in two.out
    assert "batch" not in one.out.splitlines()[0]
    ours, theirs = (read_all(tmp_path / name / "outputs") for name in ("two", "one"))
    assert len(ours) == len(theirs) == 1
    for a, b in zip(ours[0].history, theirs[0].history, strict=True):
        shown = {k: v for k, v in b.items() if not k.startswith("_") and not isinstance(v, dict)}
        assert {k: a.get(k) for k in shown} == pytest.approx(shown, abs=1e-5)
    assert sorted(p.name for p in folder_of(tmp_path / "two").iterdir()) == sorted(
        p.name for p in folder_of(tmp_path / "one").iterdir()
    )
    assert children_of(os.getpid()) == []
    assert (
        json.loads((folder_of(tmp_path / "two") / "provenance.json").read_text())["starts"][0]["devices"] == 2
    )


@pytest.mark.slow
def test_begun_on_two_devices_and_ended_on_one(tmp_path: Path) -> None:
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    for root, commands in (
        (unbroken, [[]]),
        (broken, [[TWO, "trainer.max_steps=10"], []]),
    ):
        root.mkdir()
        for command in commands:
            result = in_process(root, "train", *QUICK, "wandb=disabled", "schedule.steps=12", *command)
            assert result.code == 0, result.err
    same(folder_of(broken), folder_of(unbroken), ("train.csv", "length.csv"))


@pytest.mark.slow
def test_slices_of_the_model_give_the_numbers_of_one_device(tmp_path: Path) -> None:
    for name, command in (("one", []), ("two", [TWO, "trainer.strategy=fsdp"])):
        (tmp_path / name).mkdir()
        result = in_process(tmp_path / name, "train", *QUICK, "wandb=disabled", *command)
        assert result.code == 0, result.err
    same(folder_of(tmp_path / "two"), folder_of(tmp_path / "one"))


@pytest.mark.slow
def test_components_of_the_working_folder_are_found_by_every_rank(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import pytorch_lightning as pl\n\nclass Mine(pl.Callback):\n"
        "    def on_train_start(self, trainer, pl_module):\n"
        "        open(f'rank{trainer.global_rank}of{trainer.world_size}', 'w').close()\n"
    )
    result = in_own_process(
        tmp_path, "train", *QUICK, TWO, "wandb=disabled", "+callbacks.mine._target_=mine.Mine"
    )
    assert result.code == 0, result.err
    assert {path.name for path in tmp_path.glob("rank*")} == {"rank0of2", "rank1of2"}


# -- what is refused -----------------------------------------------------------------------------------------------

RANK_1_OF_2 = {
    "RANK": "1",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
}


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["trainer.devices=3"], {}, ["data.batch_size=8", "3 devices", "multiple of 3"]),
        (["trainer.nodes=2"], {}, ["trainer.nodes=2", "torchrun"]),
        (["trainer.strategy=fsdp"], {}, ["trainer.strategy=fsdp", "trainer.devices"]),
        ([TWO, "trainer.strategy=fsdp", "trainer.precision=64-true"], {}, ["fsdp", "64-true", "32-true"]),
        ([], RANK_1_OF_2, ["trainer.devices=1", "WORLD_SIZE=2", "unset"]),
        (["trainer.devices=4"], RANK_1_OF_2, ["trainer.devices=4", "WORLD_SIZE=2"]),
        ([TWO], {"WORLD_SIZE": "2"}, ["WORLD_SIZE=2", "RANK", "Unset"]),
        (
            [],
            {"SLURM_PROCID": "0", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0"},
            ["trainer.devices=1", "2 tasks"],
        ),
    ],
)
def test_refused_before_anything_is_written(
    arguments: list[str],
    environment: dict[str, str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = in_process(tmp_path, "train", *QUICK, *arguments)
    assert result.code == 2
    assert all(word in result.err for word in words), result.err
    assert list(tmp_path.iterdir()) == []


# -- how it ends ---------------------------------------------------------------------------------------------------


def test_a_follower_that_dies_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    """The leader is this process."""
    killed: list[int] = []

    def kill_when_it_trains() -> None:
        until(lambda: takes_steps(tmp_path))
        killed.extend(children_of(os.getpid()))
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_when_it_trains)
    killer.start()
    result = in_process(tmp_path, "train", *QUICK, TWO, *ENDLESS)
    killer.join()
    (follower,) = killed
    assert result.code == 2
    assert f"rank 1 (process {follower}) of 2 was killed by SIGKILL" in result.err
    status = status_of(tmp_path)
    assert (status["state"], status["steps"] > 0) == ("failed", True)
    assert f"rank 1 (process {follower}) of 2 was killed by SIGKILL" in status["reason"]
    assert children_of(os.getpid()) == []


@pytest.mark.slow
def test_a_follower_that_raises_says_why_and_leaves_its_traceback(
    begin: Callable[..., Started], tmp_path: Path
) -> None:
    raising = "+callbacks.stop._target_=support.interrupting.RaisingOnRank1"
    result = begin(TWO, *ENDLESS, raising).end(60)
    assert result.code == 2
    (line,) = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert "of 2 failed: ZeroDivisionError: on purpose" in line
    log = tmp_path / line.rpartition("(its output: ")[2].rstrip(")")
    assert "ZeroDivisionError: on purpose" in log.read_text()


@pytest.mark.slow
def test_without_its_leader_a_follower_is_gone(begin: Callable[..., Started]) -> None:
    running = begin(TWO, *ENDLESS).trains()
    running.process.kill()
    began = time.monotonic()
    until(lambda: not any(alive(pid) for pid in running.followers), 10)
    assert time.monotonic() - began < 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "to", "reason"),
    [
        ("SIGINT", "group", "stopped by the user"),
        ("SIGTERM", "all", "SIGTERM"),
        ("SIGUSR2", "leader", "asked to stop by SIGUSR2 (preempted or out of time)"),
    ],
)
def test_stopped_it_is_interrupted_and_goes_on(
    name: str, to: str, reason: str, begin: Callable[..., Started], tmp_path: Path
) -> None:
    """Ctrl-C reaches the terminal's process group, scancel every rank, a notice of preemption perhaps the first."""
    endless = [word for word in ENDLESS if word != "evaluation.symmetry=false"]
    running = begin(TWO, *endless, "schedule.steps=12").trains()
    number = signal.Signals[name]
    if to == "group":
        os.killpg(running.process.pid, number)
    else:
        for pid in ([] if to == "leader" else running.followers) + [running.process.pid]:
            os.kill(pid, number)
    result = running.end(10)
    assert result.code == 130, result.err
    assert not any(alive(pid) for pid in running.followers)
    status = status_of(tmp_path)
    assert (status["state"], status["reason"]) == ("interrupted", reason)
    assert not list(folder_of(tmp_path).glob("rank*"))

    steps = f"trainer.max_steps={status['steps'] + 4}"
    again = in_process(tmp_path, "train", *QUICK, *endless, "schedule.steps=12", steps, TWO)
    assert again.code == 0, again.err
    whole = tmp_path / "whole"
    whole.mkdir()
    assert in_process(whole, "train", *QUICK, *endless, "schedule.steps=12", steps).code == 0
    losses = [[row["loss"] for row in read_table(folder_of(p) / "train.csv")] for p in (tmp_path, whole)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


@pytest.mark.slow
def test_a_loss_that_diverges_is_said_once(begin: Callable[..., Started], tmp_path: Path) -> None:
    result = begin(TWO, *ENDLESS, "optimizer.lr=1e30", "trainer.clip=null").end(60)
    assert result.code == 2
    (line,) = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert "diverged" in line
    status = status_of(tmp_path)
    assert status["state"] == "failed"
    assert status["reason"].startswith("training diverged")


# -- ranks that are started from outside ---------------------------------------------------------------------------


@pytest.mark.slow
def test_ranks_that_are_started_by_hand_as_torchrun_does(
    begin: Callable[..., Started], tmp_path: Path
) -> None:
    port = str(free_port())
    outside = [
        {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for rank in "10"
    ]
    ranks = [begin(TWO, "wandb=disabled", environment=variables) for variables in outside]
    follower, leader = (rank.end(120) for rank in ranks)
    assert (leader.code, follower.code) == (0, 0), leader.err + follower.err
    assert (follower.out, follower.err) == ("", "")
    whole = tmp_path / "whole"
    whole.mkdir()
    assert in_process(whole, "train", *QUICK, "wandb=disabled").code == 0
    same(folder_of(tmp_path), folder_of(whole))
    # A second time there is nothing to do, and every rank hears it.
    ranks = [begin(TWO, "wandb=disabled", environment=variables) for variables in outside]
    follower, leader = (rank.end(120) for rank in ranks)
    assert (leader.code, follower.code) == (0, 0), leader.err + follower.err
    assert "done already" in leader.out
