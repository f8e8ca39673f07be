"""The processes of one run: a leader, which decides, and followers, which are told.

In their `Meeting` the leader gives its orders, hears why a follower failed, and is seen to be alive; so that no rank
waits for one that is gone:

- a follower that dies ends the run, with the reason, whatever the leader is waiting for;
- a leader that ends, in any way, takes its followers with it.

Interrupts are the leader's business: a terminal's Ctrl-C does not reach the followers it starts (they have a process
group of their own), and what a cluster sends to every rank they leave to it.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from lengthwise.errors import LengthwiseError, RunError
from lengthwise.lifeline import Lifeline
from lengthwise.process import hear_interrupts, import_path, python_path
from lengthwise.training import meeting
from lengthwise.training.hardware import rank_device
from lengthwise.training.meeting import Meeting
from lengthwise.training.place import Place
from lengthwise.training.rank_failures import LOST, exit_in_words, in_words, is_lost

_BEAT = 1.0
_GOODBYE = 5.0
_UNBLOCK, _GIVE_UP = 2.0, 15.0
"""Seconds after a death: until what the leader waits for is broken off, and until its process is."""

_FOLLOW = (
    "import sys; from lengthwise import lifeline; lifeline.watch(); "
    "from lengthwise.pipeline import follow; sys.exit(follow(sys.argv[1]))"
)
_FAILED = 2


class Team:
    """The processes of one run, seen from one of them; a context manager, which the leader must leave last.

    Leader: `start`, `order`, `join`, train inside `blaming`, leave. Follower: `await_order`, `join`, train inside
    `reporting`, leave. For a run of one process all of them do nothing.

    failure: why a follower is gone, as soon as the leader knows.
    last_words: called with the failure where the leader has to be ended from outside its main thread.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.failure: str | None = None
        self.last_words: Callable[[str], None] = lambda reason: None
        self._meeting = Meeting(place)
        self._lifeline: Lifeline | None = None
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._logs: dict[int, Path] = {}
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._left = threading.Event()
        self._watcher: threading.Thread | None = None
        self._joined = False
        self._handlers: dict[int, Any] = {}

    @property
    def alone(self) -> bool:
        return self.place.world == 1

    # -- both ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Team:
        if self.place.leads and not self.alone:
            hear_interrupts()  # it is how the leader learns that a rank is gone
        if self.place.outside or not self.place.leads:
            self._meeting.open()
            self._watch(self._watch_followers if self.place.leads else self._watch_leader)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        if self._watcher is not None and self._watcher is not threading.current_thread():
            self._watcher.join(2 * _BEAT)
        if self.place.leads and not self.alone:
            with contextlib.suppress(Exception):
                self._meeting.set("end", str(_code(error)))
                if self.place.outside:
                    self._see_off()
            self._end_processes()
        elif not self.alone:
            with contextlib.suppress(Exception):
                self._meeting.set(f"left/{self.place.rank}")
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
        self.part(broken=error is not None)
        self._meeting.close()

    def join(self, accelerator: str) -> None:
        """Become one process group, and see that it is as large as was asked for.

        Raises RunError where a rank does not come, or the group has another size.
        """
        if self.alone:
            return
        place, device = self.place, rank_device(self.place, accelerator)
        if place.leads:
            self._meet()
            if self._scratch is not None:  # read by all; a leader that is killed leaves nothing behind
                self._scratch.cleanup()
        else:
            self._meeting.set(f"ready/{place.rank}")
        if device.type == "cuda":
            torch.cuda.set_device(device)
        if not dist.is_initialized():
            self._joined = True
            dist.init_process_group(
                "nccl" if device.type == "cuda" else "gloo",
                store=self._meeting.part("group"),
                rank=place.rank,
                world_size=place.world,
                device_id=device if device.type == "cuda" else None,
            )
        ones = torch.ones(1, device=device)
        dist.all_reduce(ones)
        if int(ones) != place.world:
            raise RunError(f"{place.world} processes were asked for, and {int(ones)} came together")

    def part(self, broken: bool = False) -> None:
        """Leave the process group; a run in this process may form another. `broken`: do not wait for the others."""
        if not self._joined:
            return
        self._joined = False
        with contextlib.suppress(Exception):
            if broken and dist.get_backend() == "nccl":
                dist.distributed_c10d._abort_process_group()
        with contextlib.suppress(Exception):
            if dist.is_initialized():
                dist.destroy_process_group()

    # -- leader --------------------------------------------------------------------------------------------------

    def start(self, config: Mapping[str, Any], logs: Path) -> None:
        """Start the followers, unless they are started from outside; what they say goes to `logs`/rankN.log."""
        if self.alone or self.place.outside:
            return
        self._meeting.open()
        self._lifeline = Lifeline()
        self._scratch = tempfile.TemporaryDirectory(prefix="lengthwise-ranks-")
        apart: Any = {"process_group": 0} if os.name == "posix" else {}
        environment = {**os.environ, **self._lifeline.environment, "PYTHONPATH": python_path()}
        for rank in range(1, self.place.world):
            place = {**self.place.to_dict(), "rank": rank, "local_rank": rank, "port": self._meeting.port}
            file = Path(self._scratch.name) / f"rank{rank}.json"
            file.write_text(
                json.dumps({"place": place, "config": config, "path": import_path()}), encoding="utf-8"
            )
            self._logs[rank] = logs / f"rank{rank}.log"
            with open(self._logs[rank], "wb") as log:
                self._processes[rank] = subprocess.Popen(
                    [sys.executable, "-P", "-c", _FOLLOW, str(file)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    env=environment,
                    **apart,
                )
        self._watch(self._watch_followers)

    def order(self, order: Mapping[str, Any] | None) -> None:
        """Say what is to be done; None: there is nothing to do."""
        if not self.alone:
            self._meeting.set("order", json.dumps(order))

    @contextlib.contextmanager
    def blaming(self) -> Iterator[None]:
        """What goes wrong inside because a follower is gone comes out as a RunError that says which, and why."""
        try:
            yield
        except LengthwiseError:
            raise
        except BaseException as error:
            lost = isinstance(error, Exception) and is_lost(error)
            deadline = time.monotonic() + (3 if lost and not self.alone else 0)
            while self.failure is None and time.monotonic() < deadline:
                time.sleep(0.05)
            if self.failure is not None:
                raise RunError(self.failure) from error
            raise
        finally:
            self._left.set()  # what follows, the record's last words among it, is not to be broken off

    def _meet(self) -> None:
        """Wait here, where signals are heard, until all are ready to wait in the process group."""
        deadline = time.monotonic() + meeting.MEETING
        while missing := [r for r in range(1, self.place.world) if not self._meeting.has(f"ready/{r}")]:
            if self.failure is not None:
                raise RunError(self.failure)
            if time.monotonic() > deadline:
                raise RunError(
                    f"{self.place.world} processes were asked for; after {meeting.MEETING:.0f} s rank "
                    f"{', '.join(map(str, missing))} has not come"
                )
            time.sleep(0.05)

    def _watch_followers(self) -> None:
        beats: dict[int, tuple[str, float]] = {}
        heard, listened = self._meeting.for_another_thread(), 0.0
        while not self._left.wait(0.2):
            with contextlib.suppress(Exception):
                reason = self._death(heard)
                if (
                    reason is None
                    and self.place.outside
                    and time.monotonic() - listened > meeting.SILENCE / 20
                ):
                    reason, listened = self._silence(heard, beats), time.monotonic()
                if reason is not None:
                    self.failure = reason
                    self._break_off(reason)
                    return

    def _death(self, heard: Meeting) -> str | None:
        """Why a follower is gone; one that was killed before one that failed before one that lost the others."""
        if not heard.has("failures") and not self._gone(heard):
            return None
        time.sleep(0.5)  # the first to be noticed need not be the first that fell
        gone, reported = self._gone(heard), self._reported(heard)
        found = [
            (code >= 0, rank, exit_in_words(code)) for rank, code in gone.items() if rank not in reported
        ]
        found += [(False, rank, why) for rank, why in reported.items()]
        own = [item for item in found if item[2] != LOST] or found
        if not own:
            return None
        _, rank, why = min(own)
        process, log = self._processes.get(rank), self._logs.get(rank)
        who = f"rank {rank}" + (f" (process {process.pid})" if process else "")
        more = f" (its output: {log})" if log is not None and log.is_file() and log.stat().st_size else ""
        return f"{who} of {self.place.world} {why}{more}"

    def _gone(self, heard: Meeting) -> dict[int, int]:
        """Rank -> exit code of those of ours that have ended before they were done."""
        ended = {rank: process.poll() for rank, process in self._processes.items()}
        return {r: code for r, code in ended.items() if code is not None and not heard.has(f"done/{r}")}

    def _reported(self, heard: Meeting) -> dict[int, str]:
        ranks = [rank for rank in range(1, self.place.world) if heard.has(f"failed/{rank}")]
        return {rank: heard.get(f"failed/{rank}") for rank in ranks}

    def _silence(self, heard: Meeting, beats: dict[int, tuple[str, float]]) -> str | None:
        now = time.monotonic()
        for rank in range(1, self.place.world):
            key = f"alive/{rank}"
            beat = heard.get(key) if heard.has(key) else ""
            if rank not in beats or beats[rank][0] != beat or heard.has(f"done/{rank}"):
                beats[rank] = (beat, now)
            elif beat and now - beats[rank][1] > meeting.SILENCE:
                return (
                    f"rank {rank} of {self.place.world} has given no sign of life for {meeting.SILENCE:.0f} s"
                )
        return None

    def _break_off(self, reason: str) -> None:
        """End what the leader is in, by stages: it may notice, it is interrupted, its process ends."""
        if self._left.wait(_UNBLOCK):
            return
        if dist.is_initialized() and dist.get_backend() == "nccl":  # a wait for a GPU hears no signal
            with contextlib.suppress(Exception):
                dist.distributed_c10d._abort_process_group()
        _thread.interrupt_main(signal.SIGINT)
        if not self._left.wait(_GIVE_UP):
            with contextlib.suppress(Exception):
                self.last_words(reason)
            print(f"error: {reason}", file=sys.stderr, flush=True)
            if self._lifeline is not None:
                self._lifeline.release()
            os._exit(_FAILED)

    def _see_off(self) -> None:
        """Keep the store until the followers have heard that this is the end."""
        deadline = time.monotonic() + _GOODBYE
        while time.monotonic() < deadline and not all(
            self._meeting.has(f"left/{rank}") or self._meeting.has(f"failed/{rank}")
            for rank in range(1, self.place.world)
        ):
            time.sleep(0.05)

    def _end_processes(self) -> None:
        """None of the followers is left after this."""
        if self._lifeline is not None:
            self._lifeline.release()  # each ends itself at that
        for process in self._processes.values():
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for log in self._logs.values():
            if self.failure is None or (log.is_file() and not log.stat().st_size):
                log.unlink(missing_ok=True)
        if self._scratch is not None:
            self._scratch.cleanup()

    # -- followers -----------------------------------------------------------------------------------------------

    def await_order(self) -> dict[str, Any] | None:
        """What the leader says is to be done, None for nothing.

        Where the leader gives up before it has decided, this process ends with it. Raises RunError where none is found.
        """
        self._handlers = leave_signals_to_the_leader()
        deadline = time.monotonic() + meeting.MEETING
        while not self._meeting.has("order"):
            if self._meeting.has("end"):  # its own message says why
                self._end_with_the_leader(self._meeting)
            if time.monotonic() > deadline:
                raise RunError(
                    f"rank {self.place.rank} has waited {meeting.MEETING:.0f} s at "
                    f"{self.place.address}:{self._meeting.port} for the word of rank 0: is it running the same command?"
                )
            time.sleep(0.05)
        return json.loads(self._meeting.get("order"))

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Tell the leader why this rank cannot go on."""
        try:
            yield
        except KeyboardInterrupt:  # agreed with the leader: no signal ends a follower
            self._meeting.set(f"done/{self.place.rank}")
            raise
        except BaseException as error:
            why = LOST if is_lost(error) else f"failed: {in_words(error)}"
            with contextlib.suppress(Exception):
                self._meeting.set(f"failed/{self.place.rank}", why)
                self._meeting.set("failures")
            raise
        self._meeting.set(f"done/{self.place.rank}")

    def _watch_leader(self) -> None:
        with contextlib.suppress(Exception):
            heard = self._meeting.for_another_thread()
            while not self._left.wait(_BEAT):
                heard.count(f"alive/{self.place.rank}")
                if heard.has("end") and heard.has("order"):
                    self._end_with_the_leader(heard)
        if not self._left.is_set():
            os._exit(_FAILED)

    def _end_with_the_leader(self, heard: Meeting) -> None:
        heard.set(f"left/{self.place.rank}")
        os._exit(int(heard.get("end")))

    def _watch(self, body: Callable[[], None]) -> None:
        self._watcher = threading.Thread(target=body, daemon=True, name="lengthwise-ranks")
        self._watcher.start()


def leave_signals_to_the_leader() -> dict[int, Any]:
    """What is sent to every rank of a run (Ctrl-C, scancel, a preemption notice) is answered by rank 0.

    Returns what answered here before.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    names = [name for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)]
    return {number: signal.signal(number, signal.SIG_IGN) for number in (getattr(signal, n) for n in names)}


def _code(error: BaseException | None) -> int:
    if error is None:
        return 0
    return 130 if isinstance(error, KeyboardInterrupt) else _FAILED
