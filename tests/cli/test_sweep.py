"""Sweeps and studies: a process, a folder and a W&B run for each cell; a failure stops only itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lengthwise import cli
from lengthwise.runs import read_status
from support.commandline import QUICK, SMALL, Result, in_own_process, in_process
from support.interrupting import VARIABLE
from support.wandb_file import read_all

TINY = [word for word in [*QUICK, *SMALL] if not word.startswith(("wandb", "model.heads"))]
OFFLINE = [*TINY, "wandb=offline"]
DISABLED = [*TINY, "wandb=disabled"]
AXES = ["-m", "pe=learned,rotary", "model.heads=1,16", "norm=post"]
"""Four cells, one of which cannot be: 16 heads of width 1 have nothing for rotary to turn."""


@dataclass
class Swept:
    root: Path
    result: Result

    @property
    def outputs(self) -> Path:
        return self.root / "outputs"

    def record(self) -> dict[str, Any]:
        newest = max((self.outputs / "sweeps").iterdir())
        return json.loads(newest.read_text())

    def configs(self) -> dict[str, dict[str, Any]]:
        runs = (self.outputs / "runs").iterdir()
        return {path.name: yaml.safe_load((path / "config.yaml").read_text()) for path in runs}


def jobs_in_this_process(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Run jobs without a process of their own, which is quicker; returns the list of their overrides."""
    started: list[list[str]] = []

    def job(overrides: Sequence[str], options: Sequence[str] = ()) -> tuple[int, str]:
        started.append(list(overrides))
        code = cli.train([*options, *overrides])
        return code, f"exit code {code}"

    monkeypatch.setattr("lengthwise.sweeps.sweep.run_job", job)
    return started


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    root = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as monkeypatch:
        jobs_in_this_process(monkeypatch)
        return Swept(root, in_process(root, "train", *AXES, *OFFLINE))


def test_each_cell_has_its_folder(sweep: Swept) -> None:
    cells = {(c["pe"]["_target_"].rpartition(".")[2], c["model"]["heads"]) for c in sweep.configs().values()}
    assert cells == {("Learned", 1), ("Learned", 16), ("Rotary", 1)}
    for name in sweep.configs():
        assert read_status(sweep.outputs / "runs" / name / "status.json").state == "done"


def test_the_cell_that_fails_is_named_with_its_reason(sweep: Swept) -> None:
    assert sweep.result.code == 1
    said = sweep.result.out[sweep.result.out.index("3 of 4 runs done, 1 failed") :]
    assert "pe=rotary model.heads=16" in said
    assert "even" in sweep.result.err
    assert "Traceback" not in sweep.result.err
    states = [cell["state"] for cell in sweep.record()["cells"]]
    assert sorted(states) == ["done", "done", "done", "failed"]


def test_each_cell_has_its_wandb_run(sweep: Swept) -> None:
    runs = read_all(sweep.outputs)
    assert {(run.config["pe"], run.config["norm"], run.config["heads"]) for run in runs} == {
        ("learned", "post", 1),
        ("learned", "post", 16),
        ("rotary", "post", 1),
    }
    configs = sweep.configs()
    for run in runs:
        assert run.config["cfg"] == configs[run.name] | {"wandb": run.config["cfg"]["wandb"]}
        assert run.group == sweep.record()["id"]
        assert run.exit_code == 0
        assert [row["step"] for row in run.history if "step" in row] == [0, 1, 2, 3, 4]


