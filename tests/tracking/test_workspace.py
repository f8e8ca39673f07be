"""The workspace as code: what it shows are figures that runs really have, and a server takes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lengthwise.errors import ConfigError
from lengthwise.tracking.workspace import COLUMNS, make_workspace, push_workspace
from support.commandline import QUICK, SMALL, in_process
from support.launching import jobs_in_this_process
from support.wandb_file import read_all
from support.wandb_server import WandbServer, account, closed_port

pytest.importorskip("wandb_workspaces", reason="the optional package wandb-workspaces is not installed")

COMMAND = [word for word in [*QUICK, *SMALL] if not word.startswith("wandb")]


def panels() -> list[Any]:
    return [panel for section in make_workspace("me", "mine").sections for panel in section.panels]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as monkeypatch:
        jobs_in_this_process(monkeypatch)
        assert in_process(root, "train", "-m", "seed=0", *COMMAND, "wandb=offline").code == 0
    return root / "outputs"


def test_every_line_is_a_figure_of_a_run_against_its_own_axis(outputs: Path) -> None:
    (run,) = read_all(outputs)
    drawn = {(figure, panel.x) for panel in panels() if hasattr(panel, "y") for figure in panel.y}
    assert {("length/accuracy", "length/n"), ("train/loss", "step"), ("symmetry/uniform", "step")} <= drawn
    known = {*run.axes.items(), ("length/evidence_outside/accuracy", "length/n")}
    assert drawn <= known | {("length/evidence_inside/accuracy", "length/n")}


def test_every_table_and_column_is_there(outputs: Path) -> None:
    (run,), (report,) = read_all(outputs), read_all(outputs, "report")
    tables = {panel.table_name for panel in panels() if hasattr(panel, "table_name")}
    assert tables == {"accuracy", "certificate", "scorecard"}
    assert report.table("accuracy") and run.table("certificate") and run.table("scorecard")
    assert report.logged("page").is_file()
    for column in COLUMNS:
        place, _, name = column.partition(":")
        assert name in {"config": run.config, "summary": run.summary}[place], column


def test_one_command_pushes_it(tmp_path: Path) -> None:
    with WandbServer() as server, server.login():
        result = in_process(tmp_path, "workspace", "project=mine", "name=Seen first")
    assert result.code == 0, result.err
    assert result.out.startswith("workspace: http") and "/tester/mine?nw=" in result.out
    (view,) = server.views
    assert (view["entityName"], view["projectName"], view["displayName"]) == ("tester", "mine", "Seen first")
    spec = json.dumps(json.loads(view["spec"]))
    for part in ("length/accuracy", "length/n", "symmetry/uniform", "train/loss", '"groupBy": "pe.value"'):
        assert part in spec


def test_without_a_key_there_is_one_message(tmp_path: Path) -> None:
    with account(closed_port(), None):
        result = in_process(tmp_path, "workspace")
    assert result.code == 2
    assert result.err.startswith("error: lengthwise workspace: there is no key for http://127.0.0.1:")
    assert "`wandb login`" in result.err and len(result.err.strip().splitlines()) == 1


def test_a_refusal_is_one_message(tmp_path: Path) -> None:
    with WandbServer() as server, server.login():
        server.refuse["UpsertView2"] = (403, "permission denied")
        result = in_process(tmp_path, "workspace", "project=theirs")
    assert result.code == 2
    assert "'theirs'" in result.err and "permission denied" in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_without_the_package_it_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb_workspaces", None)
    with pytest.raises(ConfigError, match=r"pip install 'lengthwise\[workspaces\]'"):
        push_workspace("mine")


def test_a_wrong_argument_is_named(tmp_path: Path) -> None:
    result = in_process(tmp_path, "workspace", "projct=mine")
    assert result.code == 2 and "Did you mean project?" in result.err
