"""Tests run in forks of one warm interpreter, each with its own change to one module of the package.

A process imports what is slow to import (torch, Lightning, Hydra, …) but nothing of the package, then forks a child
for each job. The child serves the changed source through an import hook, so that no file is ever written, and runs
pytest. A job costs the imports of the package and the test itself, a second or less.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
PACKAGE = "lengthwise"
LIMIT = 120.0
"""Seconds of one job."""

WARM = (
    "numpy.random", "pandas", "pytest", "pytest_timeout", "yaml", "omegaconf", "hydra", "hydra.core.override_parser",
    "rich.progress", "scipy.stats", "scipy.optimize", "sklearn.datasets", "statsmodels.stats.multitest", "torch",
    "torch.utils.data", "torch._dynamo", "torch.multiprocessing", "torchmetrics", "pytorch_lightning", "wandb",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """code: pytest's exit code, or None where the time ran out. failures: (test, phase, type of error, message).
    changed: whether the changed module was imported. output: what pytest printed."""

    code: int | None
    failures: list[tuple[str, str, str, str]]
    changed: bool
    output: str


class ForkServer:
    """`run` may be called any number of times; `close` ends the process.  Raises RuntimeError if it cannot start."""

    def __init__(self) -> None:
        dropped = ("PYTEST_", "COV_", "LENGTHWISE_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        paths = [str(SOURCES), *filter(None, [environment.get("PYTHONPATH")])]
        environment |= {
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",  # macOS refuses to fork after some imports otherwise
        }
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
            text=True,
        )

    def run(self, *tests: str, file: Path | None = None, source: str = "", first: bool = True) -> Outcome:
        """Run `tests` (node ids); with `file`, while its module's source is `source`. first: stop at a failure."""
        job = {"tests": tests, "file": file and str(file), "source": source, "first": first}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the warm interpreter ended with exit code {self._process.wait()}")
        found = json.loads(answer)
        return Outcome(**{**found, "failures": [tuple(failure) for failure in found["failures"]]})

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def module_of(file: Path) -> str:
    """The dotted name of a source file."""
    parts = file.resolve().relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds and loads one module, from a text instead of its file."""

    def __init__(self, file: str, source: str) -> None:
        super().__init__(module_of(Path(file)), file)
        self.source, self.used = source, False

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def get_code(self, fullname: str) -> Any:
        self.used = True
        return compile(self.source, self.path, "exec", dont_inherit=True)


class Failures:
    """A pytest plugin that notes what failed, and how."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str, str, str]] = []

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        error = call.excinfo
        self.found.append((node.nodeid, call.when, error.typename, error.exconly()[:500]))


def _child(job: dict[str, Any], folder: Path) -> None:
    """Run the job's tests; write ``outcome.json``."""
    import pytest

    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(folder / "output", os.O_CREAT | os.O_WRONLY, 0o600), 1)
    os.dup2(1, 2)
    changed = Changed(job["file"], job["source"]) if job["file"] else None
    if changed is not None:
        sys.meta_path.insert(0, changed)
    failures = Failures()
    options = ["-q", "--tb=short", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    options.append(f"--basetemp={folder / 'tmp'}")
    if job["first"]:
        options.append("-x")
    code = pytest.main([*options, *job["tests"]], plugins=[failures])
    found = {"code": int(code), "failures": failures.found, "changed": changed is not None and changed.used}
    (folder / "outcome.json").write_text(json.dumps(found))


def _serve(job: dict[str, Any]) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="lengthwise-fork-"))
    try:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                _child(job, folder)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        deadline = time.monotonic() + LIMIT
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                break
            time.sleep(0.01)
        output, outcome = folder / "output", folder / "outcome.json"
        printed = output.read_text(errors="replace")[-6000:] if output.exists() else ""
        nothing = {"code": None, "failures": [], "changed": False}
        return {**(json.loads(outcome.read_text()) if outcome.exists() else nothing), "output": printed}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    for name in WARM:
        with contextlib.suppress(
            ImportError
        ):  # a module that another version does not have costs time, no more
            importlib.import_module(name)
    early = [name for name in sys.modules if name.split(".")[0] == PACKAGE]
    if early:
        raise RuntimeError(f"these are imported already and could not be changed: {early}")
    gc.collect()
    gc.freeze()  # so that a child's collector leaves the shared pages alone
    while line := sys.stdin.readline():
        print(json.dumps(_serve(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
