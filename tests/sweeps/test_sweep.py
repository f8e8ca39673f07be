"""Sweeps and studies: a process, a folder and a W&B run for each cell; a failure stops only itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lengthwise import compose
from lengthwise.runs import read_status, read_table
from lengthwise.sweeping import parse, sweep_of
from lengthwise.sweeps.sweep import run as run_sweeps
from support.commandline import Result, in_own_process, in_process
from support.faulty import FAULTY, VARIABLE
from support.launching import InThisProcess, jobs_in_this_process
from support.wandb_file import read_all
from sweeps.conftest import BARE, DISABLED, OFFLINE, Outputs

AXES = ["-m", "pe=learned,rotary", "seed=0,1", "norm=post", FAULTY]
"""Four cells."""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The two cells of seed 1 raise."""
    root = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as monkeypatch:
        jobs_in_this_process(monkeypatch)
        monkeypatch.setenv(VARIABLE, "1:raise")
        return root, in_process(root, "train", *AXES, *OFFLINE)


def test_each_cell_has_its_folder(sweep: tuple[Path, Result]) -> None:
    outputs = Outputs(sweep[0] / "outputs")
    cells = {(c["pe"]["_target_"].rpartition(".")[2], c["seed"]) for c in outputs.configs().values()}
    assert cells == {("Learned", 0), ("Learned", 1), ("Rotary", 0), ("Rotary", 1)}
    for path, config in zip(outputs.runs(), outputs.configs().values(), strict=True):
        assert read_status(path / "status.json").state == ("failed" if config["seed"] else "done")


def test_the_cells_that_fail_are_named_with_their_reasons(sweep: tuple[Path, Result]) -> None:
    root, result = sweep
    assert result.code == 1
    said = result.out[result.out.index("2 of 4 runs done, 2 failed") :]
    for pe in ("learned", "rotary"):
        assert f"failed: pe={pe} seed=1" in said
    assert said.count("ArithmeticError: this one raises") == 2
    assert said.count("log: ") == 2
    outputs = Outputs(root / "outputs")
    assert outputs.states() == ["done", "failed", "done", "failed"]
    assert {cell["reason"] for cell in outputs.record()["cells"]} == {
        None,
        "ArithmeticError: this one raises",
    }


def test_each_cell_has_its_wandb_run(sweep: tuple[Path, Result]) -> None:
    outputs = Outputs(sweep[0] / "outputs")
    runs = read_all(outputs.folder)
    seen = {(run.config["pe"], run.config["norm"], run.config["seed"]): run.exit_code for run in runs}
    assert seen == {
        (pe, "post", seed): seed for pe in ("learned", "rotary") for seed in (0, 1)
    }  # exit code 1 for the ones that raised
    configs = outputs.configs()
    for run in runs:
        assert run.config["cfg"] == configs[run.name] | {"wandb": run.config["cfg"]["wandb"]}
        assert run.group == outputs.record()["id"]


def test_again_only_what_is_missing_runs(sweep: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch) -> None:
    root, _ = sweep
    outputs = Outputs(root / "outputs")
    done = {name: table for name, table in outputs.tables().items() if "-s0-" in name}
    started = jobs_in_this_process(monkeypatch)
    again = in_process(root, "train", *AXES, *OFFLINE)
    assert again.code == 0, again.out
    assert [job.config["seed"] for job in started] == [1, 1]
    assert "2 to run · 2 done already" in again.out
    assert {name: table for name, table in outputs.tables().items() if "-s0-" in name} == done
    assert outputs.states() == ["done"] * 4  # in the record of the first time
    assert len(read_all(outputs.folder)) == 4
    third = in_process(root, "train", *AXES, *OFFLINE)
    assert third.code == 0 and "0 to run · 4 done already" in third.out
    assert len(started) == 2


