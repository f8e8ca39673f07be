"""What would fail once training starts is refused before anything is written or deleted."""

import json
from pathlib import Path

import pytest
import torch

from lengthwise.runs import read_table
from support.commandline import QUICK

WRONG = [
    ("optimizer.lr=-1", "learning rate"),
    ("optimizer.betas=[2,3]", "beta"),
    ("schedule.floor=2", "schedule.floor=2"),
    ("data.lengths=[3] task=last evaluation.symmetry_length=0", "symmetry_length"),
    ("task=last data.lengths=[1] evaluation.lengths=[1]", "evaluation.symmetry=false"),
    ("task=majority evaluation.symmetry_length=4 evaluation.lengths=[5]", "odd"),
    ("callbacks=early_stopping callbacks.early_stopping.monitor=val/acccc", "val/acccc"),
    ("trainer.devices=3", "trainer.devices=3"),
]
if not torch.cuda.is_available():
    WRONG.append(("trainer.accelerator=gpu", "trainer.accelerator=gpu"))


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=[wrong for wrong, _ in WRONG])
def test_before_anything_is_written(run, tmp_path: Path, arguments: str, says: str) -> None:
    result = run("train", *QUICK, *arguments.split())
    assert result.code == 2
    assert says.lower() in result.err.lower()
    assert len(result.err.strip().splitlines()) == 1
    assert not (tmp_path / "outputs").exists()


def test_before_overwrite_deletes_a_finished_run(run, tmp_path: Path) -> None:
    assert run("train", *QUICK).code == 0
    before = {p: p.read_bytes() for p in (tmp_path / "outputs").rglob("*") if p.is_file()}
    for wrong in (
        "trainer.devices=3",
        *(["trainer.accelerator=gpu"] if not torch.cuda.is_available() else []),
    ):
        assert run("train", *QUICK, "overwrite=true", wrong).code == 2
    assert {p: p.read_bytes() for p in before} == before


@pytest.mark.parametrize(
    "wrong", ["evaluation.count=abc", "evaluation.count=2.5", "evaluation.symmetry=maybe"]
)
def test_evaluate_checks_types_too(run, tmp_path: Path, wrong: str) -> None:
    assert run("train", *QUICK).code == 0
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    result = run("evaluate", f"run={path}", wrong)
    assert result.code == 2
    assert wrong.partition("=")[0] in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_a_further_certificate_is_measured(run, tmp_path: Path) -> None:
    assert run("train", *QUICK).code == 0
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    rows = (path / "symmetry.csv").read_text().count("\n")
    assert run("evaluate", f"run={path}", "evaluation.symmetry_length=6").code == 0
    assert (path / "symmetry.csv").read_text().count("\n") > rows
    assert run("train", *QUICK).code == 0  # … and the run is as done as before


def test_headline_figures_stay_comparable(run, tmp_path: Path) -> None:
    """Testing one run at more lengths leaves the figures that runs are sorted by alone."""
    assert run("train", *QUICK, "task=last", "evaluation.lengths=[4,6,12]").code == 0
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    before = json.loads((path / "status.json").read_text())["results"]
    assert run("evaluate", f"run={path}", "evaluation.lengths=[9,17,40]").code == 0
    assert json.loads((path / "status.json").read_text())["results"] == before
    accuracies = {row["token_accuracy"] for row in read_table(path / "length.csv") if row["length"] > 10}
    assert len(accuracies) > 1  # else the mean would be the same with any of them
