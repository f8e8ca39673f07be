"""What a run leaves in W&B's own file, offline, in every ending."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import wandb

from lengthwise.errors import RunError
from lengthwise.training import fit
from lengthwise.training.callbacks import SymmetryProbe, WandbRun
from support.tiny_training import rows, tiny_callbacks, tiny_data, tiny_module, tiny_options
from support.wandb_file import read_all

LENGTH_ROWS = [
    {"length": 5, "stratum": "all", "token_accuracy": 1.0, "exact_match": 1.0, "loss": 0.1},
    {"length": 5, "stratum": "evidence_inside", "token_accuracy": 0.75, "exact_match": 0.5, "loss": 0.2},
    {"length": 50, "stratum": "all", "token_accuracy": 0.5, "exact_match": 0.25, "loss": 0.9},
    {"length": 50, "stratum": "evidence_inside", "token_accuracy": None, "exact_match": None, "loss": None},
]


class FailAt(pl.Callback):
    def __init__(self, step: int, error: BaseException) -> None:
        self.step, self.error = step, error

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self.step:
            raise self.error


def wandb_run(outputs: Path, number: int = 0, **options: Any) -> WandbRun:
    settings: dict[str, Any] = {
        "run_id": f"run{number}",
        "name": f"none-pre-{number}",
        "factors": {"pe": "none", "heads": 4, "seed": number},
        "config": {"model": {"heads": 4}, "data": {"lengths": [5, 7, 9]}},
        "group": "sweep1",
        "tags": ["study_a"],
        **options,
    }
    return WandbRun(outputs, **settings)


def train(outputs: Path, number: int = 0, error: BaseException | None = None, **options: Any) -> None:
    folder = outputs / "runs" / str(number)
    data = tiny_data(data_seed=number)
    extra = [FailAt(4, error)] if error else []
    with wandb_run(outputs, number, **options) as run:
        probe = SymmetryProbe(lambda model: {"swap": 0.5})
        callbacks = [probe, run, *extra, *tiny_callbacks(folder)]
        fit(tiny_module(data), data, tiny_options(max_steps=10), callbacks=callbacks)
        run.log_lengths(LENGTH_ROWS)
        run.summarise({"extrapolation": 0.5, "reach": 5, "nothing": None, "nan": float("nan")})


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three runs in one process, the second of which fails."""
    outputs = tmp_path_factory.mktemp("outputs")
    train(outputs, 0)
    with pytest.raises(RunError):
        train(outputs, 1, RunError("as the test wants"))
    train(outputs, 2)
    return outputs, read_all(outputs)


def test_three_runs_are_three_and_only_the_second_failed(three):
    _, runs = three
    assert [run.id for run in runs] == ["run0", "run1", "run2"]
    assert [run.exit_code for run in runs] == [0, 1, 0]
    assert [run.config["seed"] for run in runs] == [0, 1, 2]
    assert wandb.run is None


def test_config_has_the_factors_on_top_and_the_tree_under_cfg(three):
    run = three[1][0]
    assert run.config == {
        "pe": "none",
        "heads": 4,
        "seed": 0,
        "cfg": {"model": {"heads": 4}, "data": {"lengths": [5, 7, 9]}},
    }
    assert (run.name, run.project, run.group, run.job_type) == ("none-pre-0", "lengthwise", "sweep1", "train")
    assert run.tags == ["study_a"]


def test_history_is_the_record(three):
    outputs, runs = three
    for number, run in enumerate(runs):
        record = rows(outputs / "runs" / str(number))
        logged = [row for row in run.history if "step" in row]
        assert [row["step"] for row in logged] == [row["step"] for row in record]
        names = {"train/loss": "loss", "val/exact_match": "val_exact_match", "symmetry/swap": "symmetry_swap"}
        for name, column in names.items():
            assert [row.get(name) for row in logged] == [row[column] for row in record]
    assert [row["step"] for row in runs[1].history] == [0, 2]


def test_accuracy_against_length_is_a_native_line_plot(three):
    run = three[1][0]
    curve = [(row["length/n"], row["length/accuracy"]) for row in run.history if "length/n" in row]
    assert curve == [(5, 1.0), (50, 0.5)]
    assert run.axes["length/accuracy"] == "length/n"
    assert run.axes["length/evidence_inside/accuracy"] == "length/n"
    assert run.axes["train/loss"] == run.axes["symmetry/swap"] == "step"
    assert not any("*" in name for name in run.axes)


def test_the_summary_holds_plain_numbers(three):
    summary = three[1][0].summary
    assert summary["extrapolation"] == 0.5
    assert summary["reach"] == 5
    assert "nothing" not in summary
    assert "nan" not in summary


def test_everything_is_below_one_folder(three):
    outputs, _ = three
    folders = [path.name for path in (outputs / "wandb").iterdir() if "run-" in path.name]
    assert len(folders) == 3
    assert not (Path.cwd() / "wandb").exists()


def test_an_interrupt_is_a_failure_too(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, 0, KeyboardInterrupt())
    (run,) = read_all(tmp_path)
    assert run.exit_code == 130


def test_a_failure_outside_of_fitting_closes_the_run(tmp_path):
    with pytest.raises(ZeroDivisionError), wandb_run(tmp_path) as run:
        run.start()
        raise ZeroDivisionError
    assert read_all(tmp_path)[0].exit_code == 1


def test_starting_again_replays_and_retires(tmp_path):
    for kept in ([], [{"step": 2, "loss": 0.5, "val_loss": None}, {"step": 4, "loss": 0.25}]):
        with wandb_run(tmp_path) as run:
            run.start(kept)
            run.log_row({"step": 6, "loss": 0.125})
    (run_file,) = read_all(tmp_path)
    assert [(row["step"], row["train/loss"]) for row in run_file.history] == [(2, 0.5), (4, 0.25), (6, 0.125)]
    assert len(list((tmp_path / "wandb" / "retired").iterdir())) == 1


def test_disabled_writes_nothing(tmp_path):
    train(tmp_path, mode="disabled")
    assert not (tmp_path / "wandb").exists()


def test_an_unknown_mode_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"wandb\.mode='ofline'.*offline"):
        wandb_run(tmp_path, mode="ofline")


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_offline_no_process_opens_a_network_connection(tmp_path):
    script = textwrap.dedent(f"""
        from lengthwise.training.callbacks import WandbRun
        with WandbRun({str(tmp_path)!r}, run_id="x", name="x") as run:
            run.start()
            run.log_row({{"step": 1, "loss": 1.0}})
    """)
    log = tmp_path / "calls"
    trace = ["strace", "--seccomp-bpf", "-f", "-qq", "-e", "trace=connect,sendto", "-o", str(log)]
    probe = subprocess.run(["strace", "-qq", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("strace is not permitted here")
    subprocess.run([*trace, sys.executable, "-c", script], check=True, timeout=120)
    assert read_all(tmp_path)[0].exit_code == 0
    assert [line for line in log.read_text().splitlines() if "AF_INET" in line] == []