def test_again_only_what_is_missing_runs(sweep: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {path: path.read_bytes() for path in sweep.outputs.glob("runs/*/*.csv")}
    jobs_in_this_process(monkeypatch)
    again = in_process(sweep.root, "train", *AXES, *OFFLINE)
    assert again.code == 1
    assert again.out.count("done already: ") == 3
    assert "3 of 4 runs done, 1 failed" in again.out
    assert {path: path.read_bytes() for path in sweep.outputs.glob("runs/*/*.csv")} == tables
    assert len(read_all(sweep.outputs)) == 3


def test_a_cell_that_went_further_is_said_to(sweep: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs_in_this_process(monkeypatch)
    shorter = in_process(sweep.root, "train", *AXES, *OFFLINE, "trainer.max_steps=2")
    assert shorter.out.count("(4 steps, more than the 2 asked for)") == 3


STUDY = """\
# @package _global_
# Does a study of one's own work?
study:
  name: mine
  question: Which of these learns?
  grids:
    - {pe: sinusoidal, model.heads: [2], norm: pre}
    - {pe: learned, norm: post, optimizer.lr: 1.0e+30}
    - {pe: [none], model.heads: 1, norm: [sandwich]}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "experiments" / "mine"
    folder.mkdir(parents=True)
    (folder / "study.yaml").write_text(STUDY)
    return tmp_path


def test_three_runs_the_second_of_which_diverges(study: Path) -> None:
    """… each a process; what the second leaves behind touches neither of the others."""
    swept = Swept(study, in_own_process(study, "train", "study=mine", *OFFLINE, "model.heads=4"))
    assert swept.result.code == 1
    assert "Which of these learns?" in swept.result.out
    record = swept.record()
    assert record["study"] == "mine"
    assert [cell["state"] for cell in record["cells"]] == ["done", "failed", "done"]
    assert "diverged" in record["cells"][1]["reason"]
    failure = swept.result.out[swept.result.out.index("2 of 3 runs done") :]
    assert "diverged" in failure and "optimizer.lr=1e+30" in failure

    runs = {run.name: run for run in read_all(swept.outputs)}
    ordered = [runs[cell["run"]] for cell in record["cells"]]
    assert [run.exit_code for run in ordered] == [0, 1, 0]
    factors = [(run.config["pe"], run.config["norm"], run.config["heads"]) for run in ordered]
    assert factors == [("sinusoidal", "pre", 4), ("learned", "post", 4), ("none", "sandwich", 4)]
    assert ordered[1].config["cfg"]["optimizer"]["lr"] == 1e30
    assert {run.group for run in ordered} == {record["id"]}
    statuses = [read_status(swept.outputs / "runs" / cell["run"] / "status.json") for cell in record["cells"]]
    assert [status.state for status in statuses] == ["done", "failed", "done"]
    assert "diverged" in (statuses[1].reason or "")
    assert len({(status.owner or {})["pid"] for status in statuses}) == 3


def test_the_command_line_replaces_an_axis(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = jobs_in_this_process(monkeypatch)
    result = in_process(study, "train", "study=mine", "pe=none", "optimizer.lr=1e-3", "norm=pre", *DISABLED)
    assert result.code == 0, result.err
    kept = [
        [word for word in words if word.startswith(("pe=", "norm=", "model.heads="))] for words in started
    ]
    assert [sorted(words) for words in kept] == [
        ["model.heads=2", "norm=pre", "pe=none"],
        ["norm=pre", "pe=none"],
        ["model.heads=1", "norm=pre", "pe=none"],
    ]


@pytest.mark.parametrize(
    ("grids", "says"),
    [
        ("[{pe: []}]", "'pe' has no values"),
        ("[pe]", "each grid maps keys"),
        ("[{pe: [none, lerned]}]", "Did you mean learned?"),
        ("[{modle.width: [8, 16]}]", "modle.width"),
        ("[{seed: [0, 1], pe: none}, {seed: 1, pe: none, trainer.max_steps: 2}]", "the same run"),
    ],
)
def test_a_study_that_is_wrong_starts_nothing(
    study: Path, monkeypatch: pytest.MonkeyPatch, grids: str, says: str
) -> None:
    started = jobs_in_this_process(monkeypatch)
    path = study / "experiments" / "mine" / "study.yaml"
    path.write_text(f"# @package _global_\nstudy: {{name: mine, question: '', grids: {grids}}}\n")
    result = in_process(study, "train", "study=mine", *DISABLED)
    assert result.code == 2
    assert says in result.err
    assert not started
    assert not (study / "outputs").exists()


def test_ctrl_c_stops_the_sweep_and_says_so(process: Callable[..., Result], tmp_path: Path) -> None:
    stop = "+callbacks.stop._target_=support.interrupting.Signalling"
    result = process(
        "train", "-m", "seed=0,1", *DISABLED, "trainer.accumulate=2", stop, environment={VARIABLE: "SIGINT 2"}
    )
    assert result.code == 130
    assert "Traceback" not in result.err
    record = Swept(tmp_path, result).record()
    assert [cell["state"] for cell in record["cells"]] == ["interrupted", "waiting"]
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    status = read_status(path / "status.json")
    assert (status.state, status.reason) == ("interrupted", "stopped by the user")
