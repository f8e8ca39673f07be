"""The launcher for a Ray cluster: each job a task, which Ray places where there are enough cores and GPUs.

The cluster's machines share the outputs folder and have Lengthwise installed at the same place.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lengthwise.errors import ConfigError
from lengthwise.lifeline import LIFELINES, Lifeline
from lengthwise.sweeps.job import Job, clean_environment
from lengthwise.sweeps.launcher import Ended
from lengthwise.sweeps.warm import WarmStart

GRACE = 10.0
"""Seconds that a job has to come to its end when it is asked to."""

_PAUSE = 0.1
"""Seconds between two looks at the tasks."""

_LOOK = 0.05
_OURS = ("LENGTHWISE_", "WANDB_", "PYTHON")
"""Variables of this process that a job gets; all others are those of the machine where it runs."""


class RayLauncher:
    """Jobs as Ray tasks that are never retried by Ray: what a run needs is for its own folder to say.

    options: ``workers`` (jobs at once, None = as many as fit), ``gpus_per_job``, ``time_limit``.
    address: of a running cluster ("auto": the one of this machine), None = start one here for this sweep.
    num_cpus, num_gpus: of a cluster started here, None = those of the machine.

    Raises ConfigError where Ray is not installed or no cluster can be had.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        folder: Path,
        warm_start: WarmStart,
        address: str | None = None,
        num_cpus: int | None = None,
        num_gpus: int | None = None,
    ) -> None:
        self.options, self.warm_start, self.warm = options, warm_start, False
        if options.get("gpus") is not None:
            raise ConfigError(
                f"sweep.gpus={options['gpus']}: Ray chooses the GPUs; hydra.launcher.num_gpus says how many a cluster "
                "that is started here has"
            )
        if address is not None and (num_cpus is not None or num_gpus is not None):
            raise ConfigError(
                f"hydra.launcher.address={address}: this cluster knows its own cores and GPUs; leave "
                "hydra.launcher.num_cpus and num_gpus at null"
            )
        self._ray = _connect(address, num_cpus, num_gpus)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self.largest = {kind: max((n.get(kind, 0.0) for n in nodes), default=0.0) for kind in ("CPU", "GPU")}
        self.free = {kind: sum(n.get(kind, 0.0) for n in nodes) for kind in ("CPU", "GPU")}
        self._tasks: dict[Any, tuple[Job, dict[str, float]]] = {}
        self.at_once = float(options.get("workers") or self.free["GPU"] or self.free["CPU"])
        """Jobs of one device that fit."""

    def refuse(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.nodes > 1:
                raise ConfigError(
                    f"trainer.nodes={job.nodes}: a Ray job is on one machine; use hydra/launcher=slurm"
                )
            needed = self._needs(job)["GPU"]
            asks_for_gpu = job.config["trainer"]["accelerator"] == "gpu"
            if needed > self.largest["GPU"] or (asks_for_gpu and not self.largest["GPU"]):
                raise ConfigError(
                    f"trainer.devices={job.devices} trainer.accelerator={job.config['trainer']['accelerator']}: the "
                    f"largest machine of the Ray cluster has {self.largest['GPU']:g} GPUs"
                )

    def start(self, jobs: Sequence[Job]) -> list[Job]:
        started: list[Job] = []
        for job in jobs:
            needs = self._needs(job)
            full = self.options.get("workers") is not None and len(self._tasks) >= self.options["workers"]
            if full or any(needs[kind] > self.free[kind] + 1e-9 for kind in needs):
                break  # in order: a large job is not starved by small ones
            job.write()
            task = self._ray.remote(carry_out).options(
                name=job.name, max_retries=0, num_cpus=needs["CPU"], num_gpus=needs["GPU"]
            )
            order = (job.command(), str(job.log.resolve()), os.getcwd(), _own_environment())
            self._tasks[task.remote(*order, self.options.get("time_limit"))] = (job, needs)
            for kind in needs:
                self.free[kind] -= needs[kind]
            started.append(job)
        return started

    def poll(self) -> list[Ended]:
        if not self._tasks:
            return []
        ready, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return [self._end(task) for task in ready]

    def wait(self) -> None:
        time.sleep(_PAUSE)

    def stop(self, grace: float = GRACE) -> None:
        deadline = time.monotonic() + grace
        for task in self._tasks:
            self._ray.cancel(task)
        with contextlib.suppress(KeyboardInterrupt):  # once more means at once
            while self._tasks and time.monotonic() < deadline:
                self.poll()
                self.wait()
        for task in self._tasks:
            self._ray.cancel(task, force=True)  # the lifeline takes the job along
        while self._tasks and time.monotonic() < deadline + grace:
            self.poll()
            self.wait()

    def close(self) -> None:
        for task in self._tasks:
            self._ray.cancel(task, force=True)
        self._ray.shutdown()

    def _needs(self, job: Job) -> dict[str, float]:
        """Cores, but never more than a machine has (results depend on threads, not on cores); GPUs."""
        accelerator = job.config["trainer"]["accelerator"]
        per_job = self.options.get("gpus_per_job")
        uses_gpu = accelerator == "gpu" or (accelerator == "auto" and self.largest["GPU"] > 0)
        gpus = float(job.devices if per_job is None else per_job) if uses_gpu else 0.0
        return {"CPU": min(float(job.devices * job.threads), self.largest["CPU"]), "GPU": gpus}

    def _end(self, task: Any) -> Ended:
        job, needs = self._tasks.pop(task)
        for kind in needs:
            self.free[kind] += needs[kind]
        try:
            code, reason = self._ray.get(task)
        except self._ray.exceptions.TaskCancelledError:
            return Ended(job, 130, "interrupted")
        except self._ray.exceptions.RayError as error:
            return Ended(job, None, f"Ray: {(str(error).strip().splitlines() or [type(error).__name__])[0]}")
        return Ended(job, code, reason)


def carry_out(
    command: list[str], log: str, folder: str, environment: dict[str, str], time_limit: float | None
) -> tuple[int, str | None]:
    """What a task does: run the job's command to its end, in a session of its own that does not outlive the task.

    Returns its exit code, and why it was stopped if it was.
    """
    reason = None
    with Lifeline() as lifeline, open(log, "ab") as output:
        with _interruptible():
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**_environment_here(), **environment, **lifeline.environment},
                start_new_session=True,
            )
        began = time.monotonic()
        try:
            while process.poll() is None:  # a cancelled task is interrupted between two looks only
                if time_limit is not None and time.monotonic() - began > time_limit:
                    reason = f"stopped after its time limit, sweep.time_limit={time_limit:g} s"
                    _ask_to_end(process, signal.SIGTERM)
                time.sleep(_LOOK)
        except KeyboardInterrupt:
            reason = "interrupted"
            _ask_to_end(process, signal.SIGINT)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # ranks that outlived the first
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
    return code, reason


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ray's workers block SIGINT, and a process that is started inherits that: it could not be asked to end."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ask_to_end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Only the first process: it tells its ranks. A signal to all of them can leave one in a collective."""
    process.send_signal(number)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    process.kill()


