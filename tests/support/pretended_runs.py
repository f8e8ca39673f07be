"""Jobs that only pretend to train: quick enough for a search of many trials, without torch.

What they leave in a run's folder is what a real job does: status, table of training, table of lengths. The validation
loss is a plain function of the configuration and the step, so that a test knows the best trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lengthwise.runs import RunFolder, Status, Table, write_status
from lengthwise.runs.status import read_status
from lengthwise.runs.tables import LENGTH_COLUMNS, TRAIN_COLUMNS
from lengthwise.sweeps.job import BUSY, Job
from lengthwise.sweeps.launcher import Ended
from support.launching import NO_WARM_START


def loss_of(config: dict[str, Any], step: int) -> float:
    """Best at lr 1e-3 and with rotary, falling with the steps."""
    far = abs(math.log10(config["optimizer"]["lr"]) + 3)
    penalty = 0.0 if config["pe"]["_target_"].endswith("Rotary") else 0.5
    return 0.1 + far + penalty + 1 / step


class Pretending:
    """A launcher with `room` slots whose jobs advance by one validation at each look.

    started: names of jobs, in order. most: jobs at once. goes_wrong: job → what becomes of it instead of training:
    "fails", "is refused", "is busy", "interrupts us" (as Ctrl-C), "kills us" (as SIGKILL: nobody tidies up); None
    trains.
    """

    warm_start, warm = NO_WARM_START, False

    def __init__(self, room: int = 1, goes_wrong: Callable[[Job], str | None] = lambda job: None) -> None:
        self.room, self.goes_wrong = room, goes_wrong
        self.started: list[str] = []
        self.configs: list[dict[str, Any]] = []
        self.most = 0
        self.stopped = self.closed = False
        self._running: dict[str, tuple[Job, Status]] = {}
        self._killed = False

    @property
    def at_once(self) -> float:
        return float(self.room)

    def refuse(self, jobs: Sequence[Job]) -> None:
        pass

    def start(self, jobs: Sequence[Job]) -> list[Job]:
        begun = list(jobs[: self.room - len(self._running)])
        for job in begun:
            assert job.name not in self._running, f"{job.name} runs twice at once"
            self.started.append(job.name)
            self.configs.append(job.config)
            fate = self.goes_wrong(job)
            status = Status.first(
                job.config, job.config["trainer"]["max_steps"], job.config["trainer"]["max_steps"]
            )
            if fate not in ("is refused", "is busy"):
                folder = RunFolder.create(job.config["outputs"], job.config)
                folder.write_config(job.config)
                status.owner = {"host": "elsewhere", "pid": 1}
                write_status(folder.status_file, status)
                folder.train_csv.unlink(missing_ok=True)
                Table(folder.train_csv, TRAIN_COLUMNS)
            self._running[job.name] = (job, status)
        self.most = max(self.most, len(self._running))
        return begun

    def poll(self) -> list[Ended]:
        ended = []
        for job, status in list(self._running.values()):
            fate = self.goes_wrong(job)
            if fate in ("interrupts us", "kills us"):
                self._killed = fate == "kills us"
                raise KeyboardInterrupt if fate == "interrupts us" else Killed
            code = {"fails": 1, "is refused": 2, "is busy": BUSY}.get(fate or "")
            if code == 1:
                self._end(job, status, "failed", "ZeroDivisionError: on purpose")
            if code == BUSY:  # as a real job says so
                job.last_words.parent.mkdir(parents=True, exist_ok=True)
                job.last_words.write_text("already running elsewhere")
            if code is None:
                code = self._advance(job, status)
            if code is not None:
                del self._running[job.name]
                ended.append(Ended(job, code))
        return ended

    def wait(self) -> None:
        pass

    def stop(self, grace: float) -> None:
        self.stopped = True
        if self._killed:  # nobody is there to do it
            return
        for job, status in self._running.values():
            self._end(job, status, "interrupted", "stopped by the user")
        self._running.clear()

    def close(self) -> None:
        self.closed = True

    def _advance(self, job: Job, status: Status) -> int | None:
        """One more validation, or the end; an exit code where it ended."""
        folder, trainer = job.folder, job.config["trainer"]
        if folder.stop_file.exists():
            reason = folder.stop_file.read_text()
            folder.stop_file.unlink()
            self._end(job, status, "interrupted", reason)
            return 130
        status.steps = min(trainer["max_steps"], status.steps + trainer["validate_every"])
        row = {"step": status.steps, "val_loss": loss_of(job.config, status.steps), "val_token_accuracy": 0.5}
        Table(folder.train_csv, TRAIN_COLUMNS).append(row)
        if status.steps < trainer["max_steps"]:
            return None
        finish(folder, job.config, status)
        return 0

    def _end(self, job: Job, status: Status, state: str, reason: str) -> None:
        status.state, status.reason = state, reason
        write_status(job.folder.status_file, status)


class Killed(BaseException):
    """Stands for SIGKILL: whoever is inside does not come to tidy up."""


def finish(folder: RunFolder, config: dict[str, Any], status: Status) -> None:
    """Test the run at every length that was asked for, and call it done."""
    evaluation = config["evaluation"]
    rows = [
        {"checkpoint": checkpoint, "step": status.steps, "split": "test", "length": length, "stratum": "all",
         "n": evaluation["count"], "evaluation_id": "trained"}
        for checkpoint in evaluation["checkpoints"] for length in evaluation["lengths"]
    ]  # fmt: skip
    Table(folder.length_csv, LENGTH_COLUMNS).append(*rows)
    status.state = "done"
    write_status(folder.status_file, status)


def pretend_run(config: dict[str, Any], max_steps: int | None = None) -> RunFolder:
    """A finished run."""
    launcher = Pretending()
    asked = {
        **config,
        "trainer": {**config["trainer"], "max_steps": max_steps or config["trainer"]["max_steps"]},
    }
    folder = RunFolder.locate(asked["outputs"], asked)
    launcher.start([Job(folder.name, asked, [], Path(), Path())])
    while read_status(folder.status_file).state != "done":
        launcher.poll()
    return folder
