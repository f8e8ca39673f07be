"""What Slurm is asked: its jobs, its partitions, to cancel. Every question is bounded in time.

``squeue`` answers without an accounting database, which many a small cluster does not have; ``sacct`` is asked only
for jobs that ended so long ago that ``squeue`` has forgotten them.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace

TIMEOUT = 60.0
"""Seconds that Slurm's commands may take."""

ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT",
}  # fmt: skip
"""The states of a job that will not run again by itself; one that is requeued is PENDING."""


class SlurmSilent(Exception):
    """Slurm did not answer, or not in time; its message says what happened."""


@dataclass(frozen=True)
class SlurmJob:
    """A job, or one of an array, as Slurm sees it: id (``17`` or ``17_3``), state, name, why it is not running."""

    id: str
    state: str
    name: str
    reason: str = ""

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def place(self) -> int:
        """Its number within the array."""
        return int(self.id.partition("_")[2] or 0)


@dataclass(frozen=True)
class Partition:
    """Nodes that share a queue: how many there are, and the CPUs and GPUs of the largest.

    minutes: that a job gets unless it asks. longest: that it may ask for. None = no limit.
    """

    name: str
    is_default: bool
    nodes: int
    cpus: int
    gpus: int
    minutes: int | None
    longest: int | None


def ask(*command: str) -> str:
    """What the command prints. Raises SlurmSilent."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmSilent(f"{command[0]}: {error}") from error
    if done.returncode:
        raise SlurmSilent(done.stderr.strip() or f"{command[0]} ended with exit code {done.returncode}")
    return done.stdout


def jobs() -> dict[str, SlurmJob]:
    """Ours, by id, those included that ended in the last minutes. Raises SlurmSilent."""
    lines = ask(
        "squeue", "--me", "--noheader", "--array", "--states=all", "--format=%i|%T|%j|%r"
    ).splitlines()
    found = [SlurmJob(*(field.strip() for field in line.split("|", 3))) for line in lines if "|" in line]
    return {job.id: job for job in found}


def final_state(job_id: str) -> str | None:
    """Of a job that `jobs` does not list any more; None where there is no accounting, or it knows nothing either."""
    with contextlib.suppress(SlurmSilent):
        text = ask(
            "sacct", "--noheader", "--parsable2", "--allocations", "--format=State", f"--jobs={job_id}"
        )
        if text.strip():
            return text.split()[0].strip("+")  # "CANCELLED by 1000"
    return None


def was_preempted(job_id: str) -> bool:
    """Whether the job runs and is about to make way for another."""
    with contextlib.suppress(SlurmSilent):
        text = ask("scontrol", "--oneliner", "show", "job", job_id)
        return "JobState=RUNNING" in text and re.search(r"\bPreemptTime=\d", text) is not None
    return False


def cancel(ids: Sequence[str], *flags: str) -> None:
    """``scancel``; jobs that are gone already are no error."""
    for i in range(0, len(ids), 200):
        with contextlib.suppress(SlurmSilent):
            ask("scancel", "--quiet", *flags, *ids[i : i + 200])


def partitions() -> list[Partition]:
    """Those that there are. Raises SlurmSilent."""
    found: dict[str, Partition] = {}
    for line in ask("sinfo", "--all", "--exact", "--noheader", "--format=%P|%D|%c|%G|%L|%l").splitlines():
        name, nodes, cpus, gres, usual, longest = (field.strip() for field in line.split("|"))
        minutes = _minutes(usual) or _minutes(longest)
        more = Partition(
            name.rstrip("*"),
            name.endswith("*"),
            int(nodes),
            int(cpus),
            _gpus(gres),
            minutes,
            _minutes(longest),
        )
        seen = found.get(more.name, more)
        found[more.name] = replace(
            more,
            nodes=more.nodes + (seen.nodes if seen is not more else 0),
            cpus=max(more.cpus, seen.cpus),
            gpus=max(more.gpus, seen.gpus),
        )
    return list(found.values())


def _gpus(gres: str) -> int:
    """``gpu:a100:4(S:0-1),gpu:h100:2,tmp:1`` → 6."""
    counts = re.findall(r"(?:^|,)gpu(?::[^:,(]+)?:(\d+)", gres)
    return sum(map(int, counts))


def _minutes(text: str) -> int | None:
    """``1-12:30:00`` → 2190; ``infinite`` and ``n/a`` → None."""
    match = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return max(1, (days * 24 + hours) * 60 + minutes + (seconds > 0))
