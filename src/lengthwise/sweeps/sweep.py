"""A sweep: cells checked together, then carried out by a launcher, each in a process of its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lengthwise.errors import ConfigError, RunError
from lengthwise.runs import RunFolder, Status
from lengthwise.runs.status import now
from lengthwise.runs.tested import is_complete
from lengthwise.sweeps import preflight
from lengthwise.sweeps.cells import Cell, refuse_collisions
from lengthwise.sweeps.display import Display, say, show_failures, show_plan
from lengthwise.sweeps.estimate import Pace
from lengthwise.sweeps.job import Job, describe_exit
from lengthwise.sweeps.launcher import Ended, Launcher
from lengthwise.sweeps.layout import refuse_mixture
from lengthwise.sweeps.local import GRACE
from lengthwise.sweeps.preflight import plan, refuse_illegal
from lengthwise.sweeps.record import DONE, FAILED, INTERRUPTED, RUNNING, WAITING, Entry, Record, sweep_name
from lengthwise.sweeps.signals import ending_signals

_RECORD_EVERY = 2.0
_LOOK_AGAIN = 2.0
"""Seconds until a cell that another process is at work on is looked at again."""

Describe = Callable[[RunFolder], str]


class Sweep:
    """The cells of one question.

    label: what its name begins with. study: that it belongs to. command: as typed, for the record.
    illegal: overrides and reasons of cells that could not even be composed and are left out.

    Raises ConfigError where there is no cell, or two collide.
    """

    def __init__(
        self,
        label: str,
        cells: Sequence[Cell],
        *,
        study: str | None = None,
        command: Sequence[str] = (),
        illegal: Sequence[dict[str, Any]] = (),
    ) -> None:
        if not cells:
            raise ConfigError("the sweep has no cells: every axis needs at least one value")
        refuse_collisions(cells)
        self.name = sweep_name(label, cells)
        self.outputs = Path(cells[0].config["outputs"])
        self.options: dict[str, Any] = cells[0].config["sweep"]
        self.entries = [Entry(cell) for cell in cells]
        self.study, self.command, self.illegal = study, list(command), list(illegal)
        self._record: Record | None = None
        self._written = 0.0
        self._said: set[str] = set()

    @property
    def record(self) -> Record:
        """On disk; made when it is first asked for.  Raises RunError where it cannot be written."""
        if self._record is None:
            # Where a run was there before, its result could be seen before anything was stated.
            new = all(entry.plan == "again" or not entry.cell.folder.exists for entry in self.entries)
            contrasts = self.entries[0].cell.config["study"].get("contrasts") or []
            about = {"study": self.study, "command": self.command, "illegal": self.illegal}
            about |= {"contrasts": contrasts if new else None}
            self._record = Record.open(self.outputs, self.name, **about)
        return self._record

    def job(self, cell: Cell) -> Job:
        """What a launcher needs of a cell."""
        folder = self.record.folder
        wandb = cell.config["wandb"]
        config = {**cell.config, "wandb": {**wandb, "group": wandb["group"] or self.name}}
        name = cell.name
        return Job(
            name, config, cell.overrides, folder / "jobs" / f"{name}.json", folder / "logs" / f"{name}.log"
        )

    def leave_out(self, illegal: Sequence[tuple[Entry, str]]) -> None:
        """Drop cells that cannot be."""
        gone = {id(entry) for entry, _ in illegal}
        self.entries = [entry for entry in self.entries if id(entry) not in gone]
        self.illegal += [{"overrides": e.cell.axes or e.cell.overrides, "reason": why} for e, why in illegal]

    def write(self, *, at_once: bool = False) -> None:
        """Bring the record up to date, now or when it is due."""
        if at_once or time.monotonic() - self._written > _RECORD_EVERY:
            self._written = time.monotonic()
            self.record.write(self.entries)

    def note(self, *, at_once: bool = False) -> None:
        """As `write`, for when jobs are at work: a record that cannot be written stops none of them."""
        try:
            self.write(at_once=at_once)
        except (RunError, OSError) as error:
            _warn_once(f"the sweep's record is not up to date: {error}", self._said)


def _warn_once(text: str, said: set[str]) -> None:
    if text not in said:
        said.add(text)
        say(f"warning: {text}")


def prepare(sweeps: Sequence[Sweep], launcher: Launcher) -> None:
    """All that can be known before the first job starts; nothing is written.

    Raises ConfigError naming the cells that cannot be, or what the launcher cannot run.
    """
    for sweep in sweeps:
        for entry in sweep.entries:
            plan(entry)
        if sweep.options["on_other_steps"] == "stop":
            refuse_mixture(sweep.entries)
    open_entries = [entry for sweep in sweeps for entry in sweep.entries if entry.state != DONE]
    skip = all(sweep.options["on_illegal"] == "skip" for sweep in sweeps)
    illegal = preflight.inspect(open_entries, launcher) if open_entries else []
    why = {id(entry): reason for entry, reason in illegal}
    total = sum(len(sweep.entries) + len(sweep.illegal) for sweep in sweeps)
    before = [(" ".join(cell["overrides"]), cell["reason"]) for sweep in sweeps for cell in sweep.illegal]
    refuse_illegal([*before, *((entry.cell.text, reason) for entry, reason in illegal)], total, skip=skip)
    for sweep in sweeps:
        sweep.leave_out([(entry, why[id(entry)]) for entry in sweep.entries if id(entry) in why])
        launcher.refuse([_unwritten(sweep, entry) for entry in sweep.entries if entry.state != DONE])
    to_train = [entry for entry in open_entries if entry.plan != "measures" and id(entry) not in why]
    if not sweeps[0].options["dry_run"]:
        preflight.refuse_unreachable([entry.cell for entry in to_train])


def run(sweeps: Sequence[Sweep], launcher: Launcher, describe: Describe = lambda folder: "") -> int:
    """Carry out every cell of `sweeps` in one queue; the exit code: 0 where all are done, 1 where any failed.

    One that fails does not stop the others unless ``sweep.on_fail=stop``. The launcher is closed at the end.

    Raises ConfigError before anything is written; KeyboardInterrupt where the user or a signal stopped it, when no
    process is left.
    """
    with ending_signals():
        try:
            return _run(sweeps, launcher, describe)
        finally:
            launcher.close()


def _run(sweeps: Sequence[Sweep], launcher: Launcher, describe: Describe) -> int:
    prepare(sweeps, launcher)
    distinct: dict[str, Entry] = {}
    everything = [entry for sweep in sweeps for entry in sweep.entries]
    # What is open comes before its twin that is done.
    for entry in sorted(everything, key=lambda entry: entry.state == DONE):
        distinct.setdefault(entry.cell.name, entry)
    entries = list(distinct.values())
    pace = Pace(sweeps[0].outputs)
    at_once = float(getattr(launcher, "at_once", len(entries)))
    show_plan(entries, pace, at_once, [cell for sweep in sweeps for cell in sweep.illegal])
    if sweeps[0].options["dry_run"]:
        return 0
    for sweep in sweeps:
        sweep.write(at_once=True)
    with Display([e for e in entries if e.state != DONE], pace, at_once, describe) as display:
        _Loop(sweeps, launcher, display).run()
    return report(sweeps)


def report(sweeps: Sequence[Sweep]) -> int:
    """Say how many are done, and name what failed; 1 where anything did."""
    code = 0
    for sweep in sweeps:
        done = sum(entry.state == DONE for entry in sweep.entries)
        failed = sum(entry.state in (FAILED, INTERRUPTED) for entry in sweep.entries)
        waiting = sum(entry.state == WAITING for entry in sweep.entries)
        parts = [f"{done} of {len(sweep.entries)} runs done"]
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{waiting} not started"] if waiting else []
        parts += [f"{len(sweep.illegal)} left out as impossible"] if sweep.illegal else []
        say(f"sweep {sweep.name}: {', '.join(parts)}")
        show_failures(sweep.entries, lambda entry, sweep=sweep: str(sweep.job(entry.cell).log))  # type: ignore[misc]
        code = 1 if done < len(sweep.entries) else code
    if code:
        say("The same command again runs only what is missing.")
    return code


@dataclass
class _Task:
    """A cell on its way. twins: the same run in other sweeps of this queue. began: when its job started; again: when to
    look at it again, while another process is at work on it."""

    entry: Entry
    job: Job
    twins: list[Entry] = field(default_factory=list)
    began: float = 0.0
    again: float = 0.0


class _Loop:
    """Queue → launcher → outcome, until nothing is left."""

    def __init__(self, sweeps: Sequence[Sweep], launcher: Launcher, display: Display) -> None:
        self.sweeps, self.launcher, self.display = sweeps, launcher, display
        self.stop_at_failure = any(sweep.options["on_fail"] == "stop" for sweep in sweeps)
        self.stopping = False
        self.running: dict[str, _Task] = {}
        self.queue: dict[str, _Task] = {}
        self.busy: list[_Task] = []
        for sweep in sweeps:
            for entry in sweep.entries:
                if entry.cell.name in self.queue:
                    self.queue[entry.cell.name].twins.append(entry)
                elif entry.state != DONE:
                    self.queue[entry.cell.name] = _Task(entry, sweep.job(entry.cell))
        for task in list(self.queue.values()):
            if _is_running(task.entry):
                self._wait_for_other(self.queue.pop(task.job.name))

    def run(self) -> None:
        try:
            while self._turn():
                self.launcher.wait()
        except BaseException:
            # Whatever it is, the running jobs are to say in their status that they were stopped.
            with contextlib.suppress(OSError):
                say("stopping: the running jobs are asked to end")
            self.launcher.stop(GRACE)
            for task in self.running.values():
                task.entry.state = INTERRUPTED
                task.entry.reason = _interruption(task.entry) or "stopped by the user"
                self._tell_twins(task)
            raise
        finally:
            for sweep in self.sweeps:
                sweep.note(at_once=True)

    def _turn(self) -> bool:
        """Start what there is room for, look at what ended; whether anything is left to wait for."""
        self._look_at_busy()
        if self.queue and not self.stopping:
            for job in self.launcher.start([task.job for task in self.queue.values()]):
                task = self.running[job.name] = self.queue.pop(job.name)
                task.began, task.entry.state, task.entry.reason = time.monotonic(), RUNNING, None
                self.display.started(task.entry)
        for ended in self.launcher.poll():
            self._ended(ended)
        self.display.refresh()
        for sweep in self.sweeps:
            sweep.note()
        return bool(self.running or ((self.queue or self.busy) and not self.stopping))

    def _ended(self, ended: Ended) -> None:
        task = self.running.pop(ended.job.name)
        if ended.busy:
            self._wait_for_other(task)
            return
        task.entry.seconds = round(time.monotonic() - task.began, 2)
        settle(task.entry, ended)
        self._tell_twins(task)
        self.display.ended(task.entry)
        self.stopping = self.stopping or (self.stop_at_failure and task.entry.state == FAILED)

    def _tell_twins(self, task: _Task) -> None:
        twins, task.twins = task.twins, []
        for twin in twins:
            if task.entry.state == DONE and not _is_complete(twin):  # it asks for more to be measured
                self._queue_again(twin, task.job)
                continue
            twin.state, twin.reason = task.entry.state, task.entry.reason
            twin.seconds, twin.steps, twin.ended = task.entry.seconds, task.entry.steps, task.entry.ended

    def _queue_again(self, entry: Entry, job: Job) -> None:
        if job.name in self.queue:
            self.queue[job.name].twins.append(entry)
        else:
            config = {**entry.cell.config, "wandb": job.config["wandb"]}
            self.queue[job.name] = _Task(entry, replace(job, config=config))

    def _wait_for_other(self, task: _Task) -> None:
        task.entry.state, task.again = WAITING, time.monotonic() + _LOOK_AGAIN
        self.busy.append(task)
        self.display.note(task.entry, "another process is at work on it")

    def _look_at_busy(self) -> None:
        for task in [task for task in self.busy if time.monotonic() > task.again]:
            if _is_running(task.entry):
                task.again = time.monotonic() + _LOOK_AGAIN
                continue
            self.busy.remove(task)
            if _is_complete(task.entry):
                task.entry.state = DONE
                self._tell_twins(task)
                self.display.note(task.entry, "done by another process")
            else:
                self.queue[task.job.name] = task


def settle(entry: Entry, ended: Ended) -> None:
    """Enter what became of a cell. Done is what its status says, never an exit code."""
    status = _status(entry)
    done = status is not None and status.state == DONE
    # A job that failed may have found a run that was done, and was to measure more of it, or to train it afresh.
    entry.ended = now()
    if done and (ended.code == 0 or (not entry.cell.config["overwrite"] and _is_complete(entry))):
        entry.state, entry.reason = DONE, None
        entry.steps = status.steps if status is not None and entry.plan in ("new", "again") else None
        return
    words = describe_exit(ended.code) if ended.code is None or ended.code < 0 else None
    said = status.reason if status is not None and not done else None
    if status is not None and status.state == INTERRUPTED and ended.reason is None and words is None:
        entry.state, entry.reason = INTERRUPTED, said
        return
    entry.state = FAILED
    entry.reason = ended.reason or ended.job.reason() or words or said or describe_exit(ended.code)


def _status(entry: Entry) -> Status | None:
    with contextlib.suppress(RunError):
        return RunFolder(entry.cell.folder.path).status()
    return None  # it never came as far as a status


def _interruption(entry: Entry) -> str | None:
    status = _status(entry)
    return status.reason if status is not None and status.state == INTERRUPTED else None


def _is_running(entry: Entry) -> bool:
    status = _status(entry)
    return status is not None and status.state == RUNNING


def _is_complete(entry: Entry) -> bool:
    return is_complete(entry.cell.folder, {**entry.cell.config, "overwrite": False})


def _unwritten(sweep: Sweep, entry: Entry) -> Job:
    """A job to ask about; its files are not made."""
    return Job(entry.cell.name, entry.cell.config, entry.cell.overrides, Path(), Path())
