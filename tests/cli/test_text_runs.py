"""A text as a task, from the command line: which run it is, and what becomes of it when the text changes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

from lengthwise.errors import RunError
from lengthwise.load import load_model
from support.commandline import QUICK, SMALL

TRAIN = ["task=text", "model=decoder", "data.lengths=[8]", *QUICK, *SMALL]
CONTENT = "it was the best of times, it was the worst of times; " * 30


def runs(folder: Path) -> list[Path]:
    return sorted((folder / "outputs" / "runs").iterdir())


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(CONTENT)
    return path


def test_a_run_on_a_text_tests_it_in_both_ways(run, tmp_path: Path, story: Path) -> None:
    result = run("train", *TRAIN, "task.file=story.txt")
    assert result.code == 0, result.err
    assert "perplexity" in result.out and "sliding" in result.out
    (path,) = runs(tmp_path)
    with (path / "length.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {(row["length"], row["stratum"]) for row in rows if row["checkpoint"] == "last"} == {
        (length, stratum) for length in ("4", "6", "12") for stratum in ("all", "sliding_window")
    }
    task = yaml.safe_load((path / "config.yaml").read_text())["task"]
    assert task["file"] == str(story) and task["digest"].startswith("b2-")
    results = json.loads((path / "status.json").read_text())["results"]
    assert results["last/perplexity/12"] > 1 and results["last/perplexity/12/sliding_window"] > 1
    again = run("train", *TRAIN, "task.file=story.txt")
    assert "done already" in again.out
    assert "0 lengths added" in run("evaluate", f"run={path}", "evaluation.lengths=[6]").out


def test_the_text_is_part_of_the_run_and_its_place_is_not(run, tmp_path: Path, story: Path) -> None:
    assert run("train", *TRAIN, "task.file=story.txt").code == 0
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "copy.txt").write_text(CONTENT)
    assert "done already" in run("train", *TRAIN, "task.file=elsewhere/copy.txt").out
    assert len(runs(tmp_path)) == 1
    story.write_text(CONTENT + "!")
    assert "done already" not in run("train", *TRAIN, "task.file=story.txt").out
    assert len(runs(tmp_path)) == 2


@pytest.mark.parametrize(
    ("change", "says"), [("gone", "No such file"), ("other", "put the same text there again")]
)
def test_a_run_whose_text_is_gone_or_changed_says_so(
    run, tmp_path: Path, story: Path, change: str, says: str
) -> None:
    assert run("train", *TRAIN, "task.file=story.txt").code == 0
    (path,) = runs(tmp_path)
    load_model(path)
    story.unlink() if change == "gone" else story.write_text(CONTENT.upper())
    before = (path / "length.csv").read_bytes()
    for arguments in (["evaluate", f"run={path}", "evaluation.lengths=[5]"], ["certify", f"run={path}"]):
        result = run(*arguments)
        assert result.code == 2 and says in result.err and path.name in result.err, result.err
        assert result.err.count("\n") == 1
    with pytest.raises(RunError, match=says):
        load_model(path)
    assert (path / "length.csv").read_bytes() == before
    story.write_text(CONTENT)  # as it was: all is well again
    assert run("evaluate", f"run={path}", "evaluation.lengths=[5]").code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["task.file=nothing.txt"], "nothing.txt cannot be read: No such file"),
        (["task.file=."], "cannot be read"),
        (["task.file=empty.txt"], "is empty"),
        (
            ["task.file=story.txt", "evaluation.lengths=[4,79]"],
            "length 79 is not possible; use lengths from 1 to 78",
        ),
        (["task.file=story.txt", "task.digest=b2-0"], "another text than digest=b2-0"),
        (["task.file=story.txt", "model=encoder"], "use shape decoder"),
    ],
)
def test_wrong_input_is_one_message(
    run, tmp_path: Path, story: Path, arguments: list[str], says: str
) -> None:
    (tmp_path / "empty.txt").touch()
    result = run("train", *TRAIN, *arguments)
    assert result.code == 2
    assert says in result.err and result.err.count("\n") == 1, result.err
    assert not (tmp_path / "outputs").exists()
