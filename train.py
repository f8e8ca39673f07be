"""Train one run (`python train.py pe=learned norm=pre`) or a sweep of them (`-m seed=0,1,2`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))
from lengthwise.checkout import command

if __name__ == "__main__":
    sys.exit(command("train"))
