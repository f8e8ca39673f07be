"""`lengthwise runs`: which are meant, in which order, how two differ, and what may be deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lengthwise.errors import ConfigError, RunError
from lengthwise.report.browse import browse
from lengthwise.runs import RunFolder
from support.synthetic_runs import write_run


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    for encoding in ("rotary", "learned", "none"):
        for seed in (0, 1):
            write_run(tmp_path, encoding, seed)
    write_run(tmp_path, "alibi", 0, state="failed", reason="loss is nan at step 12", model__width=128)
    (tmp_path / "runs" / "broken-0123456789").mkdir()
    (tmp_path / "runs" / "broken-0123456789" / "status.json").write_text("{")
    return tmp_path


def listed(capsys: pytest.CaptureFixture[str], outputs: Path, *arguments: str) -> list[dict]:
    assert browse([*arguments, f"outputs={outputs}", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ([], 8),
        (["pe=rotary"], 2),
        (["pe=rotary,none"], 4),
        (["pe=rotary,none", "seed=1"], 2),
        (["pe!=rotary", "state=done"], 4),
        (["width>64"], 1),
        (["model.width<=64"], 0),  # a factor is called by its short name
        (["width<=64"], 6),
        (["state=damaged"], 1),
    ],
)
def test_conditions_choose(capsys, outputs: Path, conditions: list[str], count: int) -> None:
    if conditions == ["model.width<=64"]:
        with pytest.raises(ConfigError, match=r"model.width: no run has such a value; did you mean"):
            browse([*conditions, f"outputs={outputs}"])
        return
    assert len(listed(capsys, outputs, *conditions)) == count


def test_sorting_leaves_those_without_a_value_to_the_end(capsys, outputs: Path) -> None:
    runs = listed(capsys, outputs, "sort=-seed", "state=done")
    assert [run["seed"] for run in runs] == [1, 1, 1, 0, 0, 0]
    runs = listed(capsys, outputs, "sort=width")
    assert [run.get("width") for run in runs] == [64] * 6 + [128, None]
    assert [run["pe"] for run in listed(capsys, outputs, "sort=pe", "state=done", "limit=3")] == [
        "learned",
        "learned",
        "none",
    ]


def test_what_distinguishes_runs_is_shown_and_why_some_failed(capsys, outputs: Path) -> None:
    assert browse([f"outputs={outputs}"]) == 0
    text = capsys.readouterr().out
    assert "8 of 8 runs" in text
    assert "loss is nan at step 12" in text
    header = text.splitlines()[0]
    assert "pe" in header and "width" in header
    assert "norm" not in header, "all have the same one"


def test_one_run_and_two(capsys, outputs: Path) -> None:
    one, other = (write_run(outputs, "rotary", seed) for seed in (0, 1))
    assert browse(["show", one.name, f"outputs={outputs}", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["pe"], row["seed"], row["width"]) == ("rotary", 0, 64)
    assert browse(["compare", one.name[-10:], other.name[-10:], f"outputs={outputs}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {key for key, *_ in found["config"]} == {"seed", "init_seed", "data_seed"}
    assert found["config"][0] == ["seed", 0, 1]
    assert browse(["compare", one.name, str(one), f"outputs={outputs}"]) == 0
    assert "no config differ" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pe"], "pe: conditions are written key=value"),
        (["peh=rotary"], "peh: no run has such a value; did you mean"),
        (["width>wide"], "width>wide: > compares with a number"),
        (["limit=many"], "limit=many: must be a whole number"),
        (["compare", "a"], "name two runs, not 1"),
        (["delete"], "name runs, or give conditions"),
    ],
)
def test_wrong_input_is_one_message(outputs: Path, arguments: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        browse([*arguments, f"outputs={outputs}"])


def names(outputs: Path) -> set[str]:
    return {path.name for path in (outputs / "runs").iterdir()}


def test_deleting_asks(monkeypatch, capsys, outputs: Path) -> None:
    before = names(outputs)
    with pytest.raises(ConfigError, match="--yes deletes without asking"):
        browse(["delete", "state=failed", f"outputs={outputs}"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert browse(["delete", "state=failed", f"outputs={outputs}"]) == 1
    assert names(outputs) == before
    monkeypatch.setattr("builtins.input", lambda _: "y")
    assert browse(["delete", "state=failed", f"outputs={outputs}"]) == 0
    gone = before - names(outputs)
    assert len(gone) == 1 and "alibi" in gone.pop()


def test_a_run_at_work_is_not_deleted(outputs: Path) -> None:
    folder = RunFolder(write_run(outputs, "t5", 0))
    with folder.claim(), pytest.raises(RunError, match="already running"):
        browse(["delete", folder.name, f"outputs={outputs}", "--yes"])
    assert folder.exists and folder.length_csv.is_file()
    assert browse(["delete", folder.name, f"outputs={outputs}", "--yes"]) == 0
    assert not folder.path.exists()


def test_no_run_yet(capsys, tmp_path: Path) -> None:
    assert browse([f"outputs={tmp_path}"]) == 0
    assert "no run under" in capsys.readouterr().out
