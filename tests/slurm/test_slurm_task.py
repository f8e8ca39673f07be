"""What minds a job's process within a Slurm job, run here; in place of submitit's handler is one of the test's."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lengthwise.sweeps import slurm_task
from lengthwise.sweeps.slurm_task import SlurmTask, TaskEnd

READY = "pathlib.Path('ready').touch()\n"
TELLS = """
def note(number, frame):
    pathlib.Path("told").write_text(signal.Signals(number).name)
    sys.exit(130)
signal.signal(signal.SIGTERM, note)
"""


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SlurmTask]:
    """Makes a task whose child runs a script, in the test's folder, as rank 0 of Slurm's job 7."""
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    monkeypatch.setenv("SUBMITIT_FOLDER", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_PROCID", "0")
    for name in ("SLURM_RESTART_COUNT", "SLURM_ARRAY_JOB_ID"):
        monkeypatch.delenv(name, raising=False)

    def make(script: str, **options) -> SlurmTask:
        code = f"import json, os, pathlib, signal, sys, time\n{script}"
        given = {
            "command": [sys.executable, "-S", "-c", code],
            "cwd": str(tmp_path),
            "log": str(tmp_path / "job.log"),
            "ranks": 1,
            "time_limit": None,
            "minutes": 60,
            "warning": 30,
            "restarts": 3,
        }
        return SlurmTask(**{**given, **options})

    return make


@pytest.fixture
def requeued(tmp_path: Path) -> Iterator[list[int]]:
    """Grows where the job is queued again, which ends it."""
    calls: list[int] = []

    def handle(number: int, frame: object) -> None:
        calls.append(number)
        raise SystemExit(255)

    before = signal.signal(signal.SIGUSR2, handle)
    yield calls
    signal.signal(signal.SIGUSR2, before)


def send(number: int, folder: Path) -> None:
    """To this process, once the child is ready."""

    def wait_and_send() -> None:
        end = time.monotonic() + 20
        while not (folder / "ready").exists() and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    threading.Thread(target=wait_and_send, daemon=True).start()


def test_what_the_child_says_and_how_it_ends(task, tmp_path: Path):
    assert task("print('said')")() == TaskEnd(0)
    assert task("sys.exit(3)")() == TaskEnd(3)
    assert task("os.kill(os.getpid(), signal.SIGKILL)")() == TaskEnd(-9, "killed by SIGKILL")
    assert (tmp_path / "job.log").read_text() == "said\n"


def test_time_limit(task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slurm_task, "GRACE", 0.5)
    reason = "stopped after its time limit, sweep.time_limit=0.5 s"
    assert task("time.sleep(30)", time_limit=0.5)() == TaskEnd(-15, reason)
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(30)"
    assert task(deaf, time_limit=0.5)() == TaskEnd(-9, reason)


def test_at_slurms_warning_the_child_is_told_and_the_job_queued_again(task, tmp_path: Path, requeued):
    send(signal.SIGUSR2, tmp_path)
    with pytest.raises(SystemExit):
        task(TELLS + READY + "time.sleep(30)")()
    assert (tmp_path / "told").read_text() == "SIGTERM"
    assert requeued == [signal.SIGUSR2]


def test_but_not_where_it_then_is_done(task, tmp_path: Path, requeued):
    send(signal.SIGUSR2, tmp_path)
    assert task(
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n" + READY + "time.sleep(30)"
    )() == TaskEnd(0)
    assert not requeued


@pytest.mark.parametrize(
    ("minutes", "restarts", "again"), [(1, 0, False), (1, 1, True), (60, 0, True), (None, 0, True)]
)
def test_restarts_are_counted_at_the_time_limit_only(
    task, tmp_path: Path, requeued, minutes: int | None, restarts: int, again: bool
):
    """One minute is about to be over from the first second on; what comes in an early minute of 60 is a preemption."""
    send(signal.SIGUSR2, tmp_path)
    asked = task(READY + "time.sleep(30)", minutes=minutes, restarts=restarts)
    if again:
        with pytest.raises(SystemExit):
            asked()
        after = asked.checkpoint().function
        assert after.restarts == restarts - (minutes == 1)
    else:
        assert asked() == TaskEnd(-15, "stopped at Slurm's time limit of 1 minutes")
        assert not requeued


@pytest.mark.parametrize("preempted", [False, True])
def test_after_sigterm_the_job_is_queued_again_only_where_it_was_preempted(
    task, tmp_path: Path, requeued, monkeypatch: pytest.MonkeyPatch, preempted: bool
):
    asked = []
    monkeypatch.setattr(slurm_task, "was_preempted", lambda job: asked.append(job) or preempted)
    send(signal.SIGTERM, tmp_path)
    if preempted:
        with pytest.raises(SystemExit):
            task(TELLS + READY + "time.sleep(30)")()
    else:
        assert task(TELLS + READY + "time.sleep(30)")() == TaskEnd(130)
    assert asked == ["7"]
    assert bool(requeued) == preempted


def test_a_child_that_had_the_signal_first_is_queued_again_too(task, tmp_path: Path, requeued, monkeypatch):
    """Some of Slurm's plugins signal every process of a task."""
    monkeypatch.setattr(slurm_task, "was_preempted", lambda job: True)
    with pytest.raises(SystemExit):
        task("os.kill(os.getppid(), signal.SIGTERM); sys.exit(130)")()
    assert requeued


