"""A search to its end, and again: every trial told once, nothing run that is known."""

from __future__ import annotations

import csv
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lengthwise.errors import ConfigError, RunBusy
from lengthwise.runs import Claim, read_status
from lengthwise.sweeps.job import Job
from lengthwise.sweeps.search import LOCK, OptunaSearch
from lengthwise.sweeps.trials import Trials
from search.conftest import LR, PE, MakeSearch
from support.pretended_runs import Killed, Pretending, loss_of, pretend_run


def trials_of(search: OptunaSearch) -> Trials:
    return Trials(search.name, search.storage, search.space, search.method, search.objective.direction)


def params(search: OptunaSearch) -> list[dict[str, Any]]:
    return [trial.params for trial in trials_of(search).all]


def states(search: OptunaSearch) -> list[str]:
    return [trial.state.name for trial in trials_of(search).all]


def table(search: OptunaSearch) -> list[dict[str, str]]:
    with (search.folder / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def after(count: int, fate: str):
    """What becomes of jobs: the first `count` train, the others meet their fate."""
    seen: list[str] = []

    def goes_wrong(job: Job) -> str | None:
        if job.name not in seen:
            seen.append(job.name)
        return fate if seen.index(job.name) >= count else None

    return goes_wrong


# -- to its end ------------------------------------------------------------------------------------------------


def test_every_trial_is_told_what_its_run_says(make_search: MakeSearch, capsys: pytest.CaptureFixture[str]):
    search, launcher = make_search(LR, PE, trials=8), Pretending()
    assert search.run(launcher) == 0
    assert launcher.closed
    found = trials_of(search).all
    assert [trial.state.name for trial in found] == ["COMPLETE"] * 8
    assert len(set(launcher.started)) == 8  # none is drawn twice
    by_run = dict(zip(launcher.started, launcher.configs, strict=True))
    for trial in found:
        assert trial.value == loss_of(by_run[trial.user_attrs["run"]], 40)
    best = min(found, key=lambda trial: trial.value)
    assert table(search)[0] == {
        "trial": str(best.number),
        "state": "done",
        "val_loss": str(best.value),
        "optimizer.lr": search.space.point(best.params)[0].partition("=")[2],
        "pe": best.params["pe"],
        "run": best.user_attrs["run"],
    }
    printed = capsys.readouterr().out
    assert f"best: trial {best.number}, val_loss {best.value:.6g}" in printed
    command = next(line for line in printed.splitlines() if line.startswith("  python train.py"))
    assert command.endswith(" ".join(search.space.point(best.params)))
    assert "sweeper" not in command


def test_the_same_command_goes_on_and_counts_all_trials(make_search: MakeSearch):
    make_search(LR, PE, trials=3).run(Pretending())
    again = Pretending()
    assert make_search(LR, PE, trials=3).run(again) == 0
    assert again.started == []
    more = Pretending()
    search = make_search(LR, PE, trials=5)
    search.run(more)
    assert len(more.started) == 2
    assert states(search) == ["COMPLETE"] * 5


def test_wording_does_not_make_another_search_but_what_counts_does(make_search: MakeSearch):
    name = make_search(LR, PE, "seed=1", "norm=pre").name
    assert (
        make_search("norm=pre", PE, LR, "seed=1", "sweep.workers=2", trials=7, sampler="random").name == name
    )
    others = [
        make_search(LR, PE, "seed=2").name,
        make_search(LR, PE, "seed=1", objective="val_token_accuracy").name,
        make_search(LR, "pe=rotary,t5", "seed=1").name,
        make_search(LR, PE, "seed=1", "trainer.max_steps=50").name,
    ]
    assert len({name, *others}) == 5


@pytest.mark.parametrize("sampler", ["tpe", "random", "cmaes"])
def test_a_killed_search_goes_on_as_if_undisturbed(make_search: MakeSearch, sampler: str):
    space = [LR, "model.width=int(interval(16, 64))" if sampler == "cmaes" else PE, "model.heads=1"]
    undisturbed = make_search(*space, trials=12, sampler=sampler, seed=5, name="undisturbed")
    undisturbed.run(Pretending())
    for kept in (0, 2, 7):  # trials that a start brings to their end before it is killed
        with pytest.raises(Killed):
            make_search(*space, "run.label=other", trials=12, sampler=sampler, seed=5, name="killed").run(
                Pretending(goes_wrong=after(kept, "kills us"))
            )
    last = make_search(*space, "run.label=other", trials=12, sampler=sampler, seed=5, name="killed")
    assert last.run(Pretending()) == 0
    assert params(last) == params(undisturbed)
    assert states(last) == ["COMPLETE"] * 12


def test_another_seed_of_the_sampler_proposes_other_trials(make_search: MakeSearch):
    searches = [make_search(LR, trials=2, seed=seed, name=f"seed{seed}") for seed in (0, 1)]
    for search in searches:
        search.run(Pretending())
    assert params(searches[0]) != params(searches[1])


def test_a_run_that_ended_after_the_search_was_killed_is_told_without_running_it(make_search: MakeSearch):
    search = make_search(LR, trials=1)
    with pytest.raises(Killed):
        search.run(Pretending(goes_wrong=after(0, "kills us")))
    (left,) = trials_of(search).all
    pretend_run(search.cell(left.params).config)
    again = Pretending()
    assert make_search(LR, trials=1).run(again) == 0
    assert again.started == []
    assert states(search) == ["COMPLETE"]


def test_a_done_run_is_told_at_once(make_search: MakeSearch):
    search = make_search(PE, trials=2, sampler="grid")
    done = pretend_run(search.cell({"pe": "alibi"}).config)
    launcher = Pretending()
    assert search.run(launcher) == 0
    assert len(launcher.started) == 1
    assert done.name not in launcher.started
    assert states(search) == ["COMPLETE", "COMPLETE"]


def test_one_run_is_never_started_twice_at_once(make_search: MakeSearch):
    search, launcher = make_search(PE, trials=9, sampler="random"), Pretending(room=4)
    assert search.run(launcher) == 0  # Pretending itself asserts it
    assert len(launcher.started) == 2
    assert states(search) == ["COMPLETE"] * 9
    values: dict[str, set[float]] = {"rotary": set(), "alibi": set()}
    for trial in trials_of(search).all:
        values[trial.params["pe"]].add(trial.value)
    assert [len(found) for found in values.values()] == [1, 1]


@pytest.mark.parametrize(("room", "at_once", "most"), [(3, None, 3), (3, 2, 2), (2, 5, 2), (1, None, 1)])
def test_no_more_trials_at_once_than_there_is_room_for(
    make_search: MakeSearch, room: int, at_once: int | None, most: int
):
    search, launcher = make_search(LR, trials=7, at_once=at_once), Pretending(room=room)
    assert search.run(launcher) == 0
    assert launcher.most == most
    assert states(search) == ["COMPLETE"] * 7


def test_a_trial_knows_the_result_of_the_one_before(make_search: MakeSearch):
    """With one slot none is asked for before the last was told: it would have been drawn blindly."""
    search = make_search(LR, trials=4)
    search.run(Pretending())
    found = trials_of(search).all
    assert all(
        later.datetime_start >= earlier.datetime_complete for earlier, later in itertools.pairwise(found)
    )


def test_a_grid_ends_where_it_has_no_point_left(make_search: MakeSearch):
    search, launcher = make_search(PE, "model.heads=1,2", trials=50, sampler="grid"), Pretending()
    assert search.run(launcher) == 0
    assert params(search) == search.space.grid()
    assert len(launcher.started) == 4


# -- what goes wrong -------------------------------------------------------------------------------------------


def test_a_failed_run_is_named_and_tried_again(make_search: MakeSearch, capsys: pytest.CaptureFixture[str]):
    first = Pretending(goes_wrong=after(2, "fails"))
    search = make_search(LR, PE, trials=3)
    assert search.run(first) == 1
    assert states(search) == ["COMPLETE", "COMPLETE", "FAIL"]
    printed = capsys.readouterr().out
    assert "3 trials, 2 done, 0 pruned, 1 failed" in printed
    assert "ZeroDivisionError: on purpose" in printed
    again = Pretending()
    assert make_search(LR, PE, trials=3).run(again) == 0
    assert again.started == first.started[2:]
    assert states(search) == ["COMPLETE", "COMPLETE", "FAIL", "COMPLETE"]
    assert params(search)[2] == params(search)[3]
    assert "3 trials, 3 done, 0 pruned, 0 failed" in capsys.readouterr().out
    third = Pretending()
    assert (
        make_search(LR, PE, trials=4).run(third) == 0
    )  # the failed one does not count beside its repetition
    assert len(third.started) == 1


def test_on_fail_stop_starts_no_further_trial(make_search: MakeSearch):
    search, launcher = (
        make_search(LR, "sweep.on_fail=stop", trials=5),
        Pretending(goes_wrong=after(1, "fails")),
    )
    assert search.run(launcher) == 1
    assert len(launcher.started) == 2
    assert states(search) == ["COMPLETE", "FAIL"]


@pytest.mark.parametrize(("on_illegal", "code", "says"), [("skip", 0, "1 left out"), ("stop", 1, "1 failed")])
def test_a_combination_that_cannot_be(
    make_search: MakeSearch, on_illegal: str, code: int, says: str, capsys: pytest.CaptureFixture[str]
):
    options = {"trials": 2, "sampler": "grid"}
    search = make_search(PE, f"sweep.on_illegal={on_illegal}", **options)
    assert search.run(Pretending(goes_wrong=after(1, "is refused"))) == code
    assert says in capsys.readouterr().out
    again = Pretending()
    make_search(PE, f"sweep.on_illegal={on_illegal}", **options).run(again)
    assert len(again.started) == code  # what can never be is not tried again


def test_a_run_of_another_process_is_waited_for(make_search: MakeSearch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lengthwise.sweeps.search_loop._LOOK_AGAIN", 0.0)
    looks: list[str] = []

    def busy_at_first(job: Job) -> str | None:
        looks.append(job.name)
        if len(looks) > 3:
            return None
        if len(looks) == 3:
            pretend_run(job.config)  # the other process has done it
        return "is busy"

    search = make_search(LR, trials=1)
    assert search.run(Pretending(goes_wrong=busy_at_first)) == 0
    assert states(search) == ["COMPLETE"]


def test_ctrl_c_stops_the_jobs_and_keeps_the_trials(make_search: MakeSearch):
    launcher, search = Pretending(goes_wrong=after(1, "interrupts us")), make_search(LR, trials=3)
    with pytest.raises(KeyboardInterrupt):
        search.run(launcher)
    assert launcher.stopped and launcher.closed
    assert states(search) == ["COMPLETE", "RUNNING"]
    again = Pretending()
    assert make_search(LR, trials=3).run(again) == 0
    assert again.started[0] == launcher.started[1]
    assert states(search) == ["COMPLETE"] * 3


def test_a_run_laid_out_for_other_steps_is_no_trial(
    make_search: MakeSearch, capsys: pytest.CaptureFixture[str]
):
    search = make_search(PE, trials=2, sampler="grid")
    pretend_run(search.cell({"pe": "alibi"}).config, max_steps=80)
    assert search.run(Pretending()) == 1
    assert states(search) == ["COMPLETE", "FAIL"]
    assert "laid out for 80 steps" in capsys.readouterr().out


def test_a_search_is_at_work_once(make_search: MakeSearch):
    search = make_search(LR, trials=1)
    search.folder.mkdir(parents=True)
    launcher = Pretending()
    with Claim(search.folder / LOCK), pytest.raises(RunBusy):
        search.run(launcher)
    assert launcher.started == []


# -- pruning ---------------------------------------------------------------------------------------------------


@pytest.fixture
def looks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lengthwise.sweeps.search_loop._LOOK", 0.0)


@pytest.mark.usefixtures("looks_always")
@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_a_trial_that_falls_behind_is_stopped(make_search: MakeSearch, pruner: str):
    search, launcher = make_search(LR, PE, trials=16, pruner=pruner), Pretending()
    assert search.run(launcher) == 0
    found = trials_of(search).all
    pruned = [trial for trial in found if trial.state.name == "PRUNED"]
    complete = [trial for trial in found if trial.state.name == "COMPLETE"]
    assert pruned and len(pruned) + len(complete) == 16
    for trial in pruned:
        folder = search.cell(trial.params).folder
        status = read_status(folder.status_file)
        assert status.state == "interrupted"  # what no report pools
        assert f"pruned by {search.name}, trial {trial.number}" in (status.reason or "")
        assert status.steps < 40
        assert trial.last_step < 40
    assert trials_of(search).best().state.name == "COMPLETE"
    again = Pretending()
    make_search(LR, PE, trials=16, pruner=pruner).run(again)
    assert again.started == []


@pytest.mark.usefixtures("looks_always")
def test_without_a_pruner_none_is_stopped(make_search: MakeSearch):
    search = make_search(LR, PE, trials=16)
    search.run(Pretending())
    assert states(search) == ["COMPLETE"] * 16


@pytest.mark.usefixtures("looks_always")
def test_what_was_given_up_is_not_run_again_by_the_same_search(make_search: MakeSearch):
    """A space of two points, one bad: later trials that propose it again are told the same."""
    space = ["optimizer.lr=1e-3,1e-1", "pe=rotary"]
    search, launcher = make_search(*space, trials=20, pruner="median", sampler="random"), Pretending()
    search.run(launcher)
    bad = [trial for trial in trials_of(search).all if trial.params["optimizer.lr"] == "0.1"]
    assert len(launcher.started) == 2
    assert len(bad) > 2


@pytest.mark.usefixtures("looks_always")
def test_a_run_stopped_for_a_search_that_was_killed_is_told(make_search: MakeSearch):
    options = {"trials": 6, "pruner": "median", "seed": 1}
    search = make_search(LR, PE, **options)
    search.run(Pretending())
    while "PRUNED" not in states(search):
        options["trials"] += 1
        make_search(LR, PE, **options).run(Pretending())
    number = states(search).index("PRUNED")
    # the same, but killed between the end of that run and the word to Optuna
    other = make_search(LR, PE, "norm=post", **options)
    with pytest.raises(Killed):
        other.run(Pretending(goes_wrong=after(number, "kills us")))
    left = trials_of(other).all[number]
    folder = other.cell(left.params).folder
    status = read_status(folder.status_file)
    status.state, status.reason = "interrupted", f"pruned by {other.name}, trial {number}: at step 10"
    folder.write_status(status)
    again = Pretending()
    make_search(LR, PE, "norm=post", **options).run(again)
    assert states(other)[number] == "PRUNED"
    assert folder.name not in again.started


def test_a_request_of_another_search_is_not_obeyed(make_search: MakeSearch):
    search = make_search(PE, trials=1, sampler="grid")
    folder = search.cell({"pe": "rotary"}).folder
    folder.path.mkdir(parents=True)
    folder.stop_file.write_text("pruned by another search")
    assert search.run(Pretending()) == 0


# -- refused before anything is written ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "options", "says"),
    [
        ([PE], {"objective": "last/token_accuracy/extrapolation"}, "measured on the test"),
        ([PE], {"direction": "maximize"}, "worst"),
        ([PE], {"sampler": "nsga"}, "sampler=nsga: must be one of tpe, random, grid, cmaes"),
        ([PE], {"sampler": "cmaes"}, "pe is a list"),
        ([LR], {"sampler": "cmaes"}, "two numbers"),
        ([LR], {"sampler": "grid"}, "interval"),
        ([PE], {"pruner": "mean"}, "pruner=mean: must be one of none, median, hyperband"),
        ([PE, "trainer.validate_every=40"], {"pruner": "median"}, "validate more often"),
        ([PE], {"pruner": "median", "warmup_steps": 40}, "validate more often"),
        ([PE], {"trials": 0}, "trials=0"),
        ([PE], {"seed": -1}, "seed=-1"),
        ([PE], {"at_once": 0}, "at_once=0"),
        ([PE], {"name": "../up"}, "letters, digits"),
        (["pe=rotary,roatry"], {}, "pe=roatry: no such option"),
        (["optimizer.lrr=interval(0,1)"], {}, "there is no such key"),
        (["model.heads=interval(1,8)"], {}, r"int\(interval"),
        (["evaluation.count=64,128"], {}, "do not make another run"),
        (["trainer.max_steps=40,80"], {}, "do not make another run"),
    ],
)
def test_refused_before_anything_is_written(
    make_search: MakeSearch, tmp_path: Path, overrides: list[str], options: dict[str, Any], says: str
):
    with pytest.raises(ConfigError, match=says):
        make_search(*overrides, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_storage_that_cannot_be_opened(make_search: MakeSearch, tmp_path: Path):
    search = make_search(PE, storage=f"sqlite:///{tmp_path}/nowhere/search.db")
    launcher = Pretending()
    with pytest.raises(ConfigError, match=r"hydra\.sweeper\.storage=.*cannot be opened"):
        search.run(launcher)
    assert launcher.closed and launcher.started == []


def test_a_dry_run_writes_nothing(make_search: MakeSearch, tmp_path: Path):
    launcher = Pretending()
    assert make_search(PE, "sweep.dry_run=true").run(launcher) == 0
    assert launcher.started == [] and list(tmp_path.iterdir()) == []


def test_searching_needs_no_torch():
    script = (
        "import sys; from lengthwise.sweeps.search import OptunaSearch; from lengthwise.sweeps.trials import *;"
        "from lengthwise.sweeps.space import read_space;"
        "space = read_space(['a=1,2', 'b=interval(0,1)']); method = Method('tpe', 0, 'median', 0, 40, 10);"
        "trials = Trials('x', 'sqlite://', space, method);"
        "[trials.complete(trials.ask(), i) for i in range(12)];"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
