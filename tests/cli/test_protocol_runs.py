"""Evaluation protocols from the command line: bins, the mean over a range of lengths, presets."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from lengthwise.composing import compose
from lengthwise.runs import RunFolder
from lengthwise.runs.tested import is_complete
from support.commandline import QUICK, SMALL

TRAIN = ["task=copy", "data.lengths=[1,2,3]", *QUICK, *SMALL]
BINS = "evaluation.bins=[[1,3],[4,9]]"


def rows(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    with (path / "length.csv").open() as stream:
        return {(r["stratum"], r["length"]): r for r in csv.DictReader(stream) if r["checkpoint"] == "last"}


def results(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "status.json").read_text())["results"]
    return found


@pytest.fixture
def trained(run, tmp_path: Path) -> Path:
    assert run("train", *TRAIN).code == 0
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    return path


def test_a_run_with_bins(run, tmp_path: Path) -> None:
    result = run("train", *TRAIN, BINS, "evaluation.mean=[4,4]")
    assert result.code == 0, result.err
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    found = rows(path)
    assert {("bin_1-3", "3"), ("bin_4-9", "9"), ("all", "4")} <= set(found)
    inside = found["bin_1-3", "3"]
    assert (inside["n"], inside["asked"], inside["overlap_is"]) == ("16", "16", "exact")
    assert float(inside["train_overlap"]) > 0 and float(found["bin_4-9", "9"]["train_overlap"]) == 0
    assert results(path)["last/exact_match/4-9"] == float(found["bin_4-9", "9"]["exact_match"])
    assert results(path)["last/token_accuracy/mean_4-4"] == float(found["all", "4"]["token_accuracy"])
    for words in ("over bins of lengths", "4-9", "mean over 4-4: token accuracy", "seen in training"):
        assert words in result.out
    assert "done already" in run("train", *TRAIN, BINS, "evaluation.mean=[4,4]").out


def test_a_finished_run_is_tested_in_bins(run, trained: Path) -> None:
    before = rows(trained)
    result = run("evaluate", f"run={trained}", BINS)
    assert result.code == 0, result.err
    assert "0 lengths and 2 bins added" in result.out
    after = rows(trained)
    assert {key: after[key] for key in before} == before and len(after) == len(before) + 2
    assert "last/exact_match/1-3" in results(trained)
    assert "0 lengths added" in run("evaluate", f"run={trained}", BINS).out
    more = run("evaluate", f"run={trained}", BINS, "evaluation.count=20")
    assert "and 2 bins" in more.out and rows(trained)["bin_4-9", "9"]["n"] == "20"


def test_what_is_complete_has_the_bins_and_the_mean(run, trained: Path) -> None:
    folder = RunFolder(trained)
    assert is_complete(folder, compose(TRAIN))
    for asked in (BINS, "evaluation.mean=[4,4]"):
        assert not is_complete(folder, compose([*TRAIN, asked]))
        assert run("train", *TRAIN, asked).code == 0
        assert is_complete(folder, compose([*TRAIN, asked]))


def test_the_mean_needs_every_length(run, trained: Path) -> None:
    result = run("evaluate", f"run={trained}", "evaluation.mean=[4,6]")
    assert "mean over 4-6: not every one of these lengths has a figure" in result.out
    result = run("evaluate", f"run={trained}", "evaluation.mean=[4,6]", "evaluation.lengths=[5]")
    assert "mean over 4-6: token accuracy" in result.out
    single = [float(rows(trained)["all", str(n)]["token_accuracy"]) for n in (4, 5, 6)]
    assert results(trained)["last/token_accuracy/mean_4-6"] == pytest.approx(sum(single) / 3)


def test_presets_compose_and_leave_the_task_s_lengths_unless_they_name_some() -> None:
    chomsky, bins = (
        compose(["task=reverse", f"evaluation={name}"])["evaluation"] for name in ("chomsky", "bins")
    )
    assert chomsky["lengths"] == list(range(1, 501))
    assert (chomsky["mean"], chomsky["count"], chomsky["bins"]) == ([41, 500], 512, [])
    assert bins["bins"] == [[1, 50], [51, 100], [101, 150]] and bins["count"] == 2000
    assert bins["lengths"] == compose(["task=reverse"])["evaluation"]["lengths"]
    assert compose(["evaluation=chomsky", "evaluation.lengths=[7]"])["evaluation"]["lengths"] == [7]


def test_a_preset_tests_a_finished_run(run, trained: Path) -> None:
    short = ["evaluation.bins=[[1,3]]", "evaluation.count=20"]
    result = run("evaluate", f"run={trained}", "evaluation=bins", *short)
    assert result.code == 0, result.err
    assert "and 1 bins added" in result.out and rows(trained)["bin_1-3", "3"]["n"] == "20"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["evaluation=bin"], "evaluation=bin: no such option; options: bins, chomsky, default"),
        (["evaluation.bins=[[9,4]]"], "[9,4] is no range of lengths"),
        (["evaluation.mean=5"], "evaluation.mean=5"),
    ],
)
def test_what_is_no_protocol_is_refused(run, trained: Path, arguments: list[str], says: str) -> None:
    for command in (["evaluate", f"run={trained}"], ["train", *TRAIN]):
        result = run(*command, *arguments)
        assert result.code == 2 and "Traceback" not in result.err
        assert says.partition(";")[0] in result.err


def test_a_bin_that_the_task_does_not_have_is_refused(run, tmp_path: Path) -> None:
    result = run("train", "task=sort", *QUICK, *SMALL, "evaluation.bins=[[101,151]]")
    assert result.code == 2 and not (tmp_path / "outputs").exists()
    assert "evaluation.bins: [101,151]: task sort: length 151 is not possible" in result.err


def test_a_task_with_few_items_is_complete_all_the_same(run, tmp_path: Path) -> None:
    words = ["task=digits", *QUICK, *SMALL, "evaluation.lengths=[16]", "evaluation.count=600"]
    assert run("train", *words).code == 0
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    assert rows(path)["all", "16"]["n"] == "500"
    assert is_complete(RunFolder(path), compose(words))
    assert not is_complete(RunFolder(path), compose([*words, "evaluation.count=700"]))
