"""The launcher for one machine, its jobs and its warm server replaced by what ends as the test wants it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lengthwise import process, usage
from lengthwise.errors import RunError
from lengthwise.lifeline import LIFELINES, ORPHANED
from lengthwise.process import has_ended
from lengthwise.runs.ending import Terminated
from lengthwise.sweeps import preflight
from lengthwise.sweeps import warm as warm_module
from lengthwise.sweeps.job import Job
from lengthwise.sweeps.launcher import Ended
from lengthwise.sweeps.local import LocalLauncher
from lengthwise.sweeps.signals import ending_signals
from lengthwise.sweeps.warm import WarmStart
from support.commandline import in_own_process
from support.processes import wait_until
from sweeps.conftest import BARE, Outputs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and process groups")

OPTIONS = {"workers": 2, "gpus": 0, "gpus_per_job": None, "time_limit": None, "start": "warm"}


class Server:
    """A warm server that says and does what it is told to."""

    def __init__(self, log: Path, lifeline: Mapping[str, str]) -> None:
        self.asked: list[str] = []
        self.to_say: list[dict[str, Any]] = []
        self.is_alive = True
        self.closed = False

    def ask(self, name: str, *_: object) -> None:
        self.asked.append(name)

    def answers(self) -> list[dict[str, Any]]:
        said, self.to_say = self.to_say, []
        return said

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def failure(self) -> RunError:
        return RunError("the process that starts jobs is gone")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    """Those that launchers have started, in order."""
    made: list[Server] = []

    def make(*arguments: Any) -> Server:
        made.append(Server(*arguments))
        return made[-1]

    monkeypatch.setattr(warm_module, "WarmServer", make)
    return made


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes that stand for forked jobs."""
    made = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(2)]
    yield made
    for sleeper in made:
        sleeper.kill()
        sleeper.wait()


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    options = {"devices": 1, "threads": 1, "accelerator": "cpu"}
    config = {"trainer": options, "outputs": str(tmp_path)}
    return [
        Job(f"run{i}", config, [], tmp_path / "jobs" / f"{i}.json", tmp_path / "logs" / f"{i}.log")
        for i in range(2)
    ]


@pytest.fixture
def warm_start() -> Iterator[WarmStart]:
    with contextlib.closing(WarmStart()) as made:
        yield made


@pytest.fixture
def launcher(tmp_path: Path, warm_start: WarmStart) -> Iterator[LocalLauncher]:
    made = LocalLauncher(OPTIONS, tmp_path, warm_start)
    yield made
    made.close()


def run_as(monkeypatch: pytest.MonkeyPatch, command: Sequence[str]) -> None:
    monkeypatch.setattr(Job, "command", lambda _: list(command))


def ended(launcher: LocalLauncher, count: int) -> list[Ended]:
    found: list[Ended] = []
    wait_until(lambda: len(found.__iadd__(launcher.poll())) >= count, 10)
    return found


@pytest.mark.parametrize("start", ["cold", "warm"])
def test_a_job_that_cannot_be_started_fails_alone(
    start: str, launcher: LocalLauncher, jobs: list[Job], servers: list[Server], monkeypatch: Any
) -> None:
    launcher.warm = start == "warm"
    run_as(monkeypatch, ["true"])
    jobs[0].log.mkdir(parents=True)  # nothing can be written to it
    assert launcher.start(jobs) == jobs
    if servers:
        servers[0].to_say = [{"ended": "run1", "code": 0}]
    found = {end.job.name: end for end in ended(launcher, 2)}
    assert found["run0"].code is None
    assert found["run0"].reason == f"could not be started: {jobs[0].log}: Is a directory"
    assert (found["run1"].code, found["run1"].reason) == (0, None)
    assert launcher.slots.free_slots == 2


