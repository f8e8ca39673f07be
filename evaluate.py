"""Test a finished run at other lengths: `python evaluate.py run=<run> evaluation.lengths=[50,100]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))
from lengthwise.checkout import command

if __name__ == "__main__":
    sys.exit(command("evaluate"))
