"""Jobs on a Ray that is started for the test, where it is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from lengthwise.errors import ConfigError
from lengthwise.process import python_path
from lengthwise.sweeps import ray_cluster
from lengthwise.sweeps.job import Job
from lengthwise.sweeps.launcher import Ended
from lengthwise.sweeps.ray_cluster import RayLauncher
from support.launching import NO_WARM_START

OPTIONS: dict[str, Any] = {"workers": None, "gpus": None, "gpus_per_job": None, "time_limit": None}
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'lengthwise[ray]'"
)


class Script(Job):
    """A job that runs a line of Python in place of a training."""

    def command(self) -> list[str]:
        return [sys.executable, "-u", "-c", textwrap.dedent(self.argv[0])]


def script(folder: Path, name: str, code: str, devices: int = 1, accelerator: str = "auto") -> Script:
    trainer = {"devices": devices, "threads": 1, "accelerator": accelerator}
    config = {"outputs": str(folder), "trainer": trainer}
    return Script(name, config, [code], folder / f"{name}.json", folder / f"{name}.log")


def until_ended(launcher: RayLauncher, jobs: list[Script]) -> dict[str, Ended]:
    waiting, ended = list(jobs), {}
    deadline = time.monotonic() + 60
    while len(ended) < len(jobs):
        assert time.monotonic() < deadline, f"only {list(ended)} ended"
        started = launcher.start(waiting)
        waiting = waiting[len(started) :]
        ended |= {end.job.name: end for end in launcher.poll()}
        time.sleep(0.05)
    return ended


@needs_ray
@pytest.mark.slow
def test_jobs_end_as_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")  # of a job that we ourselves are part of
    launcher = RayLauncher(OPTIONS, tmp_path, NO_WARM_START, num_cpus=2, num_gpus=2)
    try:
        assert launcher.at_once == 2
        see = """
            import os
            print(os.environ["CUDA_VISIBLE_DEVICES"], [k for k in os.environ if k.startswith("RAY_")],
                  os.environ.get("WORLD_SIZE"), os.environ.get("OMP_NUM_THREADS"), os.getpgid(0) == os.getpid())
        """
        ended = until_ended(
            launcher,
            [
                script(tmp_path, "good", see),
                script(tmp_path, "fails", "raise SystemExit(3)"),
                script(tmp_path, "killed", "import os; os.kill(os.getpid(), 9)"),
                script(tmp_path, "both", see, devices=2),
                script(tmp_path, "cpu", see, accelerator="cpu"),
            ],
        )
        assert {name: end.code for name, end in ended.items()} == {
            "good": 0, "fails": 3, "killed": -9, "both": 0, "cpu": 0,
        }  # fmt: skip
        threads = os.environ.get("OMP_NUM_THREADS")
        assert (tmp_path / "both.log").read_text().split(" ", 1) == ["0,1", f"[] None {threads} True\n"]
        assert (tmp_path / "cpu.log").read_text().startswith(" []")
        with pytest.raises(ConfigError, match=r"trainer\.devices=3.*has 2 GPUs"):
            launcher.refuse([script(tmp_path, "large", see, devices=3)])

        launcher.options = {**OPTIONS, "time_limit": 1.0}
        ended = until_ended(launcher, [script(tmp_path, "endless", "import time; time.sleep(60)")])
        assert ended["endless"].reason == "stopped after its time limit, sweep.time_limit=1 s"

        launcher.options = OPTIONS
        polite = "import time\ntry: print('up'); time.sleep(60)\nexcept KeyboardInterrupt: print('told')"
        launcher.start([script(tmp_path, "polite", polite)])
        while not (tmp_path / "polite.log").exists() or "up" not in (tmp_path / "polite.log").read_text():
            time.sleep(0.05)
        launcher.stop(10)
        assert (tmp_path / "polite.log").read_text().split() == ["up", "told"]
        assert launcher.poll() == []
    finally:
        launcher.close()


@needs_ray
@pytest.mark.slow
def test_no_job_outlives_the_launching_process(tmp_path: Path):
    launching = f"""
        import sys, time; sys.path[:0] = {sys.path!r}
        from pathlib import Path
        from search.test_ray import *
        launcher = RayLauncher(OPTIONS, Path({str(tmp_path)!r}), None, num_cpus=1, num_gpus=0)
        code = "from lengthwise import lifeline; lifeline.watch(); import os, time; print(os.getpid()); time.sleep(120)"
        launcher.start([script(Path({str(tmp_path)!r}), "job", code)])
        time.sleep(120)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(launching)])
    try:
        log = tmp_path / "job.log"
        deadline = time.monotonic() + 90
        while not log.exists() or not log.read_text().strip():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        job = int(log.read_text())
        os.kill(job, 0)
    finally:
        process.kill()
        process.wait()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{job}").exists():
        assert time.monotonic() < deadline, "the job lives on"
        time.sleep(0.1)


def test_without_ray_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'lengthwise\[ray\]'"):
        RayLauncher(OPTIONS, tmp_path, NO_WARM_START)


@pytest.mark.parametrize(
    ("options", "own", "says"),
    [({"gpus": 2}, {}, "sweep.gpus=2"), ({}, {"address": "auto", "num_cpus": 2}, "address=auto")],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, options: dict[str, Any], own: dict[str, Any], says: str
):
    with pytest.raises(ConfigError, match=says):
        RayLauncher({**OPTIONS, **options}, tmp_path, NO_WARM_START, **own)


def test_a_job_gets_our_variables_but_not_our_lifelines(monkeypatch: pytest.MonkeyPatch):
    variables = {
        "WANDB_API_KEY": "k",
        "PYTHONPATH": "p",
        "LENGTHWISE_LIFELINES": "/a",
        "HOSTNAME": "h",
        "RANK": "1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    taken = ray_cluster._own_environment()
    assert taken["WANDB_API_KEY"] == "k" and taken["PYTHONPATH"] == python_path()
    assert not {"LENGTHWISE_LIFELINES", "HOSTNAME", "RANK"} & set(taken)


def test_nothing_is_reported_to_anyone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    with pytest.raises(ConfigError):
        RayLauncher(OPTIONS, tmp_path, NO_WARM_START)
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
