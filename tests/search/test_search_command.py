"""A search as it is typed, with jobs that really train."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commandline import QUICK, SMALL, Result, in_process
from support.launching import jobs_in_this_process
from support.wandb_file import read_all

TINY = [*QUICK, *SMALL, "trainer.max_steps=10", "trainer.validate_every=5", "evaluation.symmetry=false"]
SEARCH = [
    "-m",
    "hydra/sweeper=optuna",
    *TINY,
    "optimizer.lr=tag(log, interval(1e-4, 1e-2))",
    "pe=rotary,alibi",
]


def search(folder: Path, *words: str) -> Result:
    return in_process(folder, "train", *SEARCH, *words)


def test_a_search_is_typed_printed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    jobs = jobs_in_this_process(monkeypatch)
    first = search(tmp_path, "hydra.sweeper.trials=2")
    assert first.code == 0, first.err
    assert len(jobs) == 2
    assert first.out.count("] started: optimizer.lr=") == 2
    assert first.out.count(" · val_loss ") == 2
    (record,) = (tmp_path / "outputs" / "sweeps").glob("*.json")
    content = json.loads(record.read_text())
    assert [cell["state"] for cell in content["cells"]] == ["done", "done"]
    assert (record.with_suffix("") / "search.db").is_file()
    second = search(tmp_path, "hydra.sweeper.trials=3")
    assert second.code == 0, second.err
    assert len(jobs) == 3
    assert "3 trials, 3 done" in second.out
    best = next(line for line in second.out.splitlines() if line.startswith("  python train.py"))
    assert "hydra" not in best and "optimizer.lr=" in best
    listed = in_process(tmp_path, "sweeps")
    assert record.stem in listed.out


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("hydra.sweeper.objective=best/token_accuracy/extrapolation", "measured on the test"),
        ("hydra.sweeper.trails=3", "hydra.sweeper.trails: there is no such key"),
        ("pe=rotary,nothing", "given twice"),
        ("model.heads=1,3", "3 heads"),
    ],
)
def test_one_clear_message_and_nothing_is_written(
    tmp_path: Path, word: str, says: str, monkeypatch: pytest.MonkeyPatch
):
    jobs_in_this_process(monkeypatch)
    refused = search(tmp_path, word)
    assert refused.code == 2
    assert says in refused.err
    assert not (tmp_path / "outputs").exists()


def test_a_search_is_shown_in_wandb_as_a_sweep_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    jobs_in_this_process(monkeypatch)
    assert search(tmp_path, "hydra.sweeper.trials=2", "wandb=offline").code == 0
    (report,) = read_all(tmp_path / "outputs", "report")
    assert report.config["sweep"].startswith("search-")
    assert {run.group for run in read_all(tmp_path / "outputs")} == {report.group} == {report.config["sweep"]}
    assert report.summary["done"] == 2 and report.table("accuracy")
