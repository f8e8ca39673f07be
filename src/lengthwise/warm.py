"""The warm server: a process that has imported everything, and forks one fresh process for each job.

``python -m lengthwise.warm FOLDER``: its temporary files go there, for the launching process to remove. It reads
requests and writes answers, a JSON object a line; the end of its input ends it. It never computes anything
itself: a pool of threads or a CUDA context would not survive a fork.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

from lengthwise import lifeline
from lengthwise.process import adopt
from lengthwise.tracking import preload

_PRELOAD = ("lengthwise.work", "lengthwise.pipeline", "lengthwise.inspection")
_LAZY = "torch.utils.serialization.config"
"""What torch imports only when it saves; not every version has it."""


def main() -> int:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    lifeline.watch()  # while it imports it would not see the end of its input; a fork leaves the thread behind
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher sees to its jobs
    # W&B makes folders when it is imported, and would remove them at an end that this process does not have.
    tempfile.tempdir = sys.argv[1]
    for name in _PRELOAD:
        importlib.import_module(name)
    with contextlib.suppress(ImportError):
        importlib.import_module(_LAZY)
    preload()
    tempfile.tempdir = None
    gc.collect()
    gc.freeze()  # a child's collector then leaves the shared pages alone
    _Server(answers).serve()
    return 0


class _Server:
    def __init__(self, answers: Any) -> None:
        self.answers = answers
        self.children: dict[int, str] = {}
        # A child that ends wakes `serve`, which may hear of several at once.
        self.woken, self.wake = os.pipe()
        for end in (self.woken, self.wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def answer(self, **content: Any) -> None:
        print(json.dumps(content), file=self.answers, flush=True)

    def serve(self) -> None:
        self.answer(ready=os.getpid())
        pending = b""
        while True:
            heard = select.select([0, self.woken], [], [])[0]
            if self.woken in heard:
                os.read(self.woken, 1 << 16)
            if 0 in heard:
                read = os.read(0, 1 << 16)
                if not read:
                    return
                *lines, pending = (pending + read).split(b"\n")
                for line in lines:
                    self.take(json.loads(line))
            self.reap()

    def take(self, request: dict[str, Any]) -> None:
        """Fork a process for a request.

        ``{"id", "do": "job" | "inspect", "file", "log", "environment", "cwd", "path"}``.
        """
        # The launcher may interrupt a job as soon as it knows its number: what comes before it can hear is kept for it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        with warnings.catch_warnings():
            # Of threads at a fork: there are the lifeline's, and libraries' idle ones.
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            _become(request, [self.answers.fileno(), self.woken, self.wake])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self.children[child] = request["id"]
        self.answer(started=request["id"], pid=child)

    def reap(self) -> None:
        while self.children:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            # Before its number is given back: what the job started and left behind goes with it.
            _kill_group(ended.si_pid)
            _, status = os.waitpid(ended.si_pid, 0)
            name = self.children.pop(ended.si_pid, None)
            if name is not None:
                self.answer(ended=name, code=os.waitstatus_to_exitcode(status))


def _become(request: dict[str, Any], inherited: list[int]) -> None:
    """Be the process of one job, without what is the server's own; does not return."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for handle in inherited:
            os.close(handle)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), 1)
        os.dup2(1, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["cwd"])
        adopt(request["path"])
        lifeline.watch()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        code = _duties()[request["do"]](request["file"])
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


def _duties() -> dict[str, Callable[[str], int]]:
    from lengthwise import inspection, work

    return {"job": work.run_file, "inspect": inspection.run_file}


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
