"""A finished run from which something is missing or damaged, or that is asked for in another precision."""

from __future__ import annotations

from pathlib import Path

import pytest

from lengthwise.composing import compose
from lengthwise.runs import RunFolder, read_starts, record_start
from lengthwise.runs.tested import is_complete
from support.commandline import QUICK


@pytest.fixture
def finished(run, tmp_path: Path) -> Path:
    assert run("train", *QUICK).code == 0
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    return path


def contents(path: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name != "run.lock"}


@pytest.mark.parametrize("steps", ["4", "9"])
def test_another_precision_is_not_mixed_in(run, finished: Path, steps: str) -> None:
    before = contents(finished)
    result = run("train", *QUICK, "trainer.precision=64-true", f"trainer.max_steps={steps}")
    assert result.code == 2
    assert "32-true" in result.err and "run.label=64-true" in result.err
    assert contents(finished) == before
    assert run("train", *QUICK, "trainer.precision=32-true").code == 0


def test_a_sweep_does_not_take_another_precision_for_done(run, finished: Path) -> None:
    config = compose([*QUICK])
    assert is_complete(RunFolder(finished), config)
    assert is_complete(RunFolder(finished), compose([*QUICK, "trainer.precision=32-true"]))
    assert not is_complete(RunFolder(finished), compose([*QUICK, "trainer.precision=64-true"]))


def test_what_only_tested_a_run_did_not_make_it(run, finished: Path) -> None:
    start = read_starts(finished / "provenance.json")[0]
    record_start(finished / "provenance.json", {**start, "argv": ["evaluate.py"], "precision": "64-true"})
    assert run("train", *QUICK, "trainer.precision=32-true").code == 0


def test_a_done_run_without_its_checkpoint_is_not_trained_afresh_unasked(run, finished: Path) -> None:
    (finished / "checkpoints" / "last.ckpt").unlink()
    before = contents(finished)
    longer = run("train", *QUICK, "trainer.max_steps=9")
    assert longer.code == 2
    assert "last.ckpt" in longer.err and "overwrite=true" in longer.err
    assert contents(finished) == before
    assert run("train", *QUICK).code == 0  # nothing is missing for this one


@pytest.mark.parametrize("name", ["length.csv", "symmetry.csv", "status.json", "config.yaml"])
def test_a_damaged_file_is_named(run, finished: Path, name: str) -> None:
    (finished / name).write_bytes(bytes(range(256)) + b"\n\r\nx,\x00,y\n" * 9)
    result = run("train", *QUICK, "evaluation.lengths=[4,33]")
    assert result.code == 2
    assert name in result.err
    assert len(result.err.strip().splitlines()) == 1
    assert run("train", *QUICK, "overwrite=true").code == 0


def test_a_configuration_that_was_edited_is_believed_by_nobody(run, finished: Path, tmp_path: Path) -> None:
    file = finished / "config.yaml"
    before = file.read_text("utf-8")
    file.write_text(before.replace("\nseed: 0", "\nseed: 7"), "utf-8")
    assert file.read_text("utf-8") != before
    for command in (
        ["evaluate", f"run={finished}"],
        ["show", f"run={finished}"],
        ["certify", f"run={finished}"],
    ):
        result = run(*command)
        assert result.code == 2 and "config.yaml was changed after it was written" in result.err
    assert "was changed after it was written" in run("runs").out
    assert "not, or only in part, in these figures" in run("report").out
    assert run("train", *QUICK, "trainer.max_steps=9").code == 2
    file.write_text(before, "utf-8")
    assert run("evaluate", f"run={finished}").code == 0
    file.write_text("\n".join(before.splitlines()[:-1]) + "\n", "utf-8")  # written before there were seals
    assert run("evaluate", f"run={finished}").code == 0


def test_one_damaged_run_does_not_hide_the_others_from_the_report(
    run, finished: Path, tmp_path: Path
) -> None:
    assert run("train", *QUICK, "seed=1").code == 0
    (finished / "symmetry.csv").write_bytes(b"\xff\x00garbage\n,\n")
    result = run("report")
    assert result.code == 0
    assert finished.name in (tmp_path / "outputs" / "report.html").read_text("utf-8")


def test_status_missing_has_a_way_out(run, finished: Path) -> None:
    (finished / "status.json").unlink()
    result = run("train", *QUICK)
    assert result.code == 2
    assert "overwrite=true" in result.err
    assert run("train", *QUICK, "overwrite=true").code == 0
