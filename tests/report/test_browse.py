"""`lengthwise runs`: which are meant, in which order, how two differ, and what may be deleted."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
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
        (["limit=²"], "limit=²: must be a whole number"),
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


ODD = {"data__lengths": [1, 3, 5]}


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        (["lengths=1,3,5"], 1),
        (["lengths!=1,3,5"], 8),  # all runs but that one, the damaged folder too
        (["lengths=1,3,5,4-10"], 8),
        (["task.margins=[1,3]"], 1),
        (["task.margins=[1, 3]"], 1),
        (["task.margins=[1,3],[2]"], 1),
        (["results.last/token_accuracy/extrapolation=0.6667"], 1),  # as it is listed
    ],
)
def test_a_value_is_written_as_it_is_listed(capsys, outputs: Path, conditions: list[str], count: int) -> None:
    folder = write_run(outputs, "t5", 0, task__margins=[1, 3], **ODD)
    status = json.loads((folder / "status.json").read_text())
    status["results"]["last/token_accuracy/extrapolation"] = 2 / 3
    (folder / "status.json").write_text(json.dumps(status))
    assert len(listed(capsys, outputs, *conditions)) == count


def test_a_value_that_no_run_has_is_said_and_deletes_nothing(capsys, outputs: Path) -> None:
    write_run(outputs, "t5", 0, **ODD)
    before = names(outputs)
    said = r"lengths!=1,3,7: no run has lengths 1 or 3 or 7; there are .*1,3,5"
    assert browse(["lengths!=1,3,7", f"outputs={outputs}"]) == 0
    assert re.search(said, capsys.readouterr().err)
    for words in (["lengths!=1,3,7"], ["lengths=1,3,7"], ["pe=rotary", "lengths!=1,3,7"]):
        with pytest.raises(ConfigError, match=r"no run has lengths .* Nothing is deleted"):
            browse(["delete", *words, "--yes", f"outputs={outputs}"])
    assert names(outputs) == before
    assert (
        browse(["delete", "state=interrupted", "--yes", f"outputs={outputs}"]) == 0
    )  # a state runs may be in
    assert "no run meets that" in capsys.readouterr().out
    assert browse(["delete", "lengths!=1,3,5", "state!=damaged", "--yes", f"outputs={outputs}"]) == 0
    assert len(names(outputs)) == 2  # what was meant is left, and the damaged folder


def test_one_run_named_twice_is_one(capsys, outputs: Path) -> None:
    folder = write_run(outputs, "t5", 0)
    assert browse(["delete", folder.name, folder.name[-10:], "--yes", f"outputs={outputs}"]) == 0
    assert "1 run:" in (said := capsys.readouterr().out) and "1 run deleted" in said
    assert not folder.exists()


def test_where_one_is_at_work_none_is_deleted(outputs: Path) -> None:
    idle, busy = (RunFolder(write_run(outputs, "t5", seed)) for seed in (0, 1))
    with busy.claim(), pytest.raises(RunError, match="already running"):
        browse(["delete", idle.name, busy.name, "--yes", f"outputs={outputs}"])
    assert idle.length_csv.is_file() and busy.length_csv.is_file()


def test_of_a_link_only_the_link_is_deleted(capsys, outputs: Path, tmp_path_factory) -> None:
    elsewhere = write_run(tmp_path_factory.mktemp("elsewhere"), "t5", 0)
    link = outputs / "runs" / elsewhere.name
    link.symlink_to(elsewhere)
    before = sorted(elsewhere.iterdir())
    assert browse(["delete", "pe=t5", "--yes", f"outputs={outputs}"]) == 0
    assert "(a link; what it leads to stays)" in capsys.readouterr().out
    assert not link.is_symlink() and elsewhere.is_dir() and sorted(elsewhere.iterdir()) == before


def test_what_cannot_be_deleted_is_said(monkeypatch, outputs: Path) -> None:
    folders = [write_run(outputs, "t5", seed) for seed in (0, 1)]
    remove = shutil.rmtree

    def refuse(path, *arguments, **options):
        if Path(path) == folders[1]:
            raise OSError(errno.EBUSY, "Device or resource busy")
        remove(path, *arguments, **options)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(RunError, match=r"1 of 2 runs deleted, then one cannot be: .*busy"):
        browse(["delete", *(folder.name for folder in folders), "--yes", f"outputs={outputs}"])


def test_what_may_not_be_deleted_is_said_and_kept(outputs: Path) -> None:
    kept = write_run(outputs, "t5", 0)
    kept.chmod(0o555)
    script = (
        "import sys; from support.disks import obey_permissions; obey_permissions(); import os; "
        "os.execv(sys.executable, [sys.executable, '-m', 'lengthwise', 'runs', *sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "delete", kept.name, "--yes", f"outputs={outputs}"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "tests"}, timeout=60,
    )  # fmt: skip
    kept.chmod(0o755)
    assert done.returncode == 2 and "may not be written to. Nothing is deleted" in done.stderr, done.stderr
    assert (kept / "length.csv").is_file()


def test_a_folder_that_may_not_be_read_is_not_called_empty(monkeypatch, outputs: Path) -> None:
    (outputs / "runs" / "closed").mkdir()
    with pytest.raises(RunError, match="closed is not a run folder"):
        browse(["show", "closed", f"outputs={outputs}"])
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(RunError, match=r"cannot read .*closed: permission denied"):
        browse(["show", "closed", f"outputs={outputs}"])


def test_what_two_runs_were_trained_with_is_compared(capsys, outputs: Path) -> None:
    one = write_run(outputs, "t5", 0)
    other = write_run(
        outputs, "t5", 1, start={"precision": "bf16-mixed", "packages": {"torch": "2.14.0"}},
        trainer__max_steps=400,
    )  # fmt: skip
    assert browse(["compare", one.name, other.name, f"outputs={outputs}", "--json"]) == 0
    found = {key: values for key, *values in json.loads(capsys.readouterr().out)["config"]}
    assert found["precision"] == ["32-true", "bf16-mixed"]
    assert found["torch version"] == ["2.13.0", "2.14.0"]
    assert found["max_steps"] == [300, 400]
    assert "device" not in found  # the same