def test_a_grid_that_was_edited_keeps_what_it_shares(
    sweep: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = jobs_in_this_process(monkeypatch)
    root, _ = sweep
    edited = in_process(root, "train", "-m", "pe=rotary,none", "seed=0", "norm=post", FAULTY, *OFFLINE)
    assert edited.code == 0
    assert [job.argv[-2] for job in started] == ["pe=none"] or any("pe=none" in job.argv for job in started)
    assert len(started) == 1


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
    result = in_own_process(study, "train", "study=mine", *OFFLINE, "model.heads=4")
    outputs = Outputs(study / "outputs")
    assert result.code == 1
    assert "Which of these learns?" in result.out
    record = outputs.record()
    assert record["study"] == "mine"
    assert outputs.states() == ["done", "failed", "done"]
    assert "diverged" in record["cells"][1]["reason"]
    failure = result.out[result.out.index("2 of 3 runs done") :]
    assert "diverged" in failure and "optimizer.lr=1e+30" in failure

    runs = {run.name: run for run in read_all(outputs.folder)}
    ordered = [runs[cell["run"]] for cell in record["cells"]]
    assert [run.exit_code for run in ordered] == [0, 1, 0]
    factors = [(run.config["pe"], run.config["norm"], run.config["heads"]) for run in ordered]
    assert factors == [("sinusoidal", "pre", 4), ("learned", "post", 4), ("none", "sandwich", 4)]
    assert ordered[1].config["cfg"]["optimizer"]["lr"] == 1e30
    (report,) = read_all(outputs.folder, "report")
    for run in (*ordered, report):
        assert (run.group, run.tags) == (record["id"], ["mine"])  # the study's name
    statuses = [
        read_status(outputs.folder / "runs" / cell["run"] / "status.json") for cell in record["cells"]
    ]
    assert [status.state for status in statuses] == ["done", "failed", "done"]
    assert "diverged" in (statuses[1].reason or "")
    assert len({(status.owner or {})["pid"] for status in statuses}) == 3


def test_the_command_line_replaces_an_axis(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = jobs_in_this_process(monkeypatch)
    result = in_process(study, "train", "study=mine", "pe=none", "optimizer.lr=1e-3", "norm=pre", *BARE)
    assert result.code == 0, result.err
    kept = [
        sorted(word for word in job.argv if word.startswith(("pe=", "norm=", "model.heads=")))
        for job in started
    ]
    assert kept == [
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
        ("[{pe: [none, rotary], model.heads: 16}]", "1 of 2 cells cannot be"),
        ("[{'pe,norm': [[none, pre], [learned]]}]", "needs 2 values"),
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


def test_runs_of_another_number_of_steps_are_not_mixed_with_those_asked_for(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = jobs_in_this_process(monkeypatch)

    def sweep(pe: str, steps: int, *more: str) -> Result:
        return run("train", "-m", f"pe={pe}", *BARE, f"trainer.max_steps={steps}", *more)

    assert sweep("none", 4).code == 0 and len(started) == 1
    longer, shorter = sweep("none,rotary", 6), sweep("none,rotary", 2)
    assert (longer.code, shorter.code, len(started)) == (2, 2, 1)
    assert (
        "1 of 2 runs would not be comparable with those of 6 steps:\n  pe=none: laid out for 4" in longer.err
    )
    assert "with those of 2 steps:\n  pe=none: done with 4" in shorter.err
    assert sweep("none,rotary", 2, "run.label=short").code == 0 and len(started) == 3
    assert sweep("none,rotary", 6, "sweep.on_other_steps=keep").code == 0 and len(started) == 5


def test_control_runs_that_are_alike_may_all_be_extended_or_have_more(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = jobs_in_this_process(monkeypatch)
    for steps, jobs in ((4, 2), (6, 4), (2, 4)):
        result = run("train", "-m", "pe=none,rotary", *BARE, f"trainer.max_steps={steps}")
        assert result.code == 0 and len(started) == jobs
    assert "2 done already" in result.out


def test_what_cannot_be_is_left_out_if_asked(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = jobs_in_this_process(monkeypatch)
    axes = ["-m", "pe=none,rotary,lerned", "model.heads=16", *BARE]
    refused = run("train", *axes)
    assert refused.code == 2 and not started and not (tmp_path / "outputs").exists()
    result = run("train", *axes, "sweep.on_illegal=skip")
    assert result.code == 0
    assert len(started) == 1
    assert "1 of 1 runs done, 2 left out as impossible" in result.out
    assert "even key width" in result.out and "Did you mean learned?" in result.out
    assert len(Outputs(tmp_path / "outputs").record()["illegal"]) == 2
    nothing = run("train", "-m", "pe=rotary", "seed=0,1", "model.heads=16", *BARE, "sweep.on_illegal=skip")
    assert nothing.code == 2 and "even key width" in nothing.err


def test_no_further_job_starts_after_a_failure_if_asked(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = jobs_in_this_process(monkeypatch)
    monkeypatch.setenv(VARIABLE, "1:raise")
    result = run("train", "-m", "seed=0,1,2", FAULTY, *BARE, "sweep.on_fail=stop")
    assert result.code == 1
    assert [job.config["seed"] for job in started] == [0, 1]
    assert "1 of 3 runs done, 1 failed, 1 not started" in result.out
    assert Outputs(tmp_path / "outputs").states() == ["done", "failed", "waiting"]


def test_a_dry_run_says_what_would_run_and_starts_nothing(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = jobs_in_this_process(monkeypatch)
    result = run("train", "-m", "pe=none,learned", *BARE, "sweep.dry_run=true")
    assert result.code == 0 and not started
    lines = [line.split() for line in result.out.splitlines() if " pe=" in line]
    assert [line[-1] for line in lines] == ["pe=none", "pe=learned"]
    none, learned = (int(line[3].replace(",", "")) for line in lines)
    assert learned - none == 16 * compose(["pe=learned"])["pe"]["max_length"]  # width × rows of the table
    assert not (tmp_path / "outputs" / "runs").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sweep.workers=0"], "must be at least 1"),
        (["sweep.on_fail=maybe"], "must be one of continue, stop"),
        (["sweep.gpus=two"], "sweep.gpus=two"),
        (["sweep.gpus=64"], "sweep.gpus=64"),
        (["sweep.time_limit=0"], "must be above 0"),
        (["sweep.workers=1,2"], "must be the same for all cells"),
        (["outputs=a,b"], "must be the same for all cells"),
        (["hydra/launcher=slrum"], "hydra/launcher=slrum"),
        (["hydra/launcher=basic"], "is none of ours"),
        (["hydra.launcher.colour=red"], "colour"),
        (["trainer.devices=4096", "trainer.accelerator=gpu"], "trainer.devices=4096"),
    ],
)
def test_options_of_the_sweep_are_checked_before_anything_starts(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], says: str
) -> None:
    from lengthwise.sweeps import preflight

    monkeypatch.setattr(preflight, "inspect", lambda entries, launcher: [])
    result = run("train", "-m", "seed=0,1", *DISABLED, *words)
    assert result.code == 2, result.out
    assert says in result.err
    assert not (tmp_path / "outputs").exists()


def test_the_command_lists_sweeps_as_their_runs_are_now(
    run: Callable[..., Result], sweep: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = f"outputs={sweep[0] / 'outputs'}"
    name = Outputs(sweep[0] / "outputs")
    listed = in_process(sweep[0], "sweeps", outputs)
    assert listed.code == 0 and "pe-seed-" in listed.out
    one = in_process(sweep[0], "sweeps", "pe-seed", outputs)
    assert one.code == 0 and one.out.count("done") >= 2
    (victim,) = [path for path in name.runs() if "learned" in path.name and "-s0-" in path.name]
    (victim / "status.json").rename(victim / "status.away")
    try:
        assert "waiting" in in_process(sweep[0], "sweeps", "pe-seed", outputs).out
    finally:
        (victim / "status.away").rename(victim / "status.json")
    unknown = in_process(sweep[0], "sweeps", "nothing", outputs)
    assert unknown.code == 2 and "pe-seed-" in unknown.err


def test_sweeps_that_share_a_cell_run_it_once_and_measure_what_each_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = jobs_in_this_process(monkeypatch)
    outputs = f"outputs={tmp_path}"
    words = [["seed=0,1", *BARE, outputs], ["seed=1,2", *BARE, outputs, "evaluation.lengths=[4,12]"]]
    sweeps = [sweep_of(parse(["-m", *these])) for these in words]
    assert run_sweeps([sweep for sweep in sweeps if sweep is not None], InThisProcess(started)) == 0
    assert [job.config["seed"] for job in started] == [0, 1, 2, 1]
    assert [entry.state for sweep in sweeps if sweep for entry in sweep.entries] == ["done"] * 4
    (shared,) = [path for path in Outputs(tmp_path).runs() if "-s1-" in path.name]
    assert {row["length"] for row in read_table(shared / "length.csv")} == {4, 12}
