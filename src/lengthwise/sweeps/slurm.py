"""The launcher for a Slurm cluster, through submitit.

Jobs of one shape (nodes × tasks × GPUs × CPUs) go into one job array, a task for each rank. What was submitted is noted
in the sweep's folder, before it is: a launching process that is killed leaves its jobs to Slurm, and the same command
again waits for those that are there still rather than submit them twice.
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lengthwise.errors import ConfigError, RunError
from lengthwise.lifeline import LIFELINES
from lengthwise.sweeps import slurm_client
from lengthwise.sweeps.job import Job, clean_environment
from lengthwise.sweeps.launcher import Ended
from lengthwise.sweeps.slurm_client import Partition, SlurmJob, SlurmSilent
from lengthwise.sweeps.slurm_notes import NAME, find_earlier, is_same, write_note
from lengthwise.sweeps.slurm_shape import Shape, cannot_run, fits, names_of
from lengthwise.sweeps.slurm_task import GRACE, SlurmTask, TaskEnd, read_end
from lengthwise.sweeps.warm import WarmStart

_ARRAY = 1000  # Slurm's default MaxArraySize is 1001
_PATIENCE = 30.0  # seconds that a result may take to come over a shared file system, or a job to be listed
_NEVER_AGAIN = 1_000_000  # submitit's own count of restarts is not used

_STATES = {
    "CANCELLED": "cancelled (scancel)",
    "DEADLINE": "not started before its deadline",
    "FAILED": "its task was killed, or could not start",
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "out of memory: ask for more with hydra.launcher.mem=…",
    "PREEMPTED": "preempted, and not queued again",
    "TIMEOUT": "killed at Slurm's time limit: hydra.launcher.timeout_min=…",
}


@dataclass
class _Submitted:
    """One of our jobs in Slurm: id, submitit's folder for it, and since when we have been missing something of it."""

    job: Job
    id: str
    folder: Path
    ours: bool = True
    missing_since: float | None = None

    @property
    def ranks(self) -> int:
        return self.job.nodes * self.job.devices


