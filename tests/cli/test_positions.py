"""The slot `positions` on the command line: what is refused before anything starts, and another rule in the test."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import yaml

from support.commandline import QUICK


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["pe=none", "positions=offset"],
            "pe=none positions=offset: this encoding reads no position numbers",
        ),
        (
            ["pe=t5", "positions=floats"],
            "pe=t5 positions=floats: this encoding is defined for whole numbers only",
        ),
        (["pe=abacus"], "pe=abacus positions=sequential: this encoding is meant for the task's own numbers"),
        (["positions=task"], "task word_order gives no position numbers of the kind 'coupled'"),
        (["positions=randomized", "positions.range=8"], "positions=randomized: range=8 has too few numbers"),
        (
            ["positions=randomized", "positions.range=16", "evaluation.lengths=[40]"],
            "range=16 has too few numbers for a sequence of 41 positions: set 41 or more (evaluation.lengths up to 40)",
        ),
        (
            ["pe=learned", "pe.max_length=64", "positions=offset"],
            "max_length=64 is less than the 1024 positions",
        ),
        pytest.param(
            ["pe=unit_interval", "positions=offset"],
            "this encoding is defined for positions that are counted, 0…N-1",
            id="counted",
        ),
        (["positions=offset", "positions.range=99999999999"], "must be at least 1 and at most 16777216"),
        (["positions=randomized", "positions.range=100000"], "must be at least 1 and at most 65536"),
        (
            ["positions.range=7"],
            "the chosen option of positions has no such key; floats, offset, randomized would",
        ),
        (
            ["task=copy", "model=decoder", "pe=abacus", "pe.max_length=5", "positions=task"],
            "the model has 5 positions, and training needs",
        ),
        (
            ["pe=learned", "+positions@evaluation.positions=offset"],
            "is tested with other numbers by evaluate.py",
        ),
        (
            ["positions=ofset"],
            "positions=ofset: no such option; options: floats, offset, randomized, sequential, task",
        ),
        (["positions=offset", "positions.per=layer"], "positions.per=layer: Offset takes"),
    ],
)
def test_what_makes_no_sense_is_one_message(run, tmp_path: Path, arguments: list[str], says: str) -> None:
    result = run("train", *QUICK, *arguments)
    assert result.code == 2
    assert says in result.err
    assert not (tmp_path / "outputs").exists()


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return [
            row for row in csv.DictReader(stream) if row["checkpoint"] == "last" and row["stratum"] == "all"
        ]


def test_a_finished_run_is_tested_with_another_rule(run, tmp_path: Path) -> None:
    assert run("train", *QUICK, "pe=learned", "positions=randomized", "positions.range=64").code == 0
    (trained,) = (tmp_path / "outputs" / "runs").iterdir()
    assert "-randomized-" in trained.name
    before = rows(trained / "length.csv")
    assert {row["flags"] for row in before} == {""}, "all numbers of the range were trained"
    result = run("evaluate", f"run={trained}", "positions=sequential")
    assert result.code == 0, result.err
    added = [row for row in rows(trained / "length.csv") if row["evaluation_id"] != "trained"]
    assert [row["length"] for row in added] == [row["length"] for row in before]
    assert [row["loss"] for row in added] != [row["loss"] for row in before]
    result = run("evaluate", f"run={trained}", "positions.range=4")
    assert result.code == 2
    assert "range=4 has too few numbers" in result.err


def test_another_rule_in_the_test_leaves_the_model_as_it_was_trained(run, tmp_path: Path) -> None:
    """The run's own test counts from 0, as `positions=sequential`: what training has shown stays what it was."""
    assert run("train", *QUICK, "pe=learned", "positions=offset", "positions.range=64").code == 0
    (trained,) = (tmp_path / "outputs" / "runs").iterdir()
    figures = ("length", "loss", "token_accuracy", "flags")
    own = [[row[name] for name in figures] for row in rows(trained / "length.csv")]
    assert {flags for *_, flags in own} == {""}
    asked = [f"run={trained}", "positions=sequential", "pe.beyond=clamp", "evaluation.lengths=[6,12]"]
    assert run("evaluate", *asked).code == 0
    added = [row for row in rows(trained / "length.csv") if row["evaluation_id"] != "trained"]
    # nothing is clamped: all 64 positions were trained, by the rule of the training
    assert [[row[name] for name in figures] for row in added] == [row for row in own if row[0] in ("6", "12")]


def test_a_run_from_before_there_was_the_slot(run, tmp_path: Path) -> None:
    """… has the same name, is found done, and is tested as ever."""
    assert run("train", *QUICK).code == 0
    (trained,) = (tmp_path / "outputs" / "runs").iterdir()
    config = yaml.safe_load((trained / "config.yaml").read_text())
    del config["positions"]
    (trained / "config.yaml").write_text(yaml.safe_dump(config))
    again = run("train", *QUICK)
    assert again.code == 0, again.err
    assert "done" in again.out
    result = run("evaluate", f"run={trained}", "evaluation.lengths=[5]")
    assert result.code == 0, result.err
    assert list((tmp_path / "outputs" / "runs").iterdir()) == [trained]
