"""A Slurm of our own: one node with two GPUs that are not there, started as root in a temporary folder.

Its configuration, ports, sockets and key are private, so that it disturbs no Slurm of the machine's.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PACKAGES = "slurmctld slurmd slurm-client munge"
GPUS = 2

_CONF = """\
ClusterName=lengthwise
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=4000 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=600 State=UP PriorityTier=1 GraceTime=30
PartitionName=high Nodes={host} MaxTime=600 State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing() -> str | None:
    """Why no Slurm can be started here, and what would help; None where one can."""
    commands = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "srun")
    absent = [command for command in commands if _find(command) is None]
    if absent:
        return f"no {', '.join(absent)}: on Debian or Ubuntu, apt-get install {PACKAGES}"
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "a Slurm of our own is started as root only"
    with tempfile.TemporaryDirectory() as folder:
        try:
            _make_gpu(Path(folder) / "gpu0")
        except OSError as error:
            return f"no device can be made here (mknod: {error}): the container needs CAP_MKNOD"
    return None


class OneNode:
    """The running cluster; `environment` is what Slurm's commands need to find it.

    Raises RuntimeError, with the daemons' logs, where it does not come up.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lengthwise-slurm-"))
        self.folder.chmod(0o755)  # munge insists
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []
        try:
            self._configure()
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End what we started, the jobs first."""
        with suppress(OSError, subprocess.SubprocessError):
            self.ask("scancel", "--quiet", "--user=root")
            self.wait_until(lambda: not self.ask("squeue", "--noheader"), 15)
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *command: str) -> str:
        """What one of Slurm's commands prints."""
        return subprocess.run(
            command,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout.strip()

    def jobs(self) -> dict[str, str]:
        """Id to state, of those that have not ended."""
        lines = self.ask("squeue", "--noheader", "--array", "--format=%i %T").splitlines()
        return dict(line.split() for line in lines)

    def submit(self, *options: str, run: str) -> str:
        """A job that is none of ours; its id."""
        return self.ask("sbatch", "--parsable", "--output=/dev/null", "--chdir=/", *options, f"--wrap={run}")

    def start_again(self, job_id: str) -> None:
        """Once it is queued again; by itself it would wait for two minutes."""
        self.wait_until(lambda: self.jobs().get(job_id) == "PENDING", hint="it is not queued again")
        time.sleep(2.1)  # Slurm tells two starts of a job apart by the second
        self.ask("scontrol", "update", f"jobid={job_id}", "StartTime=now")

    def wait_until(self, condition, seconds: float = 60, hint: str = "") -> None:
        """Raises AssertionError with the queue and the logs where `condition()` stays false."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                queue = subprocess.run(
                    ["squeue", "--states=all"],
                    env={**os.environ, **self.environment},
                    capture_output=True,
                    text=True,
                )
                raise AssertionError(f"{hint or 'it did not happen'}\n{queue.stdout}\n{self._logs()}")
            time.sleep(0.1)

    def _configure(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        for i in range(GPUS):
            _make_gpu(self.folder / f"gpu{i}")
        host = socket.gethostname().partition(".")[0]
        conf = _CONF.format(host=host, folder=self.folder, ports=_free_ports(2), gpus=GPUS)
        (self.folder / "slurm.conf").write_text(conf)
        (self.folder / "gres.conf").write_text(
            f"NodeName={host} Name=gpu File={self.folder}/gpu[0-{GPUS - 1}]\n"
        )
        for name in ("state", "spool"):
            (self.folder / name).mkdir()

    def _start(self) -> None:
        at = self.folder
        self._run(
            "munged",
            "--foreground",
            f"--socket={at}/munge.socket",
            f"--key-file={at}/munge.key",
            f"--pid-file={at}/munged.pid",
            f"--log-file={at}/munged.log",
            f"--seed-file={at}/munged.seed",
        )
        self.wait_until((at / "munge.socket").exists, 20, "munged does not come up")
        self._run("slurmctld", "-D", "-c", "-f", f"{at}/slurm.conf")
        self._run("slurmd", "-D", "-f", f"{at}/slurm.conf")
        self.wait_until(self._is_idle, 60, "slurmd does not come up")

    def _is_idle(self) -> bool:
        with suppress(subprocess.CalledProcessError):
            return self.ask("sinfo", "--noheader", "--format=%T", "--partition=main") == "idle"
        return False

    def _run(self, command: str, *arguments: str) -> None:
        with (self.folder / f"{command}.out").open("wb") as out:
            self._daemons.append(
                subprocess.Popen(
                    [str(_find(command)), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env={**os.environ, **self.environment},
                    start_new_session=True,
                    preexec_fn=_end_with_parent,
                )
            )

    def _logs(self) -> str:
        texts = [path.read_text(errors="replace")[-1500:] for path in sorted(self.folder.glob("*.log"))]
        return "\n".join(texts)


def _find(command: str) -> str | None:
    return shutil.which(command, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _make_gpu(path: Path) -> None:
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))


def _free_ports(count: int) -> list[int]:
    with socket.socket() as first, socket.socket() as second:
        sockets = [first, second][:count]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def main() -> None:
    """Run one until Ctrl-C, to try things on it."""
    if why := missing():
        raise SystemExit(why)
    node = OneNode()
    print(f"export SLURM_CONF={node.environment['SLURM_CONF']}", flush=True)
    ends = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        signal.sigwait(ends)
    finally:
        node.stop()


if __name__ == "__main__":
    main()
