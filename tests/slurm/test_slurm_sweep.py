"""A sweep on a real Slurm, as it is typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lengthwise.runs import RunFolder
from support.commandline import QUICK, SMALL
from support.slurm import OneNode

COMMAND = [
    "train", "-m", *QUICK, *SMALL, "seed=0,1,2", "trainer.accelerator=cpu", "hydra/launcher=slurm",
    "hydra.launcher.poll_seconds=0.5", "hydra.launcher.array_parallelism=1", "hydra.launcher.gpus_per_task=1",
]  # fmt: skip


@pytest.mark.slow
def test_a_killed_sweep_leaves_its_jobs_to_slurm_and_takes_them_up_again(node: OneNode, tmp_path: Path):
    command = [sys.executable, "-m", "lengthwise", *COMMAND]
    with (tmp_path / "first.log").open("wb") as log:
        first = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True)
    node.wait_until(lambda: "RUNNING" in node.jobs().values(), 120, "nothing is submitted")
    first.kill()
    first.wait()
    assert sorted(node.jobs().values()) == ["PENDING", "PENDING", "RUNNING"]
    (first_note,) = notes(tmp_path)

    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert again.returncode == 0, again.stdout + again.stderr
    assert not node.jobs()
    # The cell that ran may have ended in between, unseen; it is then found to be done.
    later = [run for note in notes(tmp_path) if note != first_note for run in note["runs"]]
    assert set(later) <= set(first_note["runs"][:1]), "what waited in the queue is not submitted again"
    for path in (tmp_path / "outputs" / "runs").iterdir():
        assert RunFolder(path).status().state == "done"
        assert len(json.loads((path / "provenance.json").read_text())["starts"]) == 1


def notes(folder: Path) -> list[dict[str, Any]]:
    """What the sweeps below `folder` have noted of each array that they submitted."""
    found = folder.glob("outputs/sweeps/*/slurm/lengthwise-*.json")
    return [json.loads(path.read_text()) for path in found]
