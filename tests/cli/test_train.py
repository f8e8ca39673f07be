"""One run, again, longer, afresh; and what its folder then holds."""

import csv
import json
from pathlib import Path

from support.commandline import QUICK


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return list(csv.DictReader(stream))


def folder(root: Path) -> Path:
    (found,) = (root / "outputs" / "runs").iterdir()
    return found


def contents(root: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != "run.lock"}


def test_a_run_leaves_its_whole_record(run, tmp_path: Path) -> None:
    result = run("train", *QUICK, "pe=learned", "norm=post")
    assert result.code == 0, result.err
    path = folder(tmp_path)
    status = json.loads((path / "status.json").read_text())
    assert (status["state"], status["format"], status["steps"], status["max_steps"]) == ("done", 1, 4, 4)
    assert "learned" in path.name and "post" in path.name
    assert (
        "LearnedPosition" in (path / "config.yaml").read_text()
        or "Learned" in (path / "config.yaml").read_text()
    )
    assert [int(row["step"]) for row in rows(path / "train.csv")] == [0, 1, 2, 3, 4]
    tested = rows(path / "length.csv")
    assert {row["length"] for row in tested} == {"4", "6", "12"}
    assert {row["checkpoint"] for row in tested} == {"last", "best"}
    assert {row["flags"] for row in tested if row["length"] == "12"} == {"untrained_positions"}
    symmetry = rows(path / "symmetry.csv")
    assert {row["checkpoint"] for row in symmetry} == {"initial", "last", "best"}
    assert {row["dtype"] for row in symmetry} == {"float32", "float64"}
    provenance = json.loads((path / "provenance.json").read_text())
    assert provenance["starts"][0]["argv"][0] == "train.py"
    assert {p.name for p in (path / "checkpoints").iterdir()} == {"last.ckpt", "best.ckpt"}


def test_the_same_command_again_does_nothing_and_says_what_was_found(run, tmp_path: Path) -> None:
    assert run("train", *QUICK).code == 0
    before = contents(tmp_path)
    again = run("train", *QUICK)
    assert again.code == 0
    assert "done already (4 steps)" in again.out
    assert "exact match" in again.out
    assert contents(tmp_path) == before


def test_overwrite_starts_afresh(run, tmp_path: Path) -> None:
    assert run("train", *QUICK).code == 0
    (folder(tmp_path) / "length.csv").unlink()
    assert run("train", *QUICK, "overwrite=true").code == 0
    assert rows(folder(tmp_path) / "length.csv")


def test_a_longer_run_extends_a_done_one(run, tmp_path: Path) -> None:
    """… and equals one that was as long from the start, on the same schedule horizon."""
    assert run("train", *QUICK).code == 0
    longer = run("train", *QUICK, "trainer.max_steps=8")
    assert longer.code == 0
    assert "extended to 8 steps" in longer.out
    path = folder(tmp_path)
    extended = rows(path / "train.csv")
    assert [int(row["step"]) for row in extended] == list(range(9))
    assert {row["step"] for row in rows(path / "length.csv") if row["checkpoint"] == "last"} == {"8"}
    assert json.loads((path / "status.json").read_text())["horizon"] == 4

    whole = run("train", *QUICK, "trainer.max_steps=8", "schedule.steps=4", "outputs=whole")
    assert whole.code == 0
    (other,) = (tmp_path / "whole" / "runs").iterdir()
    assert rows(other / "train.csv") == extended
    assert rows(other / "length.csv") == rows(path / "length.csv")


def test_fewer_steps_than_a_done_run_has_are_said(run) -> None:
    assert run("train", *QUICK).code == 0
    shorter = run("train", *QUICK, "trainer.max_steps=2")
    assert shorter.code == 0
    assert "more than the 2 asked for" in shorter.out


def test_further_lengths_are_added_without_training(run, tmp_path: Path) -> None:
    assert run("train", *QUICK).code == 0
    path = folder(tmp_path)
    trained = (path / "train.csv").read_bytes()
    assert run("train", *QUICK, "evaluation.lengths=[4,20]").code == 0
    assert (path / "train.csv").read_bytes() == trained
    assert {row["length"] for row in rows(path / "length.csv")} == {"4", "6", "12", "20"}


def test_accumulation_and_batches_are_the_same_data(run, tmp_path: Path) -> None:
    """Two micro-batches of 16 are one batch of 32: the losses agree to rounding."""
    assert run("train", *QUICK, "outputs=one").code == 0
    assert run("train", *QUICK, "outputs=two", "trainer.accumulate=2").code == 0
    one, two = (next((tmp_path / name / "runs").iterdir()) / "train.csv" for name in ("one", "two"))
    for a, b in zip(rows(one)[1:], rows(two)[1:], strict=True):
        assert abs(float(a["loss"]) - float(b["loss"])) < 1e-5
