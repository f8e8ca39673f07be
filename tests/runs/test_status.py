"""status.json: atomic, tolerant of damage, and right however a run ends."""

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

import numpy as np
import pytest

from lengthwise.errors import RunError
from lengthwise.runs import Owner, RunFolder, Status, Table, ending, read_status, write_status
from lengthwise.runs.atomic import replacing, write_atomic
from support.disks import fill


def test_round_trip(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    status = Status(
        state="done", steps=300, max_steps=300, horizon=200, started="2000-01-01T00:00:00+00:00",
        evaluations={"default": [4, 5]}, results={"reach": np.int64(10), "loss": float("nan"), "text": "🦄</script>"},
        owner=Owner.current().to_dict(), hash="0123456789", variant="9876543210",
    )  # fmt: skip
    write_status(file, status)
    again = read_status(file)
    assert again.results == {"reach": 10, "loss": None, "text": "🦄</script>"}
    status.results = again.results
    assert again == status
    assert json.loads(file.read_text())["format"] == 1
    assert os.listdir(tmp_path) == ["status.json"]
    with pytest.raises(ValueError, match="state 'finished': one of running, done"):
        write_status(file, Status(state="finished"))


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"format": 1', '{"format": 1, "state": "finished"}', "null", "3",
     '{"format": 1}', '{"format": "1", "state": "done"}', '{"state": "done"}',
     '{"format": 1, "state": 7}', '{"format": 1, "state": "done", "steps": "many"}',
     '{"format": 1, "state": "done", "steps": true}', '{"format": 1, "state": "done", "results": []}',
     '{"format": true, "state": "done"}', "\0" * 50, "\xff\xfe", "[" * 100_000],
)  # fmt: skip
def test_damage_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "status.json"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(RunError, match=r"status\.json is damaged \(.*overwrite=true"):
        read_status(file)