def _environment_here() -> dict[str, str]:
    """Of the machine where the task runs, without what is Ray's own; the GPUs are those that Ray gave."""
    import ray

    variables = {
        key: value
        for key, value in clean_environment().items()
        if not key.startswith("RAY_") and key != "OMP_NUM_THREADS"  # Ray sets it to the task's cores
    }
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "") if ray.get_gpu_ids() else ""
    return {**variables, "CUDA_VISIBLE_DEVICES": visible}


def _own_environment() -> dict[str, str]:
    """What a job gets from the process that launches it. Lifelines are files of this machine."""
    return {
        key: value
        for key, value in clean_environment().items()
        if (key.startswith(_OURS) or key == "OMP_NUM_THREADS") and key != LIFELINES
    }


def _connect(address: str | None, num_cpus: int | None, num_gpus: int | None) -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # read when it is imported: nothing is reported to anyone
    try:
        import ray
    except ImportError:
        raise ConfigError("hydra/launcher=ray needs Ray: pip install 'lengthwise[ray]'") from None
    quiet: dict[str, Any] = {"logging_level": "error", "log_to_driver": False, "configure_logging": False}
    try:
        with _signals_kept():
            if address is not None:
                ray.init(address, **quiet)
            else:
                here = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
                ray.init(num_cpus=num_cpus, num_gpus=num_gpus, **here, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"hydra.launcher.address={address or 'null'}: no Ray cluster: {line}") from error
    return ray


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray puts handlers of its own in place of ours."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not the main thread: Ray could not set any either
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
