"""How long a user waits before anything is computed: CPU seconds of a fresh process, the least of five."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "train.py --help": [str(ROOT / "train.py"), "--help"],
    "import lengthwise": ["-c", "import lengthwise"],
    "compose the configuration": [str(ROOT / "train.py"), "--cfg", "job"],
    "import torch (for comparison)": ["-c", "import torch"],
}


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    for name, command in COMMANDS.items():
        print(f"{min(cpu_seconds(command) for _ in range(5)):7.2f} s  {name}")
