"""A sweep of short runs against the same runs back to back: what starting, queueing and recording them costs.

Useful seconds are those of `lengthwise.train` in processes that have imported everything, one run after another, in as
many processes at once as the sweep has jobs (two busy cores are each slower than one alone). A perfect launcher would
need their sum divided by that number. They are measured before and after the sweep, since machines do not keep their
speed. The same is also told for a run that has the machine to itself.
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
        seconds_of(20, 0, folder)  # what is imported, compiled or measured once
        print(statistics.mean(seconds_of(steps, seed, folder) for seed in seeds))


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
        few, many = 50, 250
        short, long = (together(steps, workers) for steps in (few, many))
        steps = max(1, round(few + (options.seconds - short) * (many - few) / (long - short)))
        useful, alone = [together(steps, workers)], [together(steps, 1)]
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
    useful.append(together(steps, workers))
    alone.append(together(steps, 1))
    each, by_itself = statistics.mean(useful), statistics.mean(alone)
    ideal = options.runs * each / workers
    before_and_after = ", ".join(f"{seconds:.2f}" for seconds in useful)
    print(
        f"{options.runs} runs of {steps} steps, {workers} at once; {each:.2f} useful seconds each "
        f"({before_and_after}; {by_itself:.2f} alone)"
    )
    print(f"{sweep:7.1f} s  the sweep")
    print(f"{ideal:7.1f} s  useful seconds / {workers}")
    against_alone = sweep / (options.runs * by_itself / workers)
    print(f"{sweep / ideal:7.2f}    ratio ({against_alone:.2f} against runs alone)")


if __name__ == "__main__":
    main()
