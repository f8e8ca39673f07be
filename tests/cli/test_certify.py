"""``lengthwise certify``: of an untrained model, a finished run, anyone's module."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from lengthwise.evaluation.axes import AXES
from lengthwise.runs import RunFolder, read_table
from lengthwise.runs.provenance import only_tests, read_starts
from support.commandline import QUICK, SMALL, in_process

BRIEF = ["sequences=4", "draws=2"]


def rows_of(out: str) -> dict[str, list[str]]:
    """property -> the cells of its line."""
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]
    return {cells[0]: cells[1:] for cells in lines}


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    assert in_process(folder, "train", *QUICK, *SMALL, "pe=learned").code == 0
    (path,) = (folder / "outputs" / "runs").iterdir()
    return path


@pytest.fixture
def trained(once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(once, tmp_path / "outputs" / "runs" / once.name)


def test_an_untrained_model(run) -> None:
    result = run("certify", "pe=alibi", "norm=post", *SMALL, *BRIEF)
    assert result.code == 0, result.err + result.out
    table = rows_of(result.out)
    assert table["reversal of the whole sequence"][:3] == ["yes", "holds", "agrees"]
    assert table["permutation: any"][:3] == ["no", "fails", "agrees"]
    assert table["translation of position numbers"][:3] == ["yes", "holds", "agrees"]
    assert table["causality: nothing from later symbols"][:3] == ["no", "fails", "agrees"]
    assert table["alone as in a batch"][:3] == ["yes", "holds", "agrees"]
    assert len(table) == 11
    assert all("e-" in cell or "e+" in cell for cells in table.values() for cell in cells[3:])
    assert "untrained pe=alibi norm=post" in result.out
    assert "Everything that is declared and could be measured holds." in result.out


def test_what_is_declared_and_fails_ends_with_1(run, monkeypatch: pytest.MonkeyPatch) -> None:
    from lengthwise.nn.position import Rotary

    monkeypatch.setattr(Rotary, "symmetries", frozenset({"translation", "reversal"}))
    result = run("certify", "pe=rotary", *SMALL, *BRIEF)
    assert result.code == 1
    assert rows_of(result.out)["reversal of the whole sequence"][:3] == ["yes", "fails", "BROKEN"]
    assert "declared, but not seen to hold: reversal of the whole sequence." in result.out


def test_what_holds_without_being_declared_is_a_failure_only_if_asked(run) -> None:
    """FIRE below its threshold."""
    arguments = ["pe=fire", *SMALL, *BRIEF]
    result = run("certify", *arguments)
    assert result.code == 0
    assert rows_of(result.out)["translation of position numbers"][:3] == ["no", "holds", "undeclared"]
    assert "holds without being declared" in result.out
    assert run("certify", *arguments, "strict=true").code == 1
    assert run("certify", "pe=rotary", *SMALL, *BRIEF, "strict=true").code == 0


def test_each_layer_and_every_figure(run, tmp_path: Path) -> None:
    result = run(
        "certify", "pe=none", "model=decoder", *SMALL, *BRIEF, "layers=true", "csv=all.csv", "--json"
    )
    assert result.code == 0, result.err
    content = json.loads(result.out)
    assert content["holds"] and content["subject"].startswith("untrained pe=none model=decoder")
    assert {row["quantity"] for row in content["rows"]} >= {"inputs", "hidden_0", "hidden_1"}
    with (tmp_path / "all.csv").open() as stream:
        written = list(csv.DictReader(stream))
    assert len(written) == len(content["rows"])
    assert {
        (row["dtype"], row["measured"], row["declared"]) for row in written if row["action"] == "prefix"
    } == {
        ("float32", "holds", "true"),
        ("float64", "holds", "true"),
    }
    shown = run("certify", "pe=none", "model=decoder", *SMALL, *BRIEF, "layers=true").out
    assert "hidden states" in shown


def test_a_finished_run_and_its_checkpoints(run, trained: Path) -> None:
    before = (trained / "symmetry.csv").read_bytes()
    errors = {}
    for checkpoint in ("last", "initial"):
        result = run("certify", f"run={trained}", f"checkpoint={checkpoint}", *BRIEF, "--json")
        assert result.code == 0, result.err
        content = json.loads(result.out)
        assert checkpoint in content["subject"] and trained.name in content["subject"]
        errors[checkpoint] = [row["error_max"] for row in content["rows"] if row["action"] == "uniform"]
    assert errors["last"] != errors["initial"]
    assert (trained / "symmetry.csv").read_bytes() == before


def test_the_certificate_of_a_run_is_the_one_in_its_record(run, trained: Path) -> None:
    content = json.loads(run("certify", f"run={trained}", "--json").out)
    recorded = {
        (row["action"], row["quantity"], row["dtype"]): row["error_max"]
        for row in read_table(trained / "symmetry.csv")
        if row["checkpoint"] == "last"
    }
    again = {(r["action"], r["quantity"], r["dtype"]): r["error_max"] for r in content["rows"]}
    shared = recorded.keys() & again.keys()
    assert len(shared) > 10
    for key in shared:
        assert again[key] == pytest.approx(recorded[key], rel=1e-3, abs=1e-6)


def test_which_length(run, trained: Path) -> None:
    result = run("certify", f"run={trained}", "axes=all", "count=32", *BRIEF)
    assert result.code == 0, result.err
    rows = read_table(trained / "axes.csv")
    assert {row["axis"] for row in rows} == {*AXES, "length"}
    assert {row["reaches"] for row in rows} == {10, 12}  # QUICK tests 4, 6 and 12, training ends at 10
    assert {row["n"] for row in rows} == {32} and {row["checkpoint"] for row in rows} == {"last"}
    assert "as at length" in result.out and "axes.csv" in result.out
    assert only_tests(read_starts(trained / "provenance.json")[-1])
    assert len(read_starts(trained / "provenance.json")) == 2

    more = run("certify", f"run={trained}", "axes=index", "lengths=[12,20]", "count=32", *BRIEF)
    assert more.code == 0, more.err
    after = read_table(trained / "axes.csv")
    assert [row for row in after if row["reaches"] != 20 and row in rows] and len(after) == len(rows) + 2
    assert {row["axis"] for row in after if row["reaches"] == 20} == {"index", "length"}
    again = run("evaluate", f"run={trained}", "evaluation.lengths=[7]")
    assert again.code == 0  # the record is still a run's


def test_options_that_a_run_is_tested_with_are_kept_apart(run, trained: Path) -> None:
    arguments = [f"run={trained}", "axes=index", "lengths=[12,30]", "count=32", *BRIEF]
    assert run("certify", *arguments).code == 0
    assert run("certify", *arguments, "pe.beyond=clamp").code == 0
    rows = [
        row for row in read_table(trained / "axes.csv") if row["axis"] == "index" and row["reaches"] == 30
    ]
    assert len(rows) == 2 and {row["flags"] for row in rows} == {"untrained_positions", "clamped_positions"}
    assert rows[0]["evaluation_id"] == "trained" != rows[1]["evaluation_id"]
    assert rows[0]["loss"] != rows[1]["loss"]


def test_an_axis_without_meaning_is_left_out_or_refused(run, tmp_path: Path) -> None:
    assert run("train", *QUICK, *SMALL, "task=offsets", "model=encoder").code == 0
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    result = run("certify", f"run={path}", "axes=all", "count=16", *BRIEF)
    assert result.code == 0, result.err
    for axis in ("gap", "keys"):
        assert f"left out: {axis}: task offsets has no neutral symbols" in result.out
    assert {row["axis"] for row in read_table(path / "axes.csv")} == {"index", "distance", "length"}
    refused = run("certify", f"run={path}", "axes=index,keys", *BRIEF)
    assert refused.code == 2 and "axes=index,keys: keys: task offsets" in refused.err


MODULE = '''
import torch
from torch import nn


class Mean(nn.Module):
    """Each token and the mean of all."""

    symmetries = frozenset(SYMMETRIES)

    def __init__(self, width=6):
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Linear(width, 4)

    def forward(self, x, key_mask=None):
        real = torch.ones_like(x[..., :1]) if key_mask is None else key_mask[..., None].to(x)
        return self.map(x).tanh() + ((self.map(x) * real).sum(1) / real.sum(1))[:, None]


def broken():
    raise RuntimeError("no weights here")
'''


@pytest.mark.parametrize(
    "symmetries, code", [("'permutation'", 0), ("", 0), ("'permutation', 'translation'", 0)]
)
def test_a_module_of_ones_own(run, tmp_path: Path, symmetries: str, code: int) -> None:
    name = f"own{len(symmetries)}"
    (tmp_path / f"{name}.py").write_text(MODULE.replace("SYMMETRIES", f"[{symmetries}]"))
    result = run("certify", f"module={name}:Mean", "width=6", *BRIEF)
    assert result.code == code, result.err + result.out
    table = rows_of(result.out)
    declared = "yes" if "permutation" in symmetries else "no"
    assert table["permutation: any"][:2] == [declared, "holds"]
    assert table["padding changes nothing"][:3] == ["yes", "holds", "agrees"]
    assert table["translation of position numbers"][1] == "not measured"
    assert "the module takes no position numbers" in result.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pe=alibii"], "alibii"),
        (["run=nothing"], "nothing"),
        (["pe=alibi", "axes=all"], "axes=all needs run=RUN"),
        (["pe=alibi", "checkpoint=best"], "goes with run="),
        (["pe=alibi", "length=2"], "at least 3"),
        (["pe=alibi", "length=long"], "length=long: must be a whole number"),
        (["pe=alibi", "draws=0"], "draws=0: must be at least 1"),
        (["pe=alibi", "layers=maybe"], "must be true or false"),
        (["-m", "pe=alibi,t5"], "one model at a time"),
        (["module=own", "width=4"], "package.module:factory"),
        (["module=own_missing:Mean", "width=4"], "own_missing"),
        (["module=json:dumps"], "needs width="),
        (["module=json:JSONDecoder", "width=4"], "JSONDecoder"),
        (["module=torch.nn:Linear", "width=4"], "TypeError"),
        (["run=x", "module=y:z"], "one of them"),
        (["pe=alibi", "csv=nowhere/all.csv"], "csv=nowhere/all.csv: there is no folder nowhere"),
        (["pe=alibi", "csv=."], "csv=.: that is a folder"),
    ],
)
def test_wrong_input_is_one_message(run, arguments: list[str], says: str) -> None:
    result = run("certify", *arguments)
    assert result.code == 2
    assert says in result.err and result.err.startswith("error: ") and result.err.count("\n") == 1
    assert not result.out


def test_wrong_input_for_a_run(run, trained: Path) -> None:
    for arguments, says in (
        (["pe=alibi"], "can be tested with other options of evaluation, pe and positions only"),
        (["norm=post"], "norm=post: must be one of run=…, checkpoint=…"),
        (["pe.beyon=clamp"], "Did you mean pe.beyond?"),
        (["checkpoint=first"], "has initial, best, last"),
        (["axes=depth"], "'depth' is unknown"),
        (["axes=all", "lengths=[5,6]"], "none of the lengths"),
        (["axes=all", "lengths=[2,50]"], "at least 3"),
    ):
        result = run("certify", f"run={trained}", *arguments)
        assert (result.code, says in result.err) == (2, True), result.err
    assert not RunFolder(trained).axes_csv.exists()


def test_what_cannot_be_written_is_said_before_anything_is_measured(
    run, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lengthwise.evaluation import symmetry

    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr(symmetry, "certify", never)
    (trained / "axes.csv").write_text("checkpoint,step\nlast,1,2,3\n")
    result = run("certify", f"run={trained}", "axes=index")
    assert result.code == 2 and "axes.csv is damaged: line 2" in result.err
    (trained / "axes.csv").unlink()
    (trained / "axes.csv").mkdir()
    assert run("certify", f"run={trained}", "axes=index").code != 0
    result = run("certify", f"run={trained}", "csv=nowhere/all.csv")
    assert result.code == 2 and not (trained.parents[2] / "nowhere").exists()


def test_an_axis_named_twice_is_measured_once(run, trained: Path) -> None:
    result = run("certify", f"run={trained}", "axes=index,index", "count=16", *BRIEF, "--json")
    rows = json.loads(result.out)["axes"]
    assert [(row["axis"], row["reaches"]) for row in rows] == [
        ("index", 10), ("index", 12), ("length", 10), ("length", 12)
    ]  # fmt: skip


def test_numbers_that_do_not_rise_with_length_cannot_be_raised(run, tmp_path: Path) -> None:
    words = [*QUICK, *SMALL, "pe=rotary", "positions=randomized", "positions.range=64"]
    assert run("train", *words).code == 0
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    brief = [f"run={path}", "count=16", *BRIEF]
    refused = run("certify", *brief, "axes=index")
    assert refused.code == 2 and "positions=randomized brings no larger numbers with length" in refused.err
    result = run("certify", *brief, "axes=all", "--json")
    content = json.loads(result.out)
    assert {row["axis"] for row in content["axes"]} == {"keys", "length"}
    assert [reason.partition(":")[0] for reason in content["left_out"]] == ["index", "distance", "gap"]
    assert run("certify", *brief, "axes=index", "positions=sequential").code == 0


def test_help(run) -> None:
    result = run("certify", "--help")
    assert result.code == 0
    for word in ("run=RUN", "module=", "axes=all", "strict=true", "csv=FILE", "--json"):
        assert word in result.out
