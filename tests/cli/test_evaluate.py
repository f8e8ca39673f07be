"""A finished run, tested again."""

import csv
from pathlib import Path

import pytest

from lengthwise import measure
from support.commandline import QUICK


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def trained(run, tmp_path: Path) -> Path:
    assert run("train", *QUICK, "pe=learned").code == 0
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    return path


def test_other_lengths_are_added(run, trained: Path) -> None:
    before = rows(trained / "length.csv")
    result = run("evaluate", f"run={trained}", "evaluation.lengths=[6,25]")
    assert result.code == 0, result.err
    after = rows(trained / "length.csv")
    # a longer length may bring baselines, hence columns, of its own
    assert [{k: row[k] for k in before[0]} for row in after if row["length"] != "25"] == before
    assert {row["checkpoint"] for row in after if row["length"] == "25"} == {"last", "best"}
    again = run("evaluate", f"run={trained}", "evaluation.lengths=[6,25]")
    assert "0 lengths added" in again.out


def test_a_test_that_may_take_long_says_so_and_how_far_it_is(
    run, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "_LONG", 20)
    assert ", up to" not in run("evaluate", f"run={trained}", "evaluation.lengths=[7]").out
    monkeypatch.setattr(measure, "_SILENCE", 0.0)
    said = run("evaluate", f"run={trained}", "evaluation.lengths=[8,25]").out
    assert "testing last: 2 lengths, up to 25" in said and "testing last: 1 of 2 lengths in 0 s" in said


def test_a_run_is_found_by_the_beginning_of_its_hash(run, trained: Path) -> None:
    result = run("evaluate", f"run={trained.name[-10:-4]}", "evaluation.lengths=[7]")
    assert result.code == 0, result.err


@pytest.mark.parametrize("beyond", ["clamp", "interpolate"])
def test_another_rule_beyond_the_trained_length_is_kept_apart(run, trained: Path, beyond: str) -> None:
    before = rows(trained / "length.csv")
    result = run("evaluate", f"run={trained}", "evaluation.lengths=[6,12]", f"pe.beyond={beyond}")
    assert result.code == 0, result.err
    added = [row for row in rows(trained / "length.csv") if row not in before]
    assert {row["evaluation_id"] for row in added}.isdisjoint({row["evaluation_id"] for row in before})
    # inside the trained length the rule changes nothing
    figures = ("n", "token_accuracy", "exact_match", "loss")
    inside = [
        [row[f] for f in figures] for row in added if row["length"] == "6" and row["checkpoint"] == "last"
    ]
    known = [
        [row[f] for f in figures] for row in before if row["length"] == "6" and row["checkpoint"] == "last"
    ]
    assert inside == known


def test_where_the_rule_is_error_the_length_is_not_defined(run, trained: Path) -> None:
    result = run("evaluate", f"run={trained}", "evaluation.lengths=[6,12]", "pe.beyond=error")
    assert result.code == 0, result.err
    added = [row for row in rows(trained / "length.csv") if "not_defined" in row["flags"]]
    assert {row["length"] for row in added} == {"12"}
    assert {row["token_accuracy"] for row in added} == {""}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["evaluation.lengths=[5]"], "run="),
        (["run=nothing"], "nothing"),
        (["run={run}", "model.heads=2"], "model.heads=2"),
        (["run={run}", "pe.beyon=clamp"], "Did you mean pe.beyond?"),
        (["run={run}", "pe.beyond=wrap"], "wrap"),
        (["run={run}", "evaluation.lenghts=[5]"], "evaluation.lengths"),
        (["run={run}", "evaluation.lengths=[2]"], "at least 3"),
    ],
)
def test_wrong_input_is_one_message(run, trained: Path, arguments: list[str], says: str) -> None:
    before = (trained / "length.csv").read_bytes()
    result = run("evaluate", *(text.format(run=trained) for text in arguments))
    assert result.code == 2
    assert says in result.err
    assert "Traceback" not in result.err
    assert (trained / "length.csv").read_bytes() == before


@pytest.mark.parametrize("damage", ["missing", "truncated", "empty"])
def test_a_checkpoint_that_cannot_be_read_is_named(run, trained: Path, damage: str) -> None:
    last = trained / "checkpoints" / "last.ckpt"
    whole = last.read_bytes()
    last.unlink() if damage == "missing" else last.write_bytes(whole[:1000] if damage == "truncated" else b"")
    before = {p: p.read_bytes() for p in trained.rglob("*") if p.is_file() and p.name != "run.lock"}
    result = run("evaluate", f"run={trained}", "evaluation.lengths=[33]")
    assert result.code == 2
    assert "checkpoint" in result.err
    assert "Traceback" not in result.err
    longer = run("train", *QUICK, "pe=learned", "trainer.max_steps=9")
    if damage != "missing":
        assert longer.code == 2
        assert "last.ckpt" in longer.err
        assert {p: p.read_bytes() for p in before} == before
