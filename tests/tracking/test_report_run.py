"""One W&B run of a sweep shows all of it: the aggregate table and the page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from lengthwise.report import wandb_sweep
from lengthwise.report.study import part_of
from lengthwise.report.tables import accuracy_table
from lengthwise.report.wandb_sweep import show_sweep
from support.commandline import QUICK, SMALL, Result, in_own_process, in_process
from support.faulty import FAULTY, VARIABLE
from support.launching import jobs_in_this_process
from support.wandb_file import WandbFile, read_all
from support.wandb_server import WandbServer

COMMAND = [word for word in [*QUICK, *SMALL] if not word.startswith("wandb")]
AXES = ["-m", "seed=0,1,2", FAULTY, *COMMAND]


class Shown(NamedTuple):
    root: Path
    result: Result
    trained: list[WandbFile]
    report: WandbFile


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Three runs in one sweep, each a process of its own; the second fails."""
    root = tmp_path_factory.mktemp("sweep")
    result = in_own_process(root, "train", *AXES, environment={VARIABLE: "1:raise"})
    (report,) = read_all(root / "outputs", "report")
    return Shown(root, result, read_all(root / "outputs"), report)


def test_three_runs_of_which_the_second_failed_are_three_and_one_report(shown: Shown) -> None:
    assert shown.result.code == 1, shown.result.err
    by_seed = {run.config["seed"]: run for run in shown.trained}
    assert {seed: run.exit_code for seed, run in by_seed.items()} == {0: 0, 1: 1, 2: 0}
    assert len({run.id for run in shown.trained}) == 3
    for seed, run in by_seed.items():
        assert run.config["cfg"]["seed"] == run.config["cfg"]["init_seed"] == seed
        assert run.config["cfg"]["wandb"]["group"] == run.group
        assert run.name.startswith("word_order-rotary-pre-") and f"-s{seed}-" in run.name
    assert {(run.group, run.job_type) for run in shown.trained} == {(shown.report.config["sweep"], "train")}


def test_the_report_is_in_the_group_of_its_runs(shown: Shown) -> None:
    report, name = shown.report, shown.report.config["sweep"]
    assert (report.group, report.job_type, report.exit_code) == (name, "report", 0)
    assert report.id == f"report-{name}" and name in report.name
    assert "seed=0,1,2" in report.config["command"]
    assert {key: report.summary[key] for key in ("runs", "done", "failed")} == {
        "runs": 3,
        "done": 2,
        "failed": 1,
    }


def test_it_has_the_table_of_the_report_and_the_page(shown: Shown) -> None:
    names = [path.name for path in sorted((shown.root / "outputs" / "runs").iterdir())]
    table = accuracy_table(part_of(shown.root / "outputs", names)).astype(object)
    rows = shown.report.table("accuracy")
    assert rows == table.where(table.notna(), None).to_dict("records")
    assert {row["length"] for row in rows} == {4, 6, 12} and {row["n"] for row in rows} == {2}
    page = shown.report.logged("page").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert all(name in page for name in names)


def test_again_it_is_replaced_and_not_doubled(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs_in_this_process(monkeypatch)
    assert in_process(shown.root, "train", *AXES).code == 0
    (report,) = read_all(shown.root / "outputs", "report")
    assert report.id == shown.report.id and report.path != shown.report.path
    assert (report.group, report.job_type) == (report.config["sweep"], "report")
    assert {row["n"] for row in report.table("accuracy")} == {3}
    assert (report.summary["done"], report.summary["failed"]) == (3, 0)
    assert not list((shown.root / "outputs" / "wandb" / "retired").glob("*report*"))


@pytest.mark.parametrize("without", ["wandb=disabled", "sweep.dry_run=true"])
def test_there_is_none_without_wandb_or_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    jobs_in_this_process(monkeypatch)
    assert in_process(tmp_path, "train", "-m", "seed=0,1", *COMMAND, without).code == 0
    assert not (tmp_path / "outputs" / "wandb").exists()


def test_online_it_is_on_the_server_and_a_server_that_is_gone_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs_in_this_process(monkeypatch)
    with WandbServer() as server, server.login():
        result = in_process(tmp_path, "train", "-m", "seed=0", *COMMAND, "wandb=online")
        assert result.code == 0, result.err
        (report,) = [run for run in server.runs.values() if run.about["jobType"] == "report"]
        assert report.exit_code == 0
        assert report.summary["accuracy"]["_type"] == "table-file"
        assert {report.summary[name]["path"] for name in ("accuracy", "page")} <= set(report.files)

        server.refuse["UpsertBucket"] = (403, "permission denied")
        name = report.config["sweep"]
        options = {"mode": "online", "project": "lengthwise", "entity": None, "group": None, "tags": []}
        show_sweep(tmp_path / "outputs", name, options)
    assert "permission denied" in capsys.readouterr().out
    assert len(read_all(tmp_path / "outputs", "report")) == 1  # the one before is still there


def test_a_report_that_fails_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs_in_this_process(monkeypatch)
    monkeypatch.setattr(wandb_sweep, "accuracy_table", lambda part: 1 / 0)
    result = in_process(tmp_path, "train", "-m", "seed=0", *COMMAND)
    assert result.code == 0
    assert "W&B has no report of this sweep: ZeroDivisionError" in result.out
    (report,) = read_all(tmp_path / "outputs", "report")
    assert report.exit_code == 1


def test_the_launching_process_needs_no_torch_for_it(tmp_path: Path) -> None:
    program = (
        "import sys; from lengthwise import cli; code = cli.train(sys.argv[1:]); "
        "print('imported', sorted({'torch', 'pytorch_lightning', 'wandb'} & set(sys.modules))); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, "-m", "seed=0", *COMMAND]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "imported ['wandb']" in done.stdout
