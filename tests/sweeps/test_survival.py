"""Real processes: jobs that die in every way, a launcher that is killed, Ctrl-C; two sweeps over the same cells."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from support.commandline import Result, in_own_process
from support.faulty import FAULTY, GATE, VARIABLE
from support.processes import descendants, wait_until
from sweeps.conftest import BARE, Outputs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and process groups")

SLOW = {VARIABLE: "*:slow"}
"""Each step takes a tenth of a second."""

LONG = [*BARE, "trainer.max_steps=20", "trainer.checkpoint_every=5", "trainer.log_every=1"]
TESTS = str(Path(__file__).resolve().parents[1])


def train(folder: Path, *words: str, environment: dict[str, str] | None = None) -> Result:
    return in_own_process(folder, "train", *words, environment=environment)


@contextmanager
def started(
    folder: Path, *words: str, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """The command in the background; whatever is left of it is killed at the end."""
    path = os.pathsep.join(filter(None, [TESTS, os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-m", "lengthwise", "train", *words],
        cwd=folder,
        env={**os.environ, "LENGTHWISE_TRACEBACK": "0", "PYTHONPATH": path, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    family: set[int] = set()
    try:
        yield process
        family = descendants(process.pid)
    finally:
        for pid in {process.pid, *family, *descendants(process.pid)}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def jobs_at_work(outputs: Outputs, *, steps: int) -> bool:
    """Whether some run has come so far."""
    tables = [path / "train.csv" for path in outputs.runs()]
    return any(table.is_file() and len(table.read_text().splitlines()) > steps for table in tables)


def family_of(process: subprocess.Popen[str]) -> set[int]:
    family = descendants(process.pid)
    assert len(family) >= 2, "the warm server and a job at least"
    return family


def gone(pids: Sequence[int] | set[int]) -> Callable[[], bool]:
    return lambda: not any(Path(f"/proc/{pid}").exists() and not _is_zombie(pid) for pid in pids)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_twelve_jobs_of_which_four_die_in_four_ways(tmp_path: Path) -> None:
    """… eight are done; the same command again runs the four and nothing else."""
    words = ["-m", "seed=range(12)", *BARE, FAULTY, "sweep.time_limit=20"]
    first = train(tmp_path, *words, environment={VARIABLE: "1:raise 4:kill 6:exit 9:loop"})
    outputs = Outputs(tmp_path / "outputs")
    assert first.code == 1, first.out + first.err
    assert "8 of 12 runs done, 4 failed" in first.out
    assert [i for i, state in enumerate(outputs.states()) if state == "failed"] == [1, 4, 6, 9]
    reasons = [cell["reason"] or "" for cell in outputs.record()["cells"]]
    assert reasons[1] == "ArithmeticError: this one raises"
    assert reasons[4] == "killed by SIGKILL"
    assert reasons[6] == "exited with code 0 before the end"
    assert reasons[9] == "stopped after its time limit, sweep.time_limit=20 s"
    for reason in filter(None, reasons):
        assert reason in first.out
    assert outputs.status(6).state == "failed"
    done = outputs.tables()
    owners = {seed: (outputs.status(seed).owner or {})["pid"] for seed in range(12)}

    again = train(tmp_path, *words)
    assert again.code == 0, again.out + again.err
    assert "4 to run · 8 done already" in again.out
    assert outputs.states() == ["done"] * 12
    rerun = {seed for seed in range(12) if (outputs.status(seed).owner or {})["pid"] != owners[seed]}
    assert rerun == {1, 4, 6, 9}
    kept = {name: table for name, table in done.items() if not any(f"-s{seed}-" in name for seed in rerun)}
    assert {name: table for name, table in outputs.tables().items() if name in kept} == kept


def test_when_the_launcher_is_killed_everything_goes_with_it(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path / "outputs")
    with started(
        tmp_path, "-m", "seed=0,1", *LONG, FAULTY, "trainer.max_steps=1000", environment=SLOW
    ) as launcher:
        wait_until(lambda: jobs_at_work(outputs, steps=3), 120)
        family = family_of(launcher)
        os.kill(launcher.pid, signal.SIGKILL)
        began = time.monotonic()
        wait_until(gone(family), 2.0)
        assert time.monotonic() - began < 2.0
    assert {outputs.status(seed).state for seed in (0, 1)} == {"interrupted"}


def test_ctrl_c_marks_runs_interrupted_and_leaves_no_process(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path / "outputs")
    words = ["-m", "seed=0,1,2", *LONG, FAULTY, "sweep.workers=2"]
    with started(tmp_path, *words, environment=SLOW) as launcher:
        wait_until(lambda: jobs_at_work(outputs, steps=6), 120)
        family = family_of(launcher)
        os.killpg(launcher.pid, signal.SIGINT)  # as a terminal does: jobs have groups of their own
        out, _ = launcher.communicate(timeout=15)
        assert launcher.returncode == 130
        wait_until(gone(family), 1.0)
    assert "Traceback" not in out
    assert sorted(outputs.states()) == ["interrupted", "interrupted", "waiting"]
    assert {(outputs.status(seed).state, outputs.status(seed).reason) for seed in (0, 1)} == {
        ("interrupted", "stopped by the user")
    }
    resumed = train(tmp_path, *words)
    assert resumed.code == 0, resumed.out + resumed.err
    assert "goes on from its checkpoint" in resumed.out
    whole = tmp_path / "whole"
    whole.mkdir()
    assert train(whole, *words).code == 0
    assert outputs.tables() == Outputs(whole / "outputs").tables()


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.slow)], ids=["once", "five-times"])
def test_a_sweep_whose_launcher_is_killed_ends_with_the_numbers_of_an_undisturbed_one(
    kills: int, tmp_path: Path
) -> None:
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    words = ["-m", "seed=range(6)", *LONG, FAULTY]
    for folder in (undisturbed, disturbed):
        folder.mkdir()
    assert train(undisturbed, *words).code == 0
    moments = random.Random(0)
    outputs = Outputs(disturbed / "outputs")
    for number in range(kills):
        with started(disturbed, *words, environment=SLOW) as launcher:
            wait_until(lambda: jobs_at_work(outputs, steps=2) or launcher.poll() is not None, 120)
            if number:  # the first time as soon as anything trains, then anywhere, start-up included
                time.sleep(moments.uniform(0, 4))
            family = descendants(launcher.pid)
            os.kill(launcher.pid, signal.SIGKILL)
            wait_until(gone(family), 2.0)
    end = train(disturbed, *words)
    assert end.code == 0, end.out + end.err
    assert outputs.states() == ["done"] * 6
    assert outputs.tables() == Outputs(undisturbed / "outputs").tables()
    assert len(outputs.runs()) == 6


def test_two_sweeps_over_the_same_cells_share_the_work(tmp_path: Path) -> None:
    outputs, gate = Outputs(tmp_path / "outputs"), tmp_path / "gate"
    words = [*LONG, FAULTY, "trainer.max_steps=4", "sweep.workers=1"]
    holding = {VARIABLE: "0:hold", GATE: str(gate)}
    with (
        started(tmp_path, "-m", "seed=0,1,2", *words, environment=holding) as first,
        started(tmp_path, "-m", "seed=2,1,0", *words, environment=holding) as second,
    ):
        wait_until(lambda: sum(outputs.is_done(seed) for seed in (1, 2)) == 2, 120)
        assert not outputs.is_done(0)
        said: list[str] = []  # whoever comes second to seed 0 must have seen that it is taken
        readers = [Thread(target=lambda p=process: said.extend(p.stdout)) for process in (first, second)]
        for reader in readers:
            reader.start()
        wait_until(lambda: any("another process is at work on it" in line for line in said), 120)
        gate.touch()
        for reader, process in zip(readers, (first, second), strict=True):
            reader.join(60)
            assert process.wait(60) == 0, said
    assert len(outputs.runs()) == 3
    trained = [(path / "provenance.json").read_text().count('"argv"') for path in outputs.runs()]
    assert trained == [1, 1, 1]


def test_one_worker_warm_or_two_cold_the_numbers_are_the_same(tmp_path: Path) -> None:
    found = []
    for options in (["sweep.start=warm", "sweep.workers=1"], ["sweep.start=cold", "sweep.workers=2"]):
        folder = tmp_path / options[0].replace(".", "-").replace("=", "-")
        folder.mkdir()
        words = ["pe=rotary,t5", *BARE, "model.dropout=0.1", "trainer.max_steps=6", *options]
        result = train(folder, "-m", *words)
        assert result.code == 0, result.out + result.err
        found.append(Outputs(folder / "outputs").tables())
    assert found[0] and found[0] == found[1]


def test_the_launching_process_never_imports_torch(tmp_path: Path) -> None:
    program = (
        "import sys; from lengthwise import cli; code = cli.train(sys.argv[1:]); "
        "print('imported', sorted({'torch', 'pytorch_lightning', 'wandb'} & set(sys.modules))); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "-m", "seed=0", *BARE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "imported []" in done.stdout
    assert "1 of 1 runs done" in done.stdout
