"""The server goes away in the middle of a training: the run ends as it would have, and its W&B file can be uploaded."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lengthwise.runs import read_status, read_table
from lengthwise.tracking import TrackedRun, not_uploaded
from lengthwise.tracking import run as tracked
from support.commandline import QUICK, SMALL, in_process
from support.faulty import FAULTY, VARIABLE
from support.launching import jobs_in_this_process
from support.wandb_file import read_wandb
from support.wandb_server import RUNNING, STOP, WandbServer, lasting, sync

COMMAND = [word for word in [*QUICK, *SMALL] if not word.startswith("wandb")]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds that a run waits for its upload at the end."""
    monkeypatch.setattr(tracked, "FINISH_TIMEOUT", 3.0)
    monkeypatch.setattr(tracked, "INIT_TIMEOUT", 3.0)  # of the sweep's report, after the server has gone
    return 3.0


@pytest.fixture
def server() -> Iterator[WandbServer]:
    with WandbServer() as server, server.login():
        RUNNING[:] = [server]
        yield server


@pytest.mark.parametrize("fault", [None, "raise"])
def test_the_run_ends_as_it_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: WandbServer, impatient: float, fault: str | None
) -> None:
    monkeypatch.setenv(VARIABLE, f"1:{fault}" if fault else "")
    began = time.monotonic()
    result = in_process(tmp_path, "train", *COMMAND, "seed=1", "wandb=online", STOP, FAULTY)
    assert time.monotonic() - began < impatient + 10
    assert result.code == (1 if fault else 0), result.err
    (folder,) = (tmp_path / "outputs" / "runs").iterdir()
    (wandb,) = (tmp_path / "outputs" / "wandb").glob("run-*")
    assert f"wandb sync --include-online outputs/wandb/{wandb.name}" in result.out
    assert read_status(folder / "status.json").state == ("failed" if fault else "done")
    local, record = read_wandb(wandb), read_table(folder / "train.csv")
    assert record[-1]["step"] == (1 if fault else 4)
    assert [row["step"] for row in local.history if "step" in row] == [row["step"] for row in record]
    assert local.exit_code == result.code
    assert len(server.runs[local.id].history) < len(local.history)
    assert not_uploaded(tmp_path / "outputs", {local.id}) == [wandb]

    server.start()
    sync(wandb, "--include-online")
    run = server.runs[local.id]
    assert [lasting(row) for row in run.history] == [lasting(row) for row in local.history]
    assert run.exit_code == local.exit_code
    assert not_uploaded(tmp_path / "outputs", {local.id}) == []
    tables = [name for name in run.files if name.startswith("media/table/")]
    assert len(tables) == (0 if fault else 2)


def test_a_server_that_comes_back_has_it_all(tmp_path: Path, server: WandbServer) -> None:
    result = in_process(tmp_path, "train", *COMMAND, "seed=2", "wandb=online", STOP)
    assert result.code == 0 and "wandb sync" not in result.out
    (run,), (wandb,) = server.runs.values(), (tmp_path / "outputs" / "wandb").glob("run-*")
    assert [lasting(row) for row in run.history] == [lasting(row) for row in read_wandb(wandb).history]
    assert run.exit_code == 0 and not_uploaded(tmp_path / "outputs", {run.id}) == []


def test_a_sweep_names_what_did_not_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: WandbServer, impatient: float
) -> None:
    jobs_in_this_process(monkeypatch)
    result = in_process(tmp_path, "train", "-m", "seed=0,1", *COMMAND, STOP, "wandb=online")
    assert result.code == 0, result.err
    said = result.out[result.out.index("2 of 2 runs done") :]
    (mark,) = (tmp_path / "outputs" / "wandb").glob("run-*/not-uploaded")
    assert f"wandb sync --include-online outputs/wandb/{mark.parent.name}\n" in said
    assert read_wandb(mark.parent).config["seed"] == 1


def test_control_nothing_is_said_of_what_arrived(tmp_path: Path, server: WandbServer) -> None:
    result = in_process(tmp_path, "train", *COMMAND, "seed=0", STOP, "wandb=online")
    assert result.code == 0
    assert "wandb sync" not in result.out + result.err
    (run_id,) = server.runs
    assert not_uploaded(tmp_path / "outputs", {run_id}) == []


def test_an_interrupt_ends_the_wait_for_the_server_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: WandbServer
) -> None:
    run = TrackedRun(tmp_path, run_id="abc", name="tiny", mode="online")
    run.open()
    run.log_row({"step": 1, "loss": 0.5})
    server.stop()
    impatience = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    impatience.start()
    began = time.monotonic()
    run.finish()
    assert 0.9 < time.monotonic() - began < tracked.FINISH_TIMEOUT / 2
    impatience.join()
    assert "wandb sync --include-online" in capsys.readouterr().out
    (wandb,) = (tmp_path / "wandb").glob("run-*")
    assert (read_wandb(wandb).exit_code, len(read_wandb(wandb).history)) == (0, 1)


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_wandbs_own_process_dies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: WandbServer, mode: str
) -> None:
    with TrackedRun(tmp_path, run_id="abc", name="tiny", mode=mode) as run:
        run.open()
        run.log_row({"step": 1, "loss": 0.5})
        time.sleep(1.5)  # it writes its file once a second
        kill_wandb_core()
        try:
            for step in (2, 3):
                run.log_row({"step": step, "loss": 0.25})
            run.summarise({"reach": 5})
        except OSError as error:
            pytest.fail(f"it would end the training: {error!r}")
    said = capsys.readouterr().out
    assert "W&B" in said
    (wandb,) = (tmp_path / "wandb").glob("*run-*")
    assert [row["step"] for row in read_wandb(wandb).history] == [1]
    assert bool(not_uploaded(tmp_path, {"abc"})) == (mode == "online")
    with TrackedRun(tmp_path, run_id="def", name="next", mode="offline") as run:  # others are not harmed
        run.open()
        run.log_row({"step": 1, "loss": 0.5})
    (after,) = (tmp_path / "wandb").glob("*run-*-def")
    assert read_wandb(after).exit_code == 0


def kill_wandb_core() -> None:
    """The one that this process has started."""
    found = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", "wandb-core"], capture_output=True, text=True, check=True
    )
    for pid in found.stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    time.sleep(0.2)
