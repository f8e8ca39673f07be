"""Cores and GPUs: all that a job needs, or it waits; no two jobs share what is whole."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from lengthwise.errors import ConfigError
from lengthwise.sweeps.job import Job
from lengthwise.sweeps.slots import Share, Slots, choose_gpus, visible_gpus


def job(**trainer: Any) -> Job:
    options = {"devices": 1, "nodes": 1, "threads": 1, "accelerator": "auto"} | trainer
    return Job("run", {"trainer": options, "outputs": "outputs"}, [], Path(), Path())


def taken(slots: Slots, *jobs: Job) -> list[Share | None]:
    return [slots.take(one) for one in jobs]


def test_jobs_at_once_are_as_many_as_cores_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lengthwise.sweeps.slots.usable_cores", lambda: 4)
    slots = Slots(None, [])
    assert [share is not None for share in taken(slots, *[job(threads=2)] * 3)] == [True, True, False]
    assert Slots(3, []).take(job(threads=8)) is not None, "workers=3 means three, whatever their threads"


def test_a_job_larger_than_the_machine_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lengthwise.sweeps.slots.usable_cores", lambda: 2)
    slots = Slots(None, [])
    large = slots.take(job(devices=4, accelerator="cpu"))
    assert large is not None and slots.take(job()) is None
    slots.give_back(large)
    assert slots.take(job()) is not None


def test_gpus_are_given_whole_and_come_back() -> None:
    slots = Slots(8, ["2", "5", "7"])
    two, one, none = taken(slots, job(devices=2), job(), job())
    assert two is not None and one is not None and none is None
    assert two.environment == {"CUDA_VISIBLE_DEVICES": "2,5"}
    assert one.environment == {"CUDA_VISIBLE_DEVICES": "7"}
    slots.give_back(two)
    again = slots.take(job(devices=2))
    assert again is not None and again.environment == {"CUDA_VISIBLE_DEVICES": "2,5"}


def test_all_or_nothing() -> None:
    slots = Slots(8, ["0", "1"])
    assert slots.take(job()) is not None
    assert slots.take(job(devices=2)) is None
    assert slots.free_gpus == {"0": 0.0, "1": 1.0}, "what did not fit holds nothing"
    assert slots.free_slots == 7


def test_a_share_of_a_gpu() -> None:
    slots = Slots(8, ["0", "1"], gpus_per_job=0.5)
    shares = taken(slots, *[job()] * 5)
    assert [share and share.environment["CUDA_VISIBLE_DEVICES"] for share in shares] == [
        "0",
        "0",
        "1",
        "1",
        None,
    ]


def test_a_job_on_the_cpu_sees_no_gpu() -> None:
    slots = Slots(2, ["0"])
    share = slots.take(job(accelerator="cpu"))
    assert share is not None and share.environment == {"CUDA_VISIBLE_DEVICES": ""}
    assert slots.free_gpus == {"0": 1.0}
    assert Slots(2, []).take(job()) is not None, "auto means the CPU where there is no GPU"


def test_what_can_never_run_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"trainer\.devices=3.*2 GPUs here"):
        Slots(8, ["0", "1"]).refuse(job(devices=3))
    with pytest.raises(ConfigError, match="no GPU here"):
        Slots(8, []).refuse(job(accelerator="gpu"))
    with pytest.raises(ConfigError, match="gpus_per_job=4"):
        Slots(8, ["0", "1"], gpus_per_job=4).refuse(job())
    with pytest.raises(ConfigError, match=r"trainer\.nodes=2"):
        Slots(8, ["0", "1"]).refuse(job(nodes=2))
    with pytest.raises(ConfigError, match=r"trainer\.devices=2 with sweep\.gpus_per_job=0\.5"):
        Slots(8, ["0", "1"], gpus_per_job=0.5).refuse(job(devices=2))
    with pytest.raises(ConfigError, match=r"gpus_per_job=1\.5 for trainer\.devices=1: .* as 1 or 2"):
        Slots(8, ["0", "1"], gpus_per_job=1.5).refuse(job())
    Slots(8, ["0", "1"]).refuse(job(devices=2))
    Slots(8, ["0", "1"], gpus_per_job=2).refuse(job())
    Slots(8, ["0", "1"], gpus_per_job=0.5).refuse(job(devices=2, accelerator="cpu"))


def test_gpus_are_chosen_among_the_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7,-1,9")
    assert visible_gpus() == ["4", "6", "7"], "CUDA ends its list at the first that is none"
    assert choose_gpus(None) == ["4", "6", "7"]
    assert choose_gpus(2) == ["4", "6"]
    assert choose_gpus([7, 4]) == ["7", "4"]
    for wrong in (4, -1, [5], "all", True):
        with pytest.raises(ConfigError, match=r"sweep\.gpus"):
            choose_gpus(wrong)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert choose_gpus(None) == []


def test_without_the_variable_the_drivers_tool_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert visible_gpus() == []
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: one (UUID: x)'\necho 'GPU 1: two (UUID: y)'\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    assert visible_gpus() == ["0", "1"]