class SlurmLauncher:
    """Options, all of them in ``conf/hydra/launcher/slurm.yaml``, are Slurm's own in most cases.

    options: the group ``sweep``; of it ``time_limit`` and ``workers`` are used.
    folder:  of the sweep; on a file system that the nodes share.

    Raises ConfigError where submitit or Slurm is missing.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        folder: Path,
        warm_start: WarmStart,
        *,
        partition: str | None = None,
        account: str | None = None,
        qos: str | None = None,
        constraint: str | None = None,
        mem: str | None = None,
        cpus_per_task: int | None = None,
        gpus_per_task: int | None = None,
        timeout_min: int | None = None,
        restarts: int = 100,
        signal_delay: int = 90,
        array_parallelism: int = 256,
        setup: Sequence[str] = (),
        srun_args: Sequence[str] = (),
        additional: Mapping[str, Any] | None = None,
        poll_seconds: float = 5.0,
    ) -> None:
        _refuse_missing()
        self.warm_start, self.warm = warm_start, False
        self.time_limit: float | None = options["time_limit"]
        self.folder = folder.resolve() / "slurm"
        self.partition = partition or os.environ.get("SBATCH_PARTITION")
        self.cpus_per_task, self.gpus_per_task = cpus_per_task, gpus_per_task
        self.timeout_min, self.restarts, self.warning = timeout_min, restarts, signal_delay
        self.srun_args = list(srun_args)
        self.poll_seconds = poll_seconds
        self._asked = {
            "partition": partition,
            "account": account,
            "qos": qos,
            "constraint": constraint,
            "mem": mem,
            "array_parallelism": min(array_parallelism, options["workers"] or array_parallelism),
            "signal_delay_s": signal_delay,
            "setup": list(setup),
            # Some clusters allow no job to be queued again unless it says that it can be.
            "additional_parameters": {"requeue": True, **(additional or {})},
        }
        self._running: list[_Submitted] = []
        self._names: set[str] = set()
        self._partitions: list[Partition] = []
        self._silent = False

    def refuse(self, jobs: Sequence[Job]) -> None:
        offers = self._offers()
        for shape in {self.shape(job) for job in jobs}:
            if not any(fits(shape, offer) for offer in offers):
                raise ConfigError(cannot_run(shape, offers))
        if self.timeout_min is not None:
            longest = max(math.inf if offer.longest is None else offer.longest for offer in offers)
            if self.timeout_min > longest:
                raise ConfigError(
                    f"hydra.launcher.timeout_min={self.timeout_min}: a job may take at most {longest:g} minutes on "
                    f"partition {names_of(offers)}"
                )
        minutes = self._minutes()
        if minutes is not None and 60 * (minutes - 1) <= self.warning:  # Slurm may tell a minute too early
            raise ConfigError(
                f"hydra.launcher.timeout_min={self.timeout_min}: a job has {minutes} minutes, and with "
                f"hydra.launcher.signal_delay={self.warning} seconds would be told to stop as soon as it starts"
            )

    def shape(self, job: Job) -> Shape:
        """What `job` asks Slurm for."""
        accelerator, gpus = job.config["trainer"]["accelerator"], self.gpus_per_task
        if gpus is None:
            has_gpus = any(offer.gpus for offer in self._offers())
            gpus = int(accelerator == "gpu" or (accelerator == "auto" and has_gpus))
        return Shape(job.nodes, job.devices, gpus * job.devices, max(job.threads, self.cpus_per_task or 1))

    def start(self, jobs: Sequence[Job]) -> list[Job]:
        """All at once: Slurm queues. One that is there from an earlier start is not submitted again.

        It is waited for in place of ours where it is the same; where it is not, ours is left for later.
        """
        if not jobs:
            return []
        try:
            earlier = find_earlier(self.folder.parent.parent, {one.id for one in self._running})
        except SlurmSilent as silence:
            self._complain(silence)
            return []
        started: list[Job] = []
        groups: dict[Shape, list[Job]] = {}
        for job in jobs:
            if (found := earlier.get(job.name)) is None:
                groups.setdefault(self.shape(job), []).append(job)
            elif is_same(found.file, job):
                self._running.append(_Submitted(job, found.id, found.folder, found.ours))
                started.append(job)
        for shape, group in groups.items():
            for i in range(0, len(group), _ARRAY):
                self._submit(shape, group[i : i + _ARRAY])
                started += group[i : i + _ARRAY]
        return started

    def poll(self) -> list[Ended]:
        try:
            seen = slurm_client.jobs() if self._running else {}
        except SlurmSilent as silence:
            self._complain(silence)
            return []
        self._silent = False
        ended: list[Ended] = []
        for submitted in list(self._running):
            if end := self._look(submitted, seen.get(submitted.id)):
                self._running.remove(submitted)
                ended.append(end)
        return ended

    def wait(self) -> None:
        time.sleep(self.poll_seconds)

    def stop(self, grace: float = GRACE) -> None:
        """Those of a launching process that is still there are left to it."""
        ids = list({submitted.id for submitted in self._running if submitted.ours} | self._just_submitted())
        slurm_client.cancel(ids, "--state=PENDING")
        slurm_client.cancel(ids, "--signal=INT", "--state=RUNNING")
        with suppress(KeyboardInterrupt):  # once more means at once
            self._await_end(set(ids), grace)
        slurm_client.cancel(ids)
        self._await_end(set(ids), grace + _PATIENCE)
        self._running.clear()

    def _just_submitted(self) -> set[str]:
        """Where we were interrupted while ``sbatch`` was at work, Slurm may have jobs that we do not know of yet."""
        with suppress(SlurmSilent):
            return {
                one.id
                for one in slurm_client.jobs().values()
                if one.name in self._names and not one.has_ended
            }
        return set()

    def close(self) -> None:
        """Nothing to let go of: what was submitted is Slurm's."""

    # -- submitting --------------------------------------------------------------------------------------------

    def _submit(self, shape: Shape, jobs: Sequence[Job]) -> None:
        import submitit

        name = f"{NAME}-{secrets.token_hex(4)}"
        minutes = self._minutes()
        cpus = [f"--cpus-per-task={shape.cpus}"]  # since Slurm 22.05 srun does not take it over from sbatch
        executor = submitit.SlurmExecutor(self.folder, max_num_timeout=_NEVER_AGAIN)
        executor.update_parameters(
            **{key: value for key, value in self._asked.items() if value is not None},
            job_name=name,
            time=minutes or 0,
            nodes=shape.nodes,
            ntasks_per_node=shape.tasks,
            cpus_per_task=shape.cpus,
            gpus_per_node=shape.gpus or None,
            # A task that is killed takes the others with it; they would wait for it.
            srun_args=[*cpus, "--kill-on-bad-exit=1", "--distribution=block", *self.srun_args],
        )
        tasks = [self._task(job, minutes) for job in jobs]
        for job in jobs:
            job.write()
        write_note(self.folder, name, jobs)
        self._names.add(name)
        try:
            with _environment_for_sbatch():
                submitted = executor.submit_array(tasks)
        except submitit.core.utils.FailedJobError as error:
            raise RunError(f"Slurm takes no job: {_last_line(error)}") from error
        write_note(self.folder, name, jobs, [one.job_id for one in submitted])
        pairs = zip(jobs, submitted, strict=True)
        self._running += [_Submitted(job, one.job_id, self.folder) for job, one in pairs]

    def _task(self, job: Job, minutes: int | None) -> SlurmTask:
        return SlurmTask(
            command=job.command(),
            cwd=os.getcwd(),
            log=str(job.log.resolve()),
            ranks=job.nodes * job.devices,
            time_limit=self.time_limit,
            minutes=minutes,
            warning=self.warning,
            restarts=self.restarts,
        )

    def _minutes(self) -> int | None:
        """Slurm's limit for a job, None = none: as asked, enough for sweep.time_limit, or what the partition gives."""
        if self.timeout_min is not None:
            return self.timeout_min
        offers = self._offers()
        if self.time_limit is None:
            limits = [offer.minutes for offer in offers if offer.minutes is not None]
            return min(limits, default=None)
        enough = math.ceil((self.time_limit + GRACE + self.warning) / 60) + 3
        return min([enough, *(offer.longest for offer in offers if offer.longest is not None)])

    # -- looking -----------------------------------------------------------------------------------------------

    def _look(self, submitted: _Submitted, seen: SlurmJob | None) -> Ended | None:
        """Its end, if it has come and all is there that tells of it."""
        state = seen.state if seen is not None else slurm_client.final_state(submitted.id)
        if seen is not None and not seen.has_ended:
            submitted.missing_since = None
            return None
        end = _result(submitted)
        if end is None and state in (None, "COMPLETED"):
            submitted.missing_since = submitted.missing_since or time.monotonic()
            if time.monotonic() - submitted.missing_since < _PATIENCE:
                return None
        code = end.code if isinstance(end, TaskEnd) else None
        if state == "COMPLETED" and isinstance(end, TaskEnd):
            return Ended(submitted.job, code, end.reason)
        words = [
            _STATES.get(state or "", "Slurm has lost sight of it" if state is None else f"Slurm says {state}")
        ]
        if isinstance(end, str):
            words.append(_last_line(end))
        elif end is not None and end.reason:
            words.insert(0, end.reason)
        where = f"Slurm job {submitted.id}, logs in {submitted.folder}"
        return Ended(submitted.job, code, f"{'; '.join(words)} ({where})")

    def _await_end(self, ids: set[str], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                seen = slurm_client.jobs()
                ids = {one for one in ids if one in seen and not seen[one].has_ended}
            except SlurmSilent as silence:
                self._complain(silence)
            if not ids:
                return
            time.sleep(min(0.5, self.poll_seconds))

    def _complain(self, silence: SlurmSilent) -> None:
        if not self._silent:
            print(f"Slurm does not answer ({silence}); waiting for it", file=sys.stderr, flush=True)
        self._silent = True

    def _offers(self) -> list[Partition]:
        """The partitions that jobs may go to. Raises ConfigError where there is no answer or none of that name."""
        if self._partitions:
            return self._partitions
        try:
            known = slurm_client.partitions()
        except SlurmSilent as silence:
            raise ConfigError(f"hydra/launcher=slurm: Slurm does not answer: {silence}") from silence
        names = self.partition.split(",") if self.partition else [p.name for p in known if p.is_default]
        self._partitions = [partition for partition in known if partition.name in names]
        if len(self._partitions) < len(names) or not names:
            wanted = (
                f"there is no partition {self.partition}" if self.partition else "no partition is the default"
            )
            raise ConfigError(
                f"hydra.launcher.partition: {wanted}; this cluster has {', '.join(p.name for p in known)}"
            )
        return self._partitions


def _refuse_missing() -> None:
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise ConfigError(
            "hydra/launcher=slurm needs the package submitit: pip install 'lengthwise[slurm]'"
        ) from None
    missing = [
        command for command in ("sbatch", "squeue", "sinfo", "scancel") if shutil.which(command) is None
    ]
    if missing:
        raise ConfigError(
            f"hydra/launcher=slurm: {', '.join(missing)} not found; start the sweep where Slurm's commands are, "
            "on a login node"
        )


@contextmanager
def _environment_for_sbatch() -> Iterator[None]:
    """The environment without what belongs to a job that we are in ourselves, or to processes on this machine."""
    keep = {*clean_environment(), "SLURM_CONF", "SLURM_CLUSTERS"}
    keep |= {key for key in os.environ if key.startswith("SBATCH_")}  # the user's own defaults
    hidden = {key: os.environ.pop(key) for key in list(os.environ) if key not in keep or key == LIFELINES}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _result(submitted: _Submitted) -> TaskEnd | str | None:
    """Rank 0's result, or that of the first rank that tells of trouble."""
    from submitit.core.utils import JobPaths

    ends = [
        read_end(JobPaths(submitted.folder, submitted.id, rank).result_pickle)
        for rank in range(submitted.ranks)
    ]
    first = ends[0]
    if isinstance(first, TaskEnd) and first.code and first.reason is None:
        return next((end for end in ends if isinstance(end, TaskEnd) and end.reason), first)
    return first


def _last_line(error: object) -> str:
    return str(error).strip().rpartition("\n")[2]
