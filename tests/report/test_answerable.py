"""What a study states is held against its runs before they start, and told from what it states later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lengthwise.errors import ConfigError
from lengthwise.report.answerable import unanswerable
from lengthwise.report.study import part_of
from lengthwise.sweeping import parse, sweep_of
from lengthwise.sweeps.contrasts import Stated, stated_contrasts
from lengthwise.sweeps.record import Record, stated_at_start
from lengthwise.sweeps.sweep import Sweep
from support.commandline import in_process
from support.synthetic_runs import config_for, write_run

STUDY = """\
# @package _global_
study:
  name: mine
  question: Which?
  grids:
    - {pe: [rotary, alibi], seed: [0, 1]}
    - {pe: learned, "model.heads": [1, 2], seed: 0}
  contrasts:
    - {a: rotary, b: alibi, at_length: 10}
evaluation: {lengths: [4, 10, 20]}
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "experiments" / "mine"
    folder.mkdir(parents=True)
    (folder / "study.yaml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


WRONG = {
    "a slip": ("{a: rotari, b: alibi}", "contrasts[0].a='rotari': no variant is called that; there are"),
    "a space": ("{a: 'rotary ', b: alibi}", "a='rotary ': no variant is called that"),
    "several": (
        "{a: rotary, b: learned}",
        "b='learned' may be any of 'learned heads=1', 'learned heads=2'",
    ),
    "another length": (
        "{a: rotary, b: alibi, at_length: 100}",
        "at_length=100: not tested; evaluation.lengths has 4,10,20",
    ),
    "the longest, twice": (
        "{a: rotary, b: alibi}, {a: alibi, b: rotary, at_length: 20}",
        "contrasts[1] compares the same as study.contrasts[0]",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_answered_is_refused_before_a_run_starts(study: Path, what: str) -> None:
    contrasts, says = WRONG[what]
    result = in_process(
        study, "train", "study=mine", f"study.contrasts=[{contrasts}]", "sweep.dry_run=true", "wandb=disabled"
    )
    assert result.code == 2 and says in result.err
    assert not (study / "outputs").exists()


def test_what_can_be_answered_is_not_refused(study: Path) -> None:
    """… be it of other variants of the study than this command runs."""
    stated = (
        "study.contrasts=[{a: rotary, b: alibi}, {a: rotary, b: alibi, at_length: 10}, "
        "{a: 'learned heads=1', b: alibi}]"
    )
    for words in ([], [stated], ["pe=rotary"], ["evaluation.lengths=[4]"]):
        assert sweep_of(parse(["study=mine", *words])) is not None
    with pytest.raises(ConfigError, match="no variant is called that"):
        sweep_of(parse(["study=mine", "pe=rotary", "study.contrasts=[{a: rotary, b: albi}]"]))


def test_over_the_trained_lengths_and_at_one_of_them_are_two_questions() -> None:
    configs = [config_for(name, 0, evaluation__lengths=[4, 10]) for name in ("rotary", "t5")]
    study = {"contrasts": [{"a": "rotary", "b": "t5"}, {"a": "rotary", "b": "t5", "at_length": 10}]}
    assert unanswerable(study, configs) == {}
    assert unanswerable(study, [{**c, "evaluation": {"lengths": [4, 10, 20]}} for c in configs]) == {}
    beyond = {"contrasts": [study["contrasts"][0], {"a": "t5", "b": "rotary", "at_length": 20}]}
    (number,) = unanswerable(beyond, [{**c, "evaluation": {"lengths": [4, 10, 20]}} for c in configs])
    assert number == 1


def sweep(*words: str) -> Sweep:
    made = sweep_of(parse(["study=mine", *words]))
    assert made is not None
    return made


def open_record(*words: str) -> Record:
    made = sweep(*words)
    made.write(at_once=True)
    return made.record


def test_what_is_stated_when_a_sweep_starts_is_kept(study: Path) -> None:
    first = [{"a": "rotary", "b": "alibi", "at_length": 10}]
    assert open_record().contrasts == first
    assert open_record("study.contrasts=[{a: alibi, b: rotary}]").contrasts == first  # the same cells again
    assert open_record("study.contrasts=[{a: alibi, b: rotary}]", "seed=0,1,2").contrasts != first
    assert stated_at_start(study / "outputs", "mine") == first
    assert stated_at_start(study / "outputs", "other") is stated_at_start(study / "outputs", None) is None


def test_nothing_is_known_where_a_run_was_there_before(study: Path) -> None:
    folder = sweep().entries[0].cell.folder.path
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("{}")
    assert open_record().contrasts is None
    assert stated_at_start(study / "outputs", "mine") is None


def test_nothing_is_known_of_an_older_record(study: Path) -> None:
    path = open_record().path
    content = json.loads(path.read_text())
    del content["contrasts"]
    path.write_text(json.dumps(content))
    assert open_record().contrasts is None
    assert stated_at_start(study / "outputs", "mine") is None


def test_a_contrast_says_whether_it_was_stated_then() -> None:
    now = [{"a": "rotary", "b": "t5", "alike_within": 0.05}, {"a": "rotary", "b": "alibi"}]
    then = [{"a": "rotary", "b": "t5", "alike_within": 0.02}, {"a": "rotary", "b": "alibi"}]
    flags = [one.at_start for one in stated_contrasts({"contrasts": now, "stated_at_start": then})]
    assert flags == [False, True]  # another margin is another question
    assert [one.at_start for one in stated_contrasts({"contrasts": now, "stated_at_start": []})] == [
        False
    ] * 2
    assert [one.at_start for one in stated_contrasts({"contrasts": now})] == [None] * 2
    assert Stated("a", "b", at_start=True) == Stated("a", "b")


def test_the_report_knows_what_was_stated_then(study: Path) -> None:
    outputs = study / "outputs"
    then = open_record().contrasts
    write_run(outputs, "rotary", 0)
    assert part_of(outputs, study={"name": "mine"}).study["stated_at_start"] == then
    assert part_of(outputs).study["stated_at_start"] is None
