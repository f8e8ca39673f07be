"""From run folders to frames: what is pooled, what is kept apart, what is named."""

from __future__ import annotations

import csv
import json
import shutil

import pytest

from lengthwise.errors import RunError
from lengthwise.report.collect import collect
from support.synthetic_runs import LENGTHS, write_run


def labels(collection):
    return {group.label: len(group.runs) for group in collection.groups}


def reasons(collection):
    return {problem.run: f"{problem.state}: {problem.reason}" for problem in collection.problems}


def test_seeds_of_a_variant_are_one_group(tmp_path):
    for seed in range(3):
        write_run(tmp_path, "rotary", seed)
        write_run(tmp_path, "t5", seed)
    collection = collect(tmp_path)
    assert labels(collection) == {"rotary": 3, "t5": 3}
    assert not collection.problems and not collection.notes
    assert set(collection.lengths["length"]) == set(LENGTHS)
    assert len(collection.runs) == 6 and set(collection.runs["state"]) == {"done"}
    assert [setting.title for setting in collection.settings] == ["word_order, trained on lengths 4-10"]


APART = {
    "steps": ({"trainer__max_steps": 600}, {}, "600"),
    "precision": ({}, {"start": {"precision": "bf16-mixed"}}, "bf16-mixed"),
    "torch version": ({}, {"start": {"packages": {"torch": "2.9.0"}}}, "2.9.0"),
    "results version": ({}, {"start": {"results_version": 2}}, "2"),
}


@pytest.mark.parametrize("what", APART)
def test_runs_that_differ_in_it_are_never_pooled(tmp_path, what):
    changes, options, value = APART[what]
    for seed in range(2):
        write_run(tmp_path, "rotary", seed)
        write_run(tmp_path, "rotary", seed + 2, name=f"other-{seed}", **options, **changes)
    collection = collect(tmp_path)
    assert [len(group.runs) for group in collection.groups] == [2, 2]
    assert len({group.label for group in collection.groups}) == 2
    assert any(value in group.label for group in collection.groups)
    assert (
        len(collection.notes) == 1 and what in collection.notes[0] and "never pooled" in collection.notes[0]
    )


def test_different_variants_under_different_conditions_are_noted(tmp_path):
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "t5", 0, trainer__max_steps=600)
    collection = collect(tmp_path)
    assert labels(collection) == {"rotary": 1, "t5": 1}  # labels need no addition: the encodings differ
    assert "steps (300, 600)" in collection.notes[0]


def test_labels_name_what_differs_and_nothing_else(tmp_path):
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "rotary", 0, norm={"_target_": "lengthwise.nn.norm.PostNorm", "_partial_": True})
    write_run(tmp_path, "rotary", 0, pe__base=500.0)
    write_run(tmp_path, "t5", 0)
    found = set(labels(collect(tmp_path)))
    assert found == {"rotary", "rotary norm=post", "rotary base=500", "t5"}  # what most share goes unsaid


def test_where_no_choice_is_usual_all_are_named(tmp_path):
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "rotary", 0, norm={"_target_": "lengthwise.nn.norm.PostNorm", "_partial_": True})
    assert set(labels(collect(tmp_path))) == {"rotary norm=pre", "rotary norm=post"}


def test_tasks_and_trained_lengths_have_sections_of_their_own(tmp_path):
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "rotary", 0, data__lengths="4-20")
    write_run(tmp_path, "rotary", 0, task={"_target_": "lengthwise.tasks.retrieval.Last"})
    titles = [setting.title for setting in collect(tmp_path).settings]
    assert titles == [
        "last, trained on lengths 4-10", "word_order, trained on lengths 4-10", "word_order, trained on lengths 4-20",
    ]  # fmt: skip