def test_a_working_folder_that_is_gone_is_named(
    launcher: LocalLauncher, jobs: list[Job], servers: list[Server], tmp_path: Path, monkeypatch: Any
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.setattr(Job, "write", lambda _: os.getcwd())
    gone.rmdir()
    launcher.start(jobs[:1])
    assert [end.reason for end in launcher.poll()] == ["could not be started: the working folder is gone"]


def test_the_time_of_a_job_begins_when_it_is_forked(
    tmp_path: Path,
    jobs: list[Job],
    servers: list[Server],
    sleepers: list[subprocess.Popen[bytes]],
    warm_start: WarmStart,
) -> None:
    launcher = LocalLauncher({**OPTIONS, "time_limit": 0.05}, tmp_path, warm_start)
    launcher.start(jobs[:1])
    time.sleep(0.1)  # the server still imports
    launcher.poll()
    servers[0].to_say = [{"started": "run0", "pid": sleepers[0].pid}]
    launcher.poll()
    assert sleepers[0].poll() is None, "what it waited for the server is not its own time"
    time.sleep(0.1)
    launcher.poll()
    wait_until(lambda: sleepers[0].poll() == -signal.SIGTERM, 5)
    servers[0].to_say = [{"ended": "run0", "code": -15}]
    assert [end.reason for end in launcher.poll()] == [
        "stopped after its time limit, sweep.time_limit=0.05 s"
    ]
    launcher.close()


def test_jobs_of_a_warm_server_that_dies_start_once_more(
    launcher: LocalLauncher, jobs: list[Job], servers: list[Server], sleepers: list[subprocess.Popen[bytes]]
) -> None:
    launcher.start(jobs)
    for number, sleeper in enumerate(sleepers):
        server = servers[number]
        assert "run0" in server.asked
        server.to_say = [{"started": "run0", "pid": sleeper.pid}]  # run1 waits to be forked
        assert launcher.poll() == []
        server.is_alive = False
        found = [*launcher.poll(), *launcher.poll()]
        assert sleeper.wait(5) == -signal.SIGKILL and server.closed
    assert [(end.job.name, end.code, end.reason) for end in found] == [
        ("run0", None, "the process that starts jobs is gone")
    ], "the second time it fails; the other has not had its turn"
    assert servers[2].asked == ["run1"]
    assert launcher.slots.free_slots == 1


def test_without_a_warm_server_that_lives_jobs_start_cold(
    launcher: LocalLauncher, jobs: list[Job], servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_as(monkeypatch, ["true"])
    launcher.start(jobs)
    found: list[Ended] = []
    for number in range(4):
        assert found == []
        servers[number].is_alive = False
        found += launcher.poll()
    found += ended(launcher, 2 - len(found))
    assert [end.code for end in found] == [0, 0]
    assert len(servers) == 4


def test_what_is_being_stopped_does_not_start_again(
    launcher: LocalLauncher, jobs: list[Job], servers: list[Server]
) -> None:
    launcher.start(jobs)
    servers[0].is_alive = False
    launcher.stop(0.2)
    assert len(servers) == 1 and launcher.slots.free_slots == 2


def test_a_job_that_is_forked_while_all_are_stopped_is_interrupted_too(
    launcher: LocalLauncher, jobs: list[Job], servers: list[Server], sleepers: list[subprocess.Popen[bytes]]
) -> None:
    launcher.start(jobs[:1])
    servers[0].to_say = [{"started": "run0", "pid": sleepers[0].pid}]
    launcher.stop(0.3)
    assert sleepers[0].wait(5) == -signal.SIGINT, "killed, it could not say that it was interrupted"


def test_whether_a_process_has_ended_is_seen_without_its_lock() -> None:
    """An interrupt may leave it locked."""
    process = subprocess.Popen(["true"])
    with process._waitpid_lock:  # type: ignore[attr-defined]
        wait_until(lambda: has_ended(process), 5)
    assert process.wait(5) == 0 and has_ended(process)


def test_a_lifeline_whose_file_is_gone_is_replaced(warm_start: WarmStart) -> None:
    watching = [
        sys.executable,
        "-c",
        "import sys; from lengthwise import lifeline; lifeline.watch(); sys.stdin.read()",
    ]
    processes = []
    for _ in range(2):
        environment = {**os.environ, **warm_start.lifeline.environment}
        processes.append(subprocess.Popen(watching, env=environment, stdin=subprocess.PIPE))
        wait_until(lambda pid=processes[-1].pid: len(os.listdir(f"/proc/{pid}/task")) > 1, 10)  # type: ignore[misc]
        Path(environment[LIFELINES].split(os.pathsep)[0]).unlink()
    assert [one.poll() for one in processes] == [None, None]
    warm_start.close()
    assert [one.wait(5) for one in processes] == [ORPHANED, ORPHANED], "each still hangs on its own"
    for one in processes:
        assert one.stdin is not None
        one.stdin.close()


def test_closing_lets_go_of_everything_whatever_one_part_meets(
    servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = WarmStart()
    made.server()
    monkeypatch.setattr(servers[0], "close", lambda: 1 / 0)
    scratch, lifeline = Path(made._scratch.name), made.lifeline
    with pytest.raises(ZeroDivisionError):
        made.close()
    assert not scratch.exists() and not lifeline.path.exists()


@pytest.mark.parametrize("warm", [True, False])
def test_a_server_that_forks_no_jobs_ends_with_the_inspection(
    warm: bool,
    launcher: LocalLauncher,
    warm_start: WarmStart,
    servers: list[Server],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preflight, "_ask", lambda *_: warm_start.server() and [])
    launcher.warm = warm
    assert preflight.inspect([], launcher) == []
    assert servers[0].closed is not warm


def test_signals_that_are_ignored_stay_so() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup leaves it
        with ending_signals(), ending_signals():
            try:
                os.kill(os.getpid(), signal.SIGHUP)
                time.sleep(0.01)
            except Terminated:
                pytest.fail("a signal that was ignored is heard")
            with pytest.raises(Terminated):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)
        assert signal.getsignal(signal.SIGTERM) == before[signal.SIGTERM]
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_another_process_finds_what_this_one_does_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last, elsewhere = (tmp_path / name for name in ("first", "last", "elsewhere"))
    for folder in (first, last, elsewhere):
        folder.mkdir()
        (folder / "sysconfig.py").touch()  # also a module of Python's own
        (folder / "a_component.py").touch()
    (first / "sysconfig.py").unlink()
    monkeypatch.setattr(sys, "path", [str(first), *sys.path, str(last)])
    program = (
        "import json, sys; from lengthwise import process; process.adopt(sys.argv[1:]); "
        "import a_component, sysconfig; print(a_component.__file__); print(sysconfig.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *process.import_path()],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": process.python_path()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    component, own = done.stdout.splitlines()
    assert component == str(first / "a_component.py")
    assert not own.startswith(str(tmp_path))


@pytest.mark.parametrize("start", ["warm", pytest.param("cold", marks=pytest.mark.slow)])
def test_a_component_in_the_working_folder(start: str, tmp_path: Path) -> None:
    """The console script has it not on its path; its jobs must train what it looked at."""
    (tmp_path / "mine.py").write_text(
        "import pytorch_lightning as pl\nclass Mine(pl.Callback):\n    pass\n", encoding="utf-8"
    )
    (tmp_path / "wave.py").write_text("raise RuntimeError('this hides a module of Python')", encoding="utf-8")
    words = ["-m", "seed=0", *BARE, "+callbacks.mine._target_=mine.Mine", f"sweep.start={start}"]
    program = "import sys, wave; from lengthwise.cli import train; sys.exit(train(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert Outputs(tmp_path / "outputs").states() == ["done"]


def test_a_stream_that_cannot_show_a_character_shows_another(tmp_path: Path) -> None:
    result = in_own_process(tmp_path, "train", "--help", environment={"PYTHONIOENCODING": "ascii"})
    assert result.code == 0, result.err
    assert "\N{HORIZONTAL ELLIPSIS}" in usage.train() and "?" in result.out
