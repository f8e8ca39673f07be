"""An ordinary run or sweep, W&B included, never touches the network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commandline import QUICK, SMALL

_GUARD = Path(__file__).resolve().parents[1] / "support" / "network_guard"
_CONNECT = "import socket; socket.socket().connect(('127.0.0.1', 9))"
_STRACE = ["strace", "-f", "--seccomp-bpf", "-e", "trace=connect"]


def can_trace() -> bool:
    return (
        bool(shutil.which("strace"))
        and not subprocess.run([*_STRACE, "true"], capture_output=True).returncode
    )


CAN_TRACE = can_trace()


def watched(
    folder: Path, *command: str, **environment: str
) -> tuple[str, str, subprocess.CompletedProcess[str]]:
    """Run by Python: what strace saw (empty where there is none), what Python's own hooks saw, and the process."""
    log, trace = folder / "network.log", folder / "trace.txt"
    path = os.pathsep.join(filter(None, [str(_GUARD), os.environ.get("PYTHONPATH")]))
    tracing = [*_STRACE, "-o", str(trace)] if CAN_TRACE else []
    done = subprocess.run(
        [*tracing, sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "LENGTHWISE_TEST_NETWORK_LOG": str(log), **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    return trace.read_text() if trace.exists() else "", log.read_text(), done


@pytest.fixture(scope="module", params=[[], ["-m", "seed=0,1", "evaluation.pictures=[attention,positions]"]])
def ordinary(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Path]]:
    """A run, and a sweep with all that W&B shows of one: what was seen of connections, and its temporary folder."""
    folder = tmp_path_factory.mktemp("offline")
    temporary = tempfile.mkdtemp(prefix="lw-")  # a short name: sockets are made in it
    command = [word for word in [*QUICK, *SMALL] if not word.startswith("wandb")]
    trace, log, done = watched(
        folder, "-m", "lengthwise", "train", *request.param, *command, TMPDIR=temporary
    )
    assert done.returncode == 0, done.stderr
    found = [len(list((folder / "outputs" / "wandb").glob(name))) for name in ("*run-*", "*/files/media/*/*")]
    assert found == ([3, 8] if request.param else [1, 2])  # runs with the report; tables, pictures, page
    yield trace, log, Path(temporary)
    shutil.rmtree(temporary)


def test_nothing_is_left_behind(ordinary: tuple[str, str, Path]) -> None:
    """But PyTorch's cache of what it compiled, which later runs use."""
    assert [path for path in ordinary[2].iterdir() if not path.name.startswith("torchinductor_")] == []


def test_no_python_process_uses_the_network(ordinary: tuple[str, str, Path]) -> None:
    assert set(ordinary[1].split("\n")) == {"watching", ""}


@pytest.mark.skipif(
    not CAN_TRACE, reason="strace is missing or may not trace: only Python's own hooks were asked"
)
def test_no_process_at_all_connects(ordinary: tuple[str, str, Path]) -> None:
    """W&B's service, which is not Python, included; it is spoken to through a local socket."""
    trace = ordinary[0]
    assert [line for line in trace.splitlines() if "AF_UNIX" in line and "wandb" in line]
    assert [line for line in trace.splitlines() if "AF_INET" in line] == []


def test_control_a_connection_would_be_seen(tmp_path: Path) -> None:
    _, log, done = watched(tmp_path, "-c", _CONNECT)
    assert done.returncode != 0
    assert "socket.connect" in log
    _, log, done = watched(tmp_path, "-c", "import socket; socket.getaddrinfo('localhost', 9)")
    assert "socket.getaddrinfo" in log
    if CAN_TRACE:
        unguarded = tmp_path / "unguarded.txt"
        subprocess.run([*_STRACE, "-o", unguarded, sys.executable, "-c", _CONNECT], capture_output=True)
        assert "AF_INET" in unguarded.read_text()