def test_newer_format_and_missing_file(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    with pytest.raises(RunError, match=r"has no status\.json\. overwrite=true"):
        read_status(file)
    file.write_text('{"format": 2, "state": "weird"}')
    with pytest.raises(RunError, match="has format 2, written by a newer Lengthwise"):
        read_status(file)
    file.write_text('{"format": 1, "state": "done", "from_the_future": 1}')
    assert read_status(file).state == "done"


def test_running_with_nobody_there(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    write_status(file, Status(owner=Owner.current().to_dict()))
    assert read_status(file).state == "running"
    for owner in (None, Owner.current().to_dict() | {"pid": 2**22 + 1}):
        write_status(file, Status(owner=owner))
        assert read_status(file).state == "interrupted"
        assert "ended without a word" in (read_status(file).reason or "")


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    write_status(file, Status(state="done"))
    stop = threading.Event()

    def write() -> None:
        size = 0
        while not stop.is_set():
            size = (size + 997) % 20_000
            write_status(file, Status(state="done", reason="x" * size))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            assert read_status(file).state == "done"
    finally:
        stop.set()
        writer.join()


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "status.json"
    write_atomic(file, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "whatever the system says")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(
        RunError, match=r"cannot write .*status\.json: no space left on the device\. What was there"
    ):
        write_atomic(file, b"new")
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["status.json"]


def test_a_replaced_file_is_not_called_failed_where_its_folder_cannot_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems refuse to sync a folder."""
    sync, file = os.fsync, tmp_path / "status.json"

    def only_files(handle: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(22, "Invalid argument")
        sync(handle)

    monkeypatch.setattr(os, "fsync", only_files)
    with replacing(file) as stream:
        stream.write(b"new")
    assert file.read_bytes() == b"new"


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.checkpoints.mkdir()
    for file in (folder.status_file, folder.last):
        pid = os.fork()
        if pid == 0:
            with replacing(file) as stream:
                stream.write(b"half")
                stream.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        assert [path.read_bytes() for path in file.parent.glob(".tmp-*")] == [b"half"]
    folder.last.write_bytes(b"whole")
    with folder.claim():
        assert not list(tmp_path.rglob(".tmp-*"))
        assert folder.last.read_bytes() == b"whole"


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 256 KiB; needs root."""
    disk = tmp_path / "disk"
    disk.mkdir()
    answer = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, text=True
    )
    if answer.returncode:
        pytest.skip(f"mounting a small file system is not permitted here: {answer.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    folder = RunFolder.create(small_disk, {"seed": 0})
    folder.write_status(Status(state="done", steps=7))
    table = Table(folder.train_csv, ("step", "loss"))
    table.append({"step": 1, "loss": 0.5})
    ballast = fill(small_disk)
    before = folder.status_file.read_bytes()
    with pytest.raises(RunError, match=r"cannot write .*status\.json: no space left on the device"):
        folder.write_status(Status(state="failed", reason="x" * 10_000))
    assert folder.status_file.read_bytes() == before
    assert folder.status().steps == 7
    with pytest.raises(RunError, match=r"cannot write .*train\.csv: no space left on the device"):
        table.append(*({"step": step, "loss": 0.25} for step in range(2, 2000)))
    assert table.read() == [{"step": 1, "loss": 0.5}]
    assert not list(small_disk.rglob(".tmp-*"))
    ballast.unlink()  # negative control: with space it works
    folder.write_status(Status(state="failed"))
    table.append({"step": 2, "loss": 0.25})
    assert folder.status().state == "failed"
    assert len(table.read()) == 2


def test_the_disk_fills_up_while_running(small_disk: Path) -> None:
    file = small_disk / "status.json"
    with pytest.raises(ValueError, match="the first error") as caught, ending(file, Status()):
        fill(small_disk)
        raise ValueError("the first error" + " " * 10_000)
    assert "no space left" in caught.value.__notes__[0]
    assert read_status(file).state == "running"
    (small_disk / "ballast").unlink()
    with pytest.raises(RunError, match="no space left"), ending(file, Status()) as status:
        fill(small_disk)
        status.results = {"text": "x" * 10_000}


def test_a_read_only_file_system(small_disk: Path) -> None:
    folder = RunFolder.create(small_disk, {"seed": 0})
    folder.write_status(Status(state="done"))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(
        RunError, match=r"cannot write to .*/runs/run-s0-\w+: the file system is read-only.*outputs="
    ):
        RunFolder.create(small_disk, {"seed": 0})
    with pytest.raises(RunError, match=r"read-only.*outputs="):
        RunFolder.create(small_disk, {"seed": 1})
    with pytest.raises(RunError, match="read-only"):
        folder.claim()
    assert folder.status().state == "done"


def test_an_output_folder_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    code = (
        "import os, sys\n"
        "from lengthwise.errors import RunError\n"
        "from lengthwise.runs import RunFolder\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: RunFolder.create(sys.argv[1], {'seed': 0})\n"
        "except RunError as error: print(error)\n"
    )
    for part in (tmp_path, *tmp_path.parents[:-1]):
        if part.stat().st_uid == os.getuid() and part != Path("/tmp"):
            part.chmod(part.stat().st_mode | 0o055)
    answer = subprocess.run([sys.executable, "-c", code, tmp_path / "locked"], capture_output=True, text=True)
    if answer.returncode and "Permission" in answer.stderr:
        pytest.skip("the library itself cannot be read without privileges here")
    assert "permission denied. Choose another folder with outputs=" in answer.stdout


def test_outputs_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("")
    with pytest.raises(RunError, match=r"cannot write to .*outputs="):
        RunFolder.create(tmp_path / "outputs", {"seed": 0})


def run_to_end(file: Path, body) -> Status:
    with pytest.raises(BaseException), ending(file, Status(max_steps=3)):  # noqa: B017
        body()
    return read_status(file)


def test_endings(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    with ending(file, Status(max_steps=3, reason="old")) as status:
        assert read_status(file).state == "running"
        assert read_status(file).owner == Owner.current().to_dict()
        status.steps = 3
    done = read_status(file)
    assert (done.state, done.reason, done.steps) == ("done", None, 3)

    def fails(error: BaseException):
        def body() -> None:
            raise error

        return body

    def exits_on_interrupt() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            sys.exit(1)

    def asked_to_end() -> None:
        signal.raise_signal(signal.SIGTERM)

    def preempted() -> None:
        signal.raise_signal(signal.SIGUSR2)

    def out_of_time() -> None:
        signal.raise_signal(signal.SIGUSR1)

    cases = [
        (fails(ValueError("bad width")), "failed", "ValueError: bad width"),
        (fails(RunError("no checkpoint")), "failed", "no checkpoint"),
        (fails(MemoryError()), "failed", "MemoryError"),
        (fails(KeyboardInterrupt()), "interrupted", "stopped by the user"),
        (exits_on_interrupt, "interrupted", "stopped by the user"),
        (asked_to_end, "interrupted", "SIGTERM"),
        (preempted, "interrupted", "asked to stop by SIGUSR2 (preempted or out of time)"),
        (out_of_time, "interrupted", "asked to stop by SIGUSR1 (preempted or out of time)"),
        (fails(SystemExit(0)), "failed", "exited with code 0 before the end"),
    ]
    for body, state, reason in cases:
        status = run_to_end(file, body)
        assert (status.state, status.reason) == (state, reason)


def test_the_inside_may_decide(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    with ending(file, Status()) as status:
        status.state, status.reason = "failed", "the loss is not finite"
    assert read_status(file).reason == "the loss is not finite"


def test_a_swallowed_sigterm_is_not_done(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    asking = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
    before = [signal.getsignal(number) for number in asking]
    with ending(file, Status()), contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert read_status(file).state == "interrupted"
    assert [signal.getsignal(number) for number in asking] == before


def test_sigterm_during_the_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "status.json"
    outer: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: outer.append(number))
    try:
        with ending(file, Status()):
            replace = os.replace
            monkeypatch.setattr(os, "replace", lambda *a: (signal.raise_signal(signal.SIGTERM), replace(*a)))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert read_status(file).state == "done"
    assert outer == [signal.SIGTERM]


def test_sigterm_from_outside(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom lengthwise.runs import Status, ending\n"
        "with ending(Path(sys.argv[1]), Status()):\n    print('in', flush=True)\n    time.sleep(60)\n"
    )
    file = tmp_path / "status.json"
    process = subprocess.Popen(
        [sys.executable, "-c", code, file], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    started = time.monotonic()
    process.terminate()
    process.communicate()
    assert time.monotonic() - started < 20
    assert (read_status(file).state, read_status(file).reason) == ("interrupted", "SIGTERM")
    assert process.returncode != 0


def test_in_a_thread(tmp_path: Path) -> None:
    file = tmp_path / "status.json"

    def run() -> None:
        with ending(file, Status()):
            pass

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert read_status(file).state == "done"
