"""The launcher on a real Slurm, with jobs that only say what they see."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

from support.slurm import OneNode

SEES = """
import json
began = time.time()
time.sleep(0.7)
seen = {key: os.environ.get(key) for key in ("CUDA_VISIBLE_DEVICES", "SLURM_NTASKS", "LOCAL_RANK")}
(here / f"{name}.seen").write_text(json.dumps({"began": began, "ended": time.time(), **seen}))
"""
WAITS = """
def note(number, frame):
    (here / f"{name}.told").write_text(signal.Signals(number).name)
    sys.exit(130)
signal.signal(signal.SIGTERM, note)
(here / f"{name}.pid").write_text(str(os.getpid()))
time.sleep(60)
"""
RANK_ONE_DIES = """
if os.environ["SLURM_PROCID"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60)
"""
ENDLESS = """
(here / f"{name}.starts").open("a").write("x")
time.sleep(60)
"""
FINISHES_WHEN_TOLD = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
(here / f"{name}.ready").touch()
time.sleep(60)
"""


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_an_array_runs_as_many_at_once_as_there_are_gpus(driver, node: OneNode):
    sweep = driver(gpus_per_task=1)
    jobs = [sweep.scripted(f"cell{i}", SEES) for i in range(6)]
    assert sweep.start(*jobs) == [job.name for job in jobs]
    ids = list(sweep.ids().values())
    assert [one.partition("_")[2] for one in ids] == list("012345"), "one array"
    assert len({one.partition("_")[0] for one in ids}) == 1

    assert {end.code for end in sweep.finish().values()} == {0}
    spans = [json.loads(path.read_text()) for path in (sweep.folder / "logs").glob("*.seen")]
    assert len(spans) == 6
    assert {span["CUDA_VISIBLE_DEVICES"] for span in spans} == {"0", "1"}, "one each"
    assert {(span["SLURM_NTASKS"], span["LOCAL_RANK"]) for span in spans} == {(None, None)}
    pairs = [
        (one, other)
        for one, other in itertools.combinations(spans, 2)
        if one["began"] < other["ended"] and other["began"] < one["ended"]
    ]
    assert pairs, "two at a time"
    assert all(one["CUDA_VISIBLE_DEVICES"] != other["CUDA_VISIBLE_DEVICES"] for one, other in pairs)


def test_the_option_bounds_how_many_of_an_array_run(driver, node: OneNode):
    sweep = driver(array_parallelism=1)
    sweep.start(*(sweep.scripted(f"cell{i}", SEES) for i in range(2)))
    sweep.finish()
    first, second = sorted(
        (json.loads(path.read_text()) for path in (sweep.folder / "logs").glob("*.seen")),
        key=lambda span: span["began"],
    )
    assert first["ended"] <= second["began"]
    assert first["CUDA_VISIBLE_DEVICES"] is None, "no GPU where none was asked for"


def test_however_a_job_dies_it_comes_back_with_a_reason(driver, node: OneNode):
    sweep = driver(time_limit=3.0)
    kill = "os.kill({}, signal.SIGKILL)\ntime.sleep(60)"
    jobs = [
        sweep.scripted("killed", kill.format("os.getpid()")),
        sweep.scripted("task_killed", kill.format("os.getppid()")),
        sweep.scripted("failed", "sys.exit(2)"),
        sweep.scripted("endless", "time.sleep(60)"),
        sweep.scripted("done", "print('said')"),
    ]
    sweep.start(*jobs)
    ends = sweep.finish(60)
    assert (ends["killed"].code, ends["killed"].reason) == (-9, "killed by SIGKILL")
    assert ends["task_killed"].code is None
    assert "its task was killed" in str(ends["task_killed"].reason)
    assert (ends["failed"].code, ends["failed"].reason) == (2, None), "the job itself knows best"
    assert "sweep.time_limit=3 s" in str(ends["endless"].reason)
    assert (ends["done"].code, ends["done"].reason) == (0, None)
    assert jobs[-1].log.read_text() == "said\n"


