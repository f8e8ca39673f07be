"""The course of a search: ask, start, look, tell, until there are as many trials as were asked for.

A trial is asked for when a job can start, and told when its run has ended, by what the run's folder says. Pruning
needs nothing of the launcher: the validations of a running job are read from its ``train.csv``, and one that has
fallen behind finds a file named ``stop`` in its folder (`lengthwise.training.callbacks.pruning`). Its run is then
interrupted, never done, so no report pools it.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.text import Text

from lengthwise.errors import RunError
from lengthwise.runs import RunFolder, Status
from lengthwise.runs.atomic import write_atomic
from lengthwise.runs.status import horizon_of
from lengthwise.runs.tested import is_complete
from lengthwise.sweeps.cells import Cell
from lengthwise.sweeps.display import Display, say
from lengthwise.sweeps.estimate import Pace
from lengthwise.sweeps.launcher import Ended, Launcher
from lengthwise.sweeps.local import GRACE
from lengthwise.sweeps.record import DONE, FAILED, INTERRUPTED, RUNNING, WAITING, Entry, Record
from lengthwise.sweeps.signals import ending_signals
from lengthwise.sweeps.sweep import settle
from lengthwise.sweeps.trials import Trials

if TYPE_CHECKING:
    from lengthwise.sweeps.search import OptunaSearch

_LOOK_AGAIN = 2.0
"""Seconds until a run that another process is at work on is looked at again."""
_LOOK = 0.5
"""Seconds between two looks into the records of running jobs."""
_REFUSED = 2
"""Exit code of a job that was refused with a known reason; without a trace in its folder, it can never be."""
_STATES = {"COMPLETE": DONE, "PRUNED": INTERRUPTED, "FAIL": FAILED}


@dataclass(eq=False)
class Proposal:
    """A trial and the run that it asks for.

    twins: later trials that ask for the same run while it is at work. again: when to look at it again, while it is
    another process' work. asked_to_stop: it has fallen behind.
    """

    trial: Any
    entry: Entry
    twins: list[Proposal] = field(default_factory=list)
    again: float = 0.0
    began: float = 0.0
    looked: float = 0.0
    asked_to_stop: bool = False

    @property
    def cell(self) -> Cell:
        return self.entry.cell

    @property
    def max_steps(self) -> int:
        return int(self.cell.config["trainer"]["max_steps"])


class SearchLoop:
    """Carries `search` on."""

    def __init__(self, search: OptunaSearch, trials: Trials, record: Record, launcher: Launcher) -> None:
        self.search, self.trials, self.record, self.launcher = search, trials, record, launcher
        at_once = search.at_once or getattr(launcher, "at_once", None) or search.options["workers"] or 1
        self.room = max(1, int(at_once))
        self.waiting: deque[Proposal] = deque()
        self.running: dict[str, Proposal] = {}
        self.entries: dict[str, Entry] = {}
        self.display = _Display(search, trials, self.entries, self.room)
        self.stopping = False

    def run(self) -> None:
        """Until nothing is left to do.

        Raises KeyboardInterrupt where the user or a signal stopped it; trials at work are then taken up by the next
        start.
        """
        self._take_up()
        with self.display, ending_signals():
            try:
                while self._turn():
                    self.launcher.wait()
            except BaseException:
                # As in a sweep: whatever it is, the running jobs are to say that they were stopped.
                with contextlib.suppress(OSError):
                    say(
                        "stopping: the running jobs are asked to end; the same command goes on where this one was"
                    )
                self.launcher.stop(GRACE)
                for proposal in self.running.values():
                    proposal.entry.state, proposal.entry.reason = INTERRUPTED, "stopped by the user"
                raise
            finally:
                self.record.write(list(self.entries.values()))

    def _take_up(self) -> None:
        """What earlier starts of the search left: their runs, trials that were at work, and what failed."""
        for trial in self.trials.all:
            if len(trial.params) == len(self.search.space.dimensions):
                cell = self.search.cell(trial.params)
                state = _STATES.get(trial.state.name, WAITING)
                self.entries[cell.name] = Entry(cell, state, trial.user_attrs.get("reason"))
        self.waiting += [self._propose(trial) for trial in self.trials.left_running()]
        self.trials.retry_failed()
        self.record.write(list(self.entries.values()))

    def _turn(self) -> bool:
        """Start what there is room for, look at what runs and what ended; whether anything is left to wait for."""
        self._fill()
        for ended in self.launcher.poll():
            self._settle(ended)
        for proposal in self.running.values():
            self._look(proposal)
        self.display.refresh()
        return bool(self.running or (self.waiting and not self.stopping) or self._has_more())

    def _has_more(self) -> bool:
        if self.stopping or self.trials.exhausted:
            return False
        return len(self.trials.counted) - self.trials.waiting() < self.search.trials

    # -- starting ----------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        held: list[Proposal] = []
        while len(self.running) + len(held) < self.room and not self.stopping:
            proposal = self._next()
            if proposal is None:
                break
            if proposal.again > time.monotonic():
                held.append(proposal)
            elif not self._known(proposal) and not self._start(proposal):
                held.append(proposal)
                break
        self.waiting.extendleft(reversed(held))

    def _next(self) -> Proposal | None:
        if self.waiting:
            return self.waiting.popleft()
        trial = self.trials.ask() if self._has_more() else None
        return None if trial is None else self._propose(trial)

    def _propose(self, trial: Any) -> Proposal:
        cell = self.search.cell(trial.params)
        trial.set_user_attr("run", cell.name)
        return Proposal(trial, self.entries.setdefault(cell.name, Entry(cell)))

    def _known(self, proposal: Proposal) -> bool:
        """Whether the trial needs no job of its own: its run is at work, or done, or an earlier trial gave it up."""
        cell = proposal.cell
        if (at_work := self.running.get(cell.name)) is not None:
            at_work.twins.append(proposal)
        elif reason := _other_horizon(cell):
            self._fail(proposal, reason)
        elif is_complete(cell.folder, cell.config):
            self._tell(proposal, "done already")
        elif _interruption(cell).startswith(
            self._mark(proposal)
        ):  # an earlier start was killed before it told
            self._prune(proposal)
        elif (twin := self.trials.pruned_twin(proposal.trial)) is not None:
            self.trials.report(proposal.trial, sorted(twin.intermediate_values.items()))
            self._prune(proposal)
        else:
            return False
        return True

    def _start(self, proposal: Proposal) -> bool:
        with contextlib.suppress(OSError):  # what an earlier search asked for
            proposal.cell.folder.stop_file.unlink(missing_ok=True)
        if not self.launcher.start([self.search.job(proposal.cell)]):
            if self.running:
                self.room = len(self.running)  # so that no trial is asked for long before it can start
            return False
        self.running[proposal.cell.name] = proposal
        proposal.began = time.monotonic()
        proposal.entry.state, proposal.entry.reason = RUNNING, None
        self.display.trial_started(proposal)
        self.record.write(list(self.entries.values()))
        return True

    # -- looking -----------------------------------------------------------------------------------------------

    def _look(self, proposal: Proposal) -> None:
        """Report new validations; ask a job that has fallen behind to stop."""
        now = time.monotonic()
        if self.search.method.pruner == "none" or proposal.asked_to_stop or now - proposal.looked < _LOOK:
            return
        proposal.looked = now
        points = [point for point in self._points(proposal) if point[0] < proposal.max_steps]
        step = self.trials.report(proposal.trial, points)
        if step is not None:
            proposal.asked_to_stop = True
            words = f"{self._mark(proposal)}: at step {step} it had fallen behind the others"
            with contextlib.suppress(RunError):  # then it runs to its end
                write_atomic(proposal.cell.folder.stop_file, words.encode())

    def _points(self, proposal: Proposal) -> list[tuple[int, float]]:
        try:
            return self.search.objective.points(proposal.cell.folder, proposal.max_steps)
        except RunError:
            return []

    def _mark(self, proposal: Proposal) -> str:
        """Begins the reason of a run that this trial gave up; another search may want it done all the same."""
        return f"pruned by {self.search.name}, trial {proposal.trial.number}"

    # -- telling -----------------------------------------------------------------------------------------------

    def _settle(self, ended: Ended) -> None:
        proposal = self.running.pop(ended.job.name)
        if ended.busy:
            self._wait_for_other(proposal)
            return
        proposal.entry.seconds = round(time.monotonic() - proposal.began, 2)
        if _interruption(proposal.cell).startswith(self._mark(proposal)):
            self._prune(proposal)
            return
        settle(proposal.entry, ended)
        if proposal.entry.state == DONE:
            self._tell(proposal)
        else:
            impossible = ended.code == _REFUSED and not proposal.cell.folder.exists
            self._fail(proposal, proposal.entry.reason or "", impossible=impossible)

    def _wait_for_other(self, proposal: Proposal) -> None:
        twins, proposal.twins = proposal.twins, []
        for each in (proposal, *twins):
            each.again = time.monotonic() + _LOOK_AGAIN
            self.waiting.append(each)
        if proposal.entry.state != WAITING:
            self.display.tell(proposal, "waits: another process is at work on this run")
        proposal.entry.state = WAITING

    def _tell(self, proposal: Proposal, words: str = "done") -> None:
        points, name = self._points(proposal), self.search.objective.name
        if not points or points[-1][0] != _last_step(proposal):
            self._fail(proposal, f"{proposal.cell.folder.train_csv} has no {name} at its last step")
            return
        self.trials.report(proposal.trial, points[:-1])
        self.trials.complete(proposal.trial, points[-1][1])
        proposal.entry.state, proposal.entry.reason = DONE, None
        self._told(proposal, words, f"{name} {points[-1][1]:.6g}")

    def _prune(self, proposal: Proposal) -> None:
        self.trials.report(proposal.trial, self._points(proposal))
        self.trials.prune(proposal.trial)
        proposal.entry.state, proposal.entry.reason = INTERRUPTED, _interruption(proposal.cell) or "pruned"
        self._told(proposal, "pruned", proposal.entry.reason.partition(": ")[2])

    def _fail(self, proposal: Proposal, reason: str, *, impossible: bool = False) -> None:
        left_out = impossible and self.search.options["on_illegal"] == "skip"
        self.trials.fail(proposal.trial, reason, impossible=left_out)
        proposal.entry.state, proposal.entry.reason = FAILED, reason
        self.stopping = self.stopping or (self.search.options["on_fail"] == "stop" and not left_out)
        self._told(proposal, "left out" if left_out else "failed", (reason.strip().splitlines() or [""])[0])

    def _told(self, proposal: Proposal, words: str, about: str) -> None:
        """Say and record it; trials that waited for the same run can now be told as well."""
        self.display.trial_ended(proposal, words, about)
        twins, proposal.twins = proposal.twins, []
        for twin in twins:
            if proposal.entry.state == FAILED:
                self._fail(twin, proposal.entry.reason or "")
            elif not self._known(twin):
                self.waiting.append(twin)
        self.record.write(list(self.entries.values()))


class _Display(Display):
    """As a sweep's, counting trials; `entries` grows as they are proposed."""

    def __init__(self, search: OptunaSearch, trials: Trials, entries: dict[str, Entry], room: int) -> None:
        super().__init__([], Pace(search.outputs), room)
        self.search, self.trials, self._by_name = search, trials, entries

    def trial_started(self, proposal: Proposal) -> None:
        """Its job has begun."""
        self._started[id(proposal.entry)] = time.monotonic()
        if self._live is None:
            self.tell(proposal, "started")

    def trial_ended(self, proposal: Proposal, words: str, about: str) -> None:
        """It was told."""
        best = self.trials.best()
        seconds = proposal.entry.seconds
        took = f" in {seconds:.1f} s" if seconds is not None and words == "done" else ""
        mark = " (the best so far)" if best is not None and best.number == proposal.trial.number else ""
        self.tell(proposal, words + took, about + mark)

    def tell(self, proposal: Proposal, words: str, about: str = "") -> None:
        """A line about a trial."""
        text = f"[trial {proposal.trial.number}] {words}: {proposal.cell.text}" + (
            f" · {about}" if about else ""
        )
        if self._live is not None:
            self._live.console.print(Text(text))
        else:
            say(text)

    def _view(self) -> Group:
        self.entries = list(self._by_name.values())
        ended = sum(trial.state.is_finished() for trial in self.trials.counted)
        best = self.trials.best()
        parts = [f"{ended} of {self.search.trials} trials"]
        parts += [] if best is None else [f"best {self.search.objective.name} {best.value:.6g}"]
        bar = ProgressBar(total=self.search.trials, completed=ended, width=60)
        return Group(bar, Text(" · ".join(parts)), *self.rows_of_running())

    def rows_of_running(self) -> list[Any]:
        """The table of running jobs, from the sweep's view."""
        return list(super()._view().renderables[-1:])


def _status(cell: Cell) -> Status | None:
    try:
        return RunFolder(cell.folder.path).status()
    except RunError:
        return None


def _interruption(cell: Cell) -> str:
    status = _status(cell)
    return status.reason or "" if status is not None and status.state == INTERRUPTED else ""


def _last_step(proposal: Proposal) -> int:
    """The step of the trial's last validation: where training ended, or where it was asked to end."""
    status = _status(proposal.cell)
    return min(proposal.max_steps, status.steps if status is not None else 0)


def _other_horizon(cell: Cell) -> str | None:
    """Why the run that is there already is no trial of this search: its schedule was laid out for other steps."""
    status = _status(cell)
    asked = horizon_of(cell.config)
    if cell.config["overwrite"] or status is None or status.horizon in (None, asked):
        return None
    return (
        f"{cell.folder.path} was laid out for {status.horizon} steps and is not comparable with runs of {asked}; "
        "run.label=search keeps others beside it"
    )
