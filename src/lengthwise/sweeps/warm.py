"""The warm server as its client sees it: jobs start in a fraction of a second, each a fresh process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lengthwise.errors import RunError
from lengthwise.lifeline import Lifeline
from lengthwise.process import has_ended, import_path
from lengthwise.sweeps.job import clean_environment, describe_exit

_PATIENCE = 5.0
"""Seconds until a server that was killed is left to the system."""


class WarmServer:
    """A running server; starting it does not wait for its imports. `log` takes what it has to say, its folder other
    files.

    Its processes hang on `lifeline` (environment variables) and on this object: `close` ends it, not its jobs.
    """

    def __init__(self, log: Path, lifeline: Mapping[str, str]) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-P", "-m", "lengthwise.warm", str(log.parent.resolve())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env={**clean_environment(), **lifeline},
                start_new_session=True,
            )
        self._pending = b""
        self.ready = False

    @property
    def is_alive(self) -> bool:
        """Whether it can still be asked."""
        return not has_ended(self._process)

    def ask(self, name: str, do: str, file: Path, log: Path, environment: Mapping[str, str]) -> None:
        """Have it fork a process: `do` "job" or "inspect" with `file`; answers will call it `name`.

        Raises RunError where the server is gone.
        """
        request: dict[str, Any] = {
            "id": name,
            "do": do,
            "file": str(file.resolve()),
            "log": str(log.resolve()),
        }
        request |= {"environment": dict(environment), "cwd": os.getcwd(), "path": import_path()}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self.failure() from None

    def answers(self, wait: float = 0.0) -> list[dict[str, Any]]:
        """What it has said since: ``{"started": name, "pid"}``, ``{"ended": name, "code"}``; waits at most `wait` s."""
        assert self._process.stdout is not None
        handle, found = self._process.stdout.fileno(), []
        while select.select([handle], [], [], wait)[0]:
            read = os.read(handle, 1 << 16)
            if not read:
                break
            *lines, self._pending = (self._pending + read).split(b"\n")
            found += [json.loads(line) for line in lines]
            wait = 0.0
        self.ready = self.ready or any("ready" in answer for answer in found)
        return [answer for answer in found if "ready" not in answer]

    def wait(self, seconds: float) -> None:
        """Until it has something to say, at most `seconds`."""
        if self._process.stdout is not None:
            select.select([self._process.stdout], [], [], seconds)

    def failure(self) -> RunError:
        """Why it is gone."""
        code = self._process.wait()
        last = ""
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").strip().splitlines()
            last = f": {lines[-1]}" if lines else ""
        return RunError(f"the process that starts jobs is gone ({describe_exit(code)}){last}")

    def close(self) -> None:
        """End it, at once: it holds nothing, and where it still imports it hears nothing."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


class WarmStart:
    """The warm server of this process, started where there is none, and the lifeline that all it starts hangs on.

    After `close` nothing of it is left.
    """

    def __init__(self) -> None:
        self._lifelines = [Lifeline()]
        self._scratch = TemporaryDirectory(prefix="lengthwise-")
        self.running: WarmServer | None = None

    @property
    def lifeline(self) -> Lifeline:
        """For the processes to come: another one where the file of the last is gone, which still holds its own."""
        if not self._lifelines[-1].is_intact:
            self._lifelines.append(Lifeline())
        return self._lifelines[-1]

    def server(self) -> WarmServer:
        """Ask early: its imports take it some seconds, which nobody waits for who has something else to do."""
        if self.running is None:
            self.running = WarmServer(Path(self._scratch.name) / "server.log", self.lifeline.environment)
        return self.running

    def end_server(self) -> None:
        """The next one who asks gets another."""
        if self.running is not None:
            self.running.close()
            self.running = None

    def close(self) -> None:
        with contextlib.ExitStack() as last:  # whatever one of them meets, the others are done
            last.callback(self._scratch.cleanup)
            for lifeline in self._lifelines:
                last.callback(lifeline.release)
            last.callback(self.end_server)
