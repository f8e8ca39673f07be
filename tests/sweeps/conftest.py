"""Every sweep runs in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from lengthwise.runs import Status, read_status
from support.commandline import QUICK, SMALL, Result, in_process

TINY = [word for word in [*QUICK, *SMALL] if not word.startswith(("wandb", "model.heads"))]
OFFLINE = [*TINY, "wandb=offline"]
DISABLED = [*TINY, "wandb=disabled"]
BARE = [*DISABLED, "evaluation.symmetry=false", "evaluation.lengths=[4]", "evaluation.count=8"]
"""As little as a run can do."""


@dataclass
class Outputs:
    """What a sweep left behind."""

    folder: Path

    def record(self) -> dict[str, Any]:
        """Of the one sweep there is."""
        (path,) = (self.folder / "sweeps").glob("*.json")
        return json.loads(path.read_text())

    def states(self) -> list[str]:
        return [cell["state"] for cell in self.record()["cells"]]

    def runs(self) -> list[Path]:
        folder = self.folder / "runs"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def configs(self) -> dict[str, dict[str, Any]]:
        return {path.name: yaml.safe_load((path / "config.yaml").read_text()) for path in self.runs()}

    def status(self, seed: int) -> Status:
        (path,) = [
            path
            for path, config in zip(self.runs(), self.configs().values(), strict=True)
            if config["seed"] == seed
        ]
        return read_status(path / "status.json")

    def is_done(self, seed: int) -> bool:
        paths = [path / "status.json" for path in self.runs() if f"-s{seed}-" in path.name]
        return any(path.is_file() and read_status(path).state == "done" for path in paths)

    def tables(self) -> dict[str, bytes]:
        """Every CSV file under its name."""
        return {f"{p.parent.name}/{p.name}": p.read_bytes() for p in sorted(self.folder.glob("runs/*/*.csv"))}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Result]:
    """run("train", "-m", …) in this process, with the working folder in `tmp_path`."""
    return partial(in_process, tmp_path)