def test_stop_interrupts_what_runs_and_cancels_what_waits(driver, node: OneNode):
    sweep = driver(array_parallelism=1)
    sweep.start(*(sweep.scripted(f"cell{i}", WAITS) for i in range(3)))
    pid = sweep.folder / "logs" / "cell0.pid"
    node.wait_until(lambda: pid.exists() and pid.read_text())
    began = time.monotonic()
    sweep.launcher.stop(10)
    assert time.monotonic() - began < 15
    assert not node.jobs()
    assert is_gone(int(pid.read_text()))
    assert (sweep.folder / "logs" / "cell0.told").read_text() == "SIGTERM"
    assert not (sweep.folder / "logs" / "cell1.pid").exists()


def test_stop_finds_what_was_submitted_while_it_was_interrupted(driver, node: OneNode):
    sweep = driver()
    sweep.start(sweep.scripted("cell", WAITS))
    sweep.launcher._running.clear()
    sweep.launcher.stop(10)
    assert not node.jobs()


def test_a_rank_that_dies_takes_the_job_with_it(driver, node: OneNode):
    sweep = driver()
    sweep.start(sweep.scripted("two", RANK_ONE_DIES, devices=2))
    end = sweep.finish()["two"]
    assert end.code not in (0, None)
    assert "SIGKILL" in str(end.reason)


def test_what_an_earlier_start_left_in_the_queue_is_waited_for(driver, node: OneNode):
    first = driver("sweep", array_parallelism=1)
    first.start(*(first.scripted(f"cell{i}", SEES) for i in range(2)))
    again = driver("sweep")
    assert again.start(again.scripted("cell1", SEES), again.scripted("cell2", SEES)) == ["cell1", "cell2"]
    ids = first.ids() | again.ids()
    assert again.ids()["cell1"] == first.ids()["cell1"]

    third = driver("another")
    same = [third.scripted(f"cell{i}", SEES) for i in range(3)]
    other = third.scripted("cell1", SEES, max_steps=7)
    assert third.start(same[0], other, same[2]) == ["cell0", "cell2"], (
        "another cell1 waits for this one's end"
    )
    assert third.start(same[1]) == ["cell1"]
    assert third.ids() == ids
    assert not (third.folder / "slurm").exists(), "nothing was submitted"
    assert {end.code for end in third.finish().values()} == {0}

    assert third.start(other) == ["cell1"], "what has ended is submitted anew"
    assert third.ids()["cell1"] not in ids.values()
    third.launcher.stop(5)


def signal_as_slurm_does(node: OneNode, job_id: str) -> None:
    """The warning that Slurm gives before its time limit, and with some settings before a preemption."""
    node.ask("scancel", "--signal=USR2", job_id)


def test_a_job_is_queued_again_at_the_time_limit_but_not_for_ever(driver, node: OneNode):
    # With so short a limit, every warning is the one before it.
    sweep = driver(timeout_min=2, signal_delay=30, restarts=1)
    sweep.start(sweep.scripted("cell", ENDLESS))
    (job_id,) = sweep.ids().values()
    starts = sweep.folder / "logs" / "cell.starts"
    node.wait_until(starts.exists)
    signal_as_slurm_does(node, job_id)
    node.start_again(job_id)
    assert not sweep.look(), "it has not ended"
    node.wait_until(lambda: starts.read_text() == "xx")
    signal_as_slurm_does(node, job_id)
    end = sweep.finish()["cell"]
    assert end.code == -15
    assert end.reason == "stopped at Slurm's time limit of 2 minutes"


def test_a_job_that_comes_to_its_end_when_told_to_stop_is_done(driver, node: OneNode):
    sweep = driver()
    sweep.start(sweep.scripted("cell", FINISHES_WHEN_TOLD))
    (job_id,) = sweep.ids().values()
    node.wait_until((sweep.folder / "logs" / "cell.ready").exists)
    signal_as_slurm_does(node, job_id)
    end = sweep.finish()["cell"]
    assert (end.code, end.reason) == (0, None)