MASK = "print(json.dumps(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))))"


def test_signals_for_the_task_do_not_reach_the_child(
    task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    blocked = {signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2}
    assert task(MASK)().code == 0
    assert set(json.loads((tmp_path / "job.log").read_text())) == blocked
    monkeypatch.setenv("SLURM_PROCID", "1")
    assert task(MASK, ranks=2)().code == 0
    assert set(json.loads(capfd.readouterr().out)) == blocked | {signal.SIGTERM}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.mark.parametrize(("ranks", "variables"), [(1, 0), (2, 3)])
def test_only_a_rank_of_several_sees_slurms_variables(
    task, tmp_path: Path, monkeypatch, ranks: int, variables: int
):
    monkeypatch.setenv("SLURM_NTASKS", str(ranks))
    monkeypatch.setenv("LENGTHWISE_LIFELINES", "/elsewhere")
    script = "print(sum(k.startswith('SLURM_') for k in os.environ), os.environ['LENGTHWISE_LIFELINES'])"
    monkeypatch.setattr(
        os, "environ", {k: v for k, v in os.environ.items() if not k.startswith("SLURM_CONF")}
    )
    assert task(script, ranks=ranks)().code == 0
    found, lifeline = (tmp_path / "job.log").read_text().split()
    assert int(found) == variables
    assert "/elsewhere" not in lifeline and "lengthwise-lifeline" in lifeline


@pytest.mark.parametrize(
    ("rank", "other", "lost"),
    [
        (0, TaskEnd(-9, "killed by SIGKILL"), "killed by SIGKILL"),
        (0, TaskEnd(1), "rank 1 ended with exit code 1"),
        (0, TaskEnd(0), None),
        (1, TaskEnd(0), "rank 0 ended with exit code 0"),
        (0, TaskEnd(1, attempt=1), None),
        (0, "Traceback …", "rank 1 could not be run"),
    ],
)
def test_a_rank_does_not_wait_for_one_that_is_lost(
    task, tmp_path: Path, monkeypatch, rank: int, other: TaskEnd | str, lost: str | None
):
    monkeypatch.setattr(slurm_task, "GRACE", 0.5)
    monkeypatch.setenv("SLURM_PROCID", str(rank))
    kind = "error" if isinstance(other, str) else "success"
    (tmp_path / f"7_{1 - rank}_result.pkl").write_bytes(pickle.dumps((kind, other)))
    end = task("time.sleep(1.2)", ranks=2)()
    assert (end.reason, end.code == 0) == (lost, lost is None)
