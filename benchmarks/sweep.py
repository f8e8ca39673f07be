"""A sweep of short runs against the same runs back to back: what starting, queueing and recording them costs.

Useful seconds are those of `lengthwise.train` in processes that have imported everything, one run after another, in as
many processes at once as the sweep has jobs (two busy cores are each slower than one alone). A perfect launcher would
need their sum divided by that number. The same is also told for a run that has the machine to itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lengthwise

WORDS = ["trainer.validate_every=1000", "evaluation.lengths=[10,20]", "evaluation.symmetry=false"]


def seconds_of(steps: int, seed: int, outputs: str) -> float:
    """Of one run in this process."""
    words = [*WORDS, f"trainer.max_steps={steps}", f"seed={seed}", f"outputs={outputs}"]
    config = lengthwise.compose(words)
    began = time.perf_counter()
    with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
        lengthwise.train(config)
    return time.perf_counter() - began


def measure(steps: int, seeds: list[int]) -> None:
    """In a process of its own: print the mean of some runs."""
    with tempfile.TemporaryDirectory() as folder:
        seconds_of(20, 0, f"{folder}/first")
        print(statistics.mean(seconds_of(steps, seed, f"{folder}/useful") for seed in seeds))


def together(steps: int, processes: int) -> float:
    """Mean seconds of a run where so many processes train at once."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import sweep; sweep.measure(int(sys.argv[2]), [1, 2, 3, 4])"
    command = [sys.executable, "-c", program, str(Path(__file__).parent), str(steps)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return statistics.mean(float(process.communicate()[0]) for process in started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0, help="useful seconds of a run, about")
    options = parser.parse_args()
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        seconds_of(20, 0, f"{folder}/first")  # what is imported or compiled on the way
        short, long = (seconds_of(n, 1, f"{folder}/{n}") for n in (50, 150))
        steps = max(1, round(150 + (options.seconds - long) / ((long - short) / 100)))
        alone = statistics.mean(seconds_of(steps, seed, f"{folder}/useful") for seed in (1, 2, 3))
        useful = together(steps, workers)
        words = [
            *WORDS,
            f"trainer.max_steps={steps}",
            f"seed=range({options.runs})",
            f"sweep.workers={workers}",
        ]
        began = time.perf_counter()
        command = [sys.executable, "-m", "lengthwise", "train", "-m", *words]
        subprocess.run(command, cwd=Path(folder), check=True, stdout=subprocess.DEVNULL)
        sweep = time.perf_counter() - began
    ideal = options.runs * useful / workers
    print(
        f"{options.runs} runs of {steps} steps, {workers} at once; {useful:.2f} useful seconds each ({alone:.2f} alone)"
    )
    print(f"{sweep:7.1f} s  the sweep")
    print(f"{ideal:7.1f} s  useful seconds / {workers}")
    print(
        f"{sweep / ideal:7.2f}    ratio ({sweep / (options.runs * alone / workers):.2f} against runs alone)"
    )


if __name__ == "__main__":
    main()
