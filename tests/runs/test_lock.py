"""Two processes never run one folder; a dead one never blocks it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lengthwise.errors import RunError
from lengthwise.runs import Owner, RunFolder, Status, find_run, lock, read_status, write_status
from lengthwise.runs.lock import Claim
from lengthwise.runs.owner import LEASE

HOLD = """
import sys, time
from lengthwise.runs import RunFolder, Status
folder = RunFolder(sys.argv[1])
claim = folder.claim()
with folder.ending(Status(max_steps=3)):
    print("claimed", flush=True)
    time.sleep(60)
"""

RACE = """
import sys, time
from pathlib import Path
from lengthwise.errors import RunError
from lengthwise.runs import RunFolder
folder = RunFolder(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    folder.claim()
except RunError:
    print("refused", flush=True)
else:
    print("claimed", flush=True)
sys.stdin.readline()
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def say(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_and_a_killed_one_is_not_in_the_way(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    holder = start(HOLD, tmp_path)
    try:
        assert say(holder) == "claimed"
        with pytest.raises(RunError, match=rf"already running as process {holder.pid} on host \S+"):
            folder.claim()
        assert folder.status().state == "running"
        os.kill(holder.pid, signal.SIGKILL)
        # a zombie is dead, though its process number still exists
        deadline = time.monotonic() + 10
        while folder.status().state == "running" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert folder.status().state == "interrupted"
        assert f"process {holder.pid}" in (folder.status().reason or "")
        (tmp_path / ".tmp-left-over").write_text("half")
        with folder.claim():
            assert not (tmp_path / ".tmp-left-over").exists()
    finally:
        end(holder)


@pytest.mark.parametrize("stale", [False, True])
def test_of_many_at_once_one_wins(tmp_path: Path, stale: bool) -> None:
    if stale:
        dead = Owner.current().to_dict() | {"pid": 2**22 + 1}
        (tmp_path / "run.lock").write_text(json.dumps(dead))
    racers = [start(RACE, tmp_path) for _ in range(4)]
    try:
        assert [say(racer) for racer in racers] == ["ready"] * 4
        for racer in racers:
            tell(racer)
        assert sorted(say(racer) for racer in racers) == ["claimed", "refused", "refused", "refused"]
    finally:
        for racer in racers:
            end(racer)


def test_nobody_comes_between_looking_and_taking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    won: list[Claim] = []
    look = lock._read

    def look_slowly(handle: int) -> Owner | None:
        found = look(handle)
        time.sleep(0.05)
        return found

    monkeypatch.setattr(lock, "_read", look_slowly)

    def race() -> None:
        with contextlib.suppress(RunError):
            won.append(RunFolder(tmp_path).claim())

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    won[0].release()


def test_released_by_the_end_of_the_block(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(ZeroDivisionError), folder.claim():
        with pytest.raises(RunError, match=f"process {os.getpid()}"):
            folder.claim()
        raise ZeroDivisionError
    claim = folder.claim()
    claim.release()
    claim.release()
    folder.claim().release()


def test_release_leaves_a_lock_that_is_not_ours(tmp_path: Path) -> None:
    claim = RunFolder(tmp_path).claim()
    other = json.dumps(Owner("elsewhere", 7, "x", "1").to_dict())
    (tmp_path / "run.lock").write_text(other)
    claim.release()
    assert (tmp_path / "run.lock").read_text() == other


@pytest.mark.parametrize("content", ["", "{", '{"pid": true}', "[]", "\0\0\0", '{"pid": -1}'])
def test_an_unreadable_lock_is_nobodys(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.lock").write_text(content)
    RunFolder(tmp_path).claim().release()


def test_another_machine_is_judged_by_its_silence(tmp_path: Path) -> None:
    file = tmp_path / "run.lock"
    owner = Owner("elsewhere", os.getpid(), "another boot", "1")
    file.write_text(json.dumps(owner.to_dict()))
    status = Status(owner=owner.to_dict())
    write_status(tmp_path / "status.json", status)
    with pytest.raises(
        RunError, match=r"on host elsewhere\. Its last sign of life came \d+ s ago.* delete .*run\.lock"
    ):
        RunFolder(tmp_path).claim()
    assert read_status(tmp_path / "status.json").state == "running"
    long_ago = file.stat().st_mtime - LEASE - 5
    os.utime(tmp_path / "status.json", (long_ago, long_ago))
    assert read_status(tmp_path / "status.json").state == "running"  # the lock is still touched
    os.utime(file, (long_ago, long_ago))
    assert read_status(tmp_path / "status.json").state == "interrupted"
    RunFolder(tmp_path).claim().release()


def test_a_reused_process_number_is_another_process() -> None:
    here = Owner.current()
    assert here.is_alive(lambda: 0)
    assert not Owner(here.host, here.pid, here.place, here.born + "1").is_alive(lambda: 0) or not here.born


def test_a_sign_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lengthwise.runs.lock.BEAT", 0.01)
    with RunFolder(tmp_path).claim():
        file = tmp_path / "run.lock"
        os.utime(file, (0, 0))
        for _ in range(10_000):
            if file.stat().st_mtime > 0:
                break
            threading.Event().wait(0.001)
        assert file.stat().st_mtime > 0


def test_no_locks_on_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lengthwise.runs.lock.fcntl", None)
    with RunFolder(tmp_path).claim(), pytest.raises(RunError, match="already running"):
        RunFolder(tmp_path).claim()


def test_claiming_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot lock"):
        RunFolder(tmp_path / "absent").claim()
    with pytest.raises(RunError):
        find_run(tmp_path, "absent")
