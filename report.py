"""Put the runs on disk together in tables and one page: `python report.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))
from lengthwise.checkout import command

if __name__ == "__main__":
    sys.exit(command("report"))
