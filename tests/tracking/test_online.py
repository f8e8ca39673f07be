"""A run online, and the same one offline and uploaded later: the server has the same of both, and what is on disk."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lengthwise.runs import read_table
from lengthwise.tracking import TrackedRun
from support.commandline import QUICK, SMALL, in_process
from support.wandb_file import read_wandb
from support.wandb_server import ServerRun, WandbServer, lasting, sync

COMMAND = [word for word in [*QUICK, *SMALL, "pe=learned"] if not word.startswith("wandb")]


class Uploaded(NamedTuple):
    """A run on the server, and the folders that it came from."""

    server: ServerRun
    folder: Path
    wandb: Path


def uploaded(root: Path, server: WandbServer, mode: str) -> Uploaded:
    result = in_process(root, "train", *COMMAND, f"wandb={mode}", "wandb.group=one", "wandb.tags=[first]")
    assert result.code == 0, result.err
    (wandb,) = (root / "outputs" / "wandb").glob("*run-*")
    if mode == "offline":
        assert not server.runs
        sync(wandb)
    (folder,) = (root / "outputs" / "runs").iterdir()
    (run,) = server.runs.values()
    return Uploaded(run, folder, wandb)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Uploaded]]:
    found = {}
    for mode in ("online", "offline"):
        with WandbServer() as server, server.login():
            found[mode] = uploaded(tmp_path_factory.mktemp(mode), server, mode)
    yield found


def test_the_server_has_the_same_of_both(both: dict[str, Uploaded]) -> None:
    online, offline = (both[mode].server for mode in ("online", "offline"))
    assert [lasting(row) for row in online.history] == [lasting(row) for row in offline.history]
    assert lasting(online.summary) == lasting(offline.summary)
    assert online.axes == offline.axes
    assert online.exit_code == offline.exit_code == 0
    configs = {mode: run.server.config for mode, run in both.items()}
    for mode, config in configs.items():
        assert config["cfg"]["wandb"].pop("mode") == mode
    assert configs["online"] == configs["offline"]
    for key in ("displayName", "groupName", "jobType", "tags", "project"):
        assert online.about[key] == offline.about[key], key


def test_the_server_has_the_same_files_of_both(both: dict[str, Uploaded]) -> None:
    online, offline = (both[mode].server.files for mode in ("online", "offline"))
    assert set(online) == set(offline)
    media = [name for name in online if name.startswith("media/")]
    assert media
    assert all(online[name] == offline[name] for name in media)


def test_the_server_has_what_is_on_disk(both: dict[str, Uploaded]) -> None:
    for run, folder, wandb in both.values():
        trained = [row for row in run.history if "step" in row]
        record = read_table(folder / "train.csv")
        assert [row["step"] for row in trained] == [row["step"] for row in record]
        for shown, column in {"train/loss": "loss", "val/exact_match": "val_exact_match"}.items():
            assert [row.get(shown) for row in trained] == [row[column] for row in record]
        curve = [(row["length/n"], row["length/accuracy"]) for row in run.history if "length/accuracy" in row]
        lengths = [row for row in read_table(folder / "length.csv") if row["stratum"] == "all"]
        assert curve == [(r["length"], r["token_accuracy"]) for r in lengths if r["checkpoint"] == "last"]
        results = json.loads((folder / "status.json").read_text())["results"]
        known = {name: value for name, value in results.items() if value is not None}
        assert known and {name: run.summary[name] for name in known} == known
        assert (run.about["displayName"], run.about["groupName"]) == (folder.name, "one")
        assert (run.about["jobType"], run.about["tags"]) == ("train", ["first"])
        assert run.config["pe"] == "learned" and run.config["seed"] == 0
        local = read_wandb(wandb)
        assert [lasting(row) for row in local.history] == [lasting(row) for row in run.history]


def test_accuracy_against_length_is_a_native_plot_there_too(both: dict[str, Uploaded]) -> None:
    for uploaded_run in both.values():
        axes = uploaded_run.server.axes
        assert (axes.get("length/accuracy"), axes.get("train/loss")) == ("length/n", "step")


def test_no_row_is_of_a_step_and_of_a_length(both: dict[str, Uploaded]) -> None:
    for run, _, _ in both.values():
        kinds = [{"step", "length/n"} & set(row) for row in run.history]
        assert {"step"} in kinds and {"length/n"} in kinds and {"step", "length/n"} not in kinds


def test_a_table_is_a_file_of_the_run_and_no_artifact(tmp_path: Path) -> None:
    """… which is staged elsewhere, and hangs on an answer of the server."""
    with TrackedRun(tmp_path, run_id="a1", name="a") as run:
        run.open()
        run.log_table("some", [{"a": 1, "b": None}, {"a": 2, "b": "x"}])
    (wandb,) = (tmp_path / "wandb").glob("offline-run-*")
    local = read_wandb(wandb)
    assert local.artifacts == 0
    assert local.table("some") == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


def test_the_server_has_the_tables(both: dict[str, Uploaded]) -> None:
    for run, folder, wandb in both.values():
        local = read_wandb(wandb)
        certificate = read_table(folder / "symmetry.csv")
        assert local.table("certificate") == certificate and len(certificate) > 10
        (row,) = local.table("scorecard")
        assert row["encoding"] == "learned" and row["positions_defined"] == 1024
        for name in ("certificate", "scorecard"):
            assert run.files[run.summary[name]["path"]] == local.logged(name).read_bytes()


@pytest.mark.parametrize("mode", ["online", "offline"])
@pytest.mark.parametrize(
    ("error", "code"),
    [(None, 0), (ArithmeticError("why"), 1), (KeyboardInterrupt(), 130), (SystemExit(3), 130)],
)
def test_the_server_sees_how_a_run_ended(
    tmp_path: Path, mode: str, error: BaseException | None, code: int
) -> None:
    with WandbServer() as server, server.login():
        with (
            contextlib.suppress(BaseException),
            TrackedRun(tmp_path, run_id="a1", name="a", mode=mode) as run,
        ):
            run.open()
            run.log_row({"step": 1, "loss": 0.5})
            if error is not None:
                raise error
        if mode == "offline":
            (wandb,) = (tmp_path / "wandb").glob("offline-run-*")
            sync(wandb)
        assert server.runs["a1"].exit_code == code


def test_a_run_that_goes_on_has_each_step_once(tmp_path: Path) -> None:
    with WandbServer() as server, server.login():
        for steps in ("4", "7"):
            result = in_process(tmp_path, "train", *COMMAND, "wandb=online", f"trainer.max_steps={steps}")
            assert result.code == 0, result.err
        (run,) = server.runs.values()
    (folder,) = (tmp_path / "outputs" / "runs").iterdir()
    logged = [row["step"] for row in run.history if "step" in row]
    assert logged == [row["step"] for row in read_table(folder / "train.csv")] and logged[-1] == 7
    assert len(list((tmp_path / "outputs" / "wandb").glob("run-*"))) == 1


def test_two_processes_are_one_run(tmp_path: Path) -> None:
    two = ["trainer.devices=2", "trainer.accelerator=cpu", "evaluation.symmetry=false"]
    with WandbServer() as server, server.login():
        result = in_process(tmp_path, "train", *COMMAND, *two, "wandb=online")
        assert result.code == 0, result.err
        (run,) = server.runs.values()
    assert run.exit_code == 0 and run.config["cfg"]["trainer"]["devices"] == 2
    assert len(list((tmp_path / "outputs" / "wandb").glob("*run-*"))) == 1
    alone = tmp_path / "alone"
    alone.mkdir()
    with WandbServer() as single, single.login():
        assert in_process(alone, "train", *COMMAND, "evaluation.symmetry=false", "wandb=online").code == 0
    # Nobody else has asked for anything; how often W&B's process writes one run's description goes by the clock.
    assert sorted(without(server.asked, "UpsertBucket")) == sorted(without(single.asked, "UpsertBucket"))


def without(asked: list[str], name: str) -> list[str]:
    return [each for each in asked if each != name]


def test_control_a_row_that_is_missing_or_another_is_seen(both: dict[str, Uploaded]) -> None:
    rows = [lasting(row) for row in both["online"].server.history]
    assert rows[:-1] != rows
    assert lasting({**rows[0], "_runtime": 3.0}) == rows[0]
    assert lasting({**rows[0], "step": 77}) != rows[0]


def test_syncing_the_shared_folder_leaves_retired_files_alone(tmp_path: Path) -> None:
    """A run that was started afresh has an older file, which would overwrite the newer one."""
    for steps in ("4", "6"):
        assert (
            in_process(tmp_path, "train", *COMMAND, "wandb=offline", f"trainer.max_steps={steps}").code == 0
        )
    outputs = tmp_path / "outputs" / "wandb"
    assert len(list((outputs / "retired").iterdir())) == 1
    with WandbServer() as server, server.login():
        assert "Syncing 1 run" in sync(outputs)
        (run,) = server.runs.values()
    steps_seen: list[Any] = [row["step"] for row in run.history if "step" in row]
    assert steps_seen == sorted(set(steps_seen)) and steps_seen[-1] == 6


@pytest.mark.parametrize("said", ["offline", "disabled"])
def test_the_command_line_says_how_not_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    with WandbServer() as server, server.login():
        monkeypatch.setenv("WANDB_MODE", said)
        assert in_process(tmp_path, "train", *COMMAND, "wandb=online").code == 0
        assert len(server.runs) == 1
        monkeypatch.setenv("WANDB_MODE", "online")
        assert in_process(tmp_path, "train", *COMMAND, "wandb=offline", "seed=1").code == 0
        assert len(server.runs) == 1