def test_a_copied_folder_is_not_another_seed(tmp_path):
    original = write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "rotary", 1)
    shutil.copytree(original, original.with_name("zz-copy"))
    collection = collect(tmp_path)
    assert labels(collection) == {"rotary": 2}
    assert reasons(collection) == {
        "zz-copy": f"copy: same config and seed as {original.name}; not counted again"
    }


def test_whatever_is_wrong_is_named_and_stops_nothing(tmp_path):
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "t5", 0, name="failed", state="failed", reason="the loss was nan at step 120")
    write_run(tmp_path, "t5", 1, name="interrupted", state="interrupted", reason="Ctrl-C")
    write_run(tmp_path, "t5", 2, name="running", state="running")
    for name in (
        "no-config",
        "bad-config",
        "list-config",
        "bad-status",
        "newer",
        "bad-csv",
        "no-csv",
        "no-provenance",
    ):
        write_run(tmp_path, "alibi", len(name), name=name)
    runs = tmp_path / "runs"
    (runs / "no-config/config.yaml").unlink()
    (runs / "bad-config/config.yaml").write_bytes(b"task: {\xff")
    (runs / "list-config/config.yaml").write_text("- 1\n- 2\n")
    (runs / "bad-status/status.json").write_text('{"format": 1, "sta')
    (runs / "newer/status.json").write_text('{"format": 99, "state": "done"}')
    with (runs / "bad-csv/length.csv").open("r+") as stream:
        lines = stream.readlines()
        lines[3] = "last,300,test\n"
        stream.seek(0)
        stream.writelines(lines)
    (runs / "no-csv/length.csv").unlink()
    (runs / "no-provenance/provenance.json").unlink()
    (runs / "empty").mkdir()
    said = reasons(collect(tmp_path))
    assert said["failed"] == "failed: the loss was nan at step 120"
    assert said["interrupted"] == "interrupted: Ctrl-C"
    assert said["running"].startswith("interrupted: ")  # it has no living process
    for name, file in {
        "no-config": "config.yaml", "bad-config": "config.yaml", "list-config": "config.yaml",
        "bad-status": "status.json", "newer": "newer", "bad-csv": "length.csv", "no-csv": "length.csv",
        "no-provenance": "provenance.json", "empty": "status.json",
    }.items():  # fmt: skip
        assert said[name].startswith("damaged: ") and file in said[name], said[name]
    assert not any(name.startswith("word_order") for name in said)


def test_a_torn_last_line_is_no_damage(tmp_path):
    folder = write_run(tmp_path, "rotary", 0)
    with (folder / "length.csv").open("a") as stream:
        stream.write("last,300,test,par")
    assert not collect(tmp_path).problems


def test_named_runs_alone_and_the_planned_one_that_is_missing(tmp_path):
    folder = write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "t5", 0)
    collection = collect(tmp_path, runs=[folder.name, "never-started"])
    assert labels(collection) == {"rotary": 1}
    assert reasons(collection) == {"never-started": "missing: was planned, but there is no such folder"}


def test_no_run_at_all_is_an_error(tmp_path):
    with pytest.raises(RunError, match="no run"):
        collect(tmp_path)


def test_rows_of_other_weights_and_other_options_are_left_out(tmp_path):
    folder = write_run(tmp_path, "rotary", 0)
    with (folder / "length.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    base = {**rows[-1], "stratum": "all"}
    wrong = [
        {**base, "checkpoint": "best", "length": 7, "token_accuracy": 0.1},
        {**base, "evaluation_id": "12e5", "length": 100, "token_accuracy": 0.1},
        {**base, "step": 100, "length": 70, "token_accuracy": 0.1},  # before the run was extended to 300
        {**base, "split": "val", "length": 9, "token_accuracy": 0.1},
    ]
    with (folder / "length.csv").open("a", newline="") as stream:
        csv.DictWriter(stream, list(rows[0])).writerows(wrong)
    lengths = collect(tmp_path).lengths
    assert set(lengths["length"]) == set(LENGTHS)
    assert 0.1 not in set(lengths["token_accuracy"])
