"""The report page of a thousand runs: seconds to build it, its size, and how soon a browser can use it.

The runs are made up (tests/support/synthetic_runs.py), with factors like those of a real sweep. The browser is a
headless Chromium with an empty profile; without one, its figures are left out.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # where the made-up runs are

from lengthwise.report import build_report
from support.browser import Browser, find_browser
from support.synthetic_runs import ENCODINGS, write_run

USABLE = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
"""Milliseconds from the start until every script has run: controls work and the first figure is drawn."""


def make(outputs: Path, count: int) -> None:
    """Encodings × norm × heads × layers × learning rate × seeds; one in forty failed."""
    norms = [
        {"_target_": f"lengthwise.nn.norm.{name}", "_partial_": True} for name in ("PreNorm", "PostNorm")
    ]
    grid = itertools.product(
        range(100), (0.001, 0.003, 0.01), (2, 4, 8), (1, 4, 8), norms, ENCODINGS, range(3)
    )
    for number, (more, rate, layers, heads, norm, encoding, seed) in enumerate(itertools.islice(grid, count)):
        failed = number % 40 == 39
        write_run(
            outputs, encoding, seed + 3 * more, norm=norm, model__heads=heads, model__layers=layers,
            optimizer__lr=rate, state="failed" if failed else "done",
            reason="the loss was nan at step 120" if failed else None,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), options.runs)
        began, worked = time.perf_counter(), time.process_time()
        path = build_report(folder)
        took, work = time.perf_counter() - began, time.process_time() - worked
        print(f"{options.runs} runs")
        print(f"{took:7.1f} s   to build the page, {work:.1f} s of them work")
        print(f"{path.stat().st_size / 1e6:7.1f} MB  its size")
        program = find_browser()
        if program is None:
            print("no browser found: how soon the page can be used was not measured")
            return
        seconds = []
        for attempt in range(3):
            with Browser(program, Path(folder) / f"profile-{attempt}") as browser:
                browser.open(path.as_uri())
                seconds.append(browser.run(USABLE) / 1000)
        print(f"{statistics.median(seconds):7.1f} s   until it can be used in {Path(program).name}")


if __name__ == "__main__":
    main()
