"""From run folders to frames: what is pooled, what is kept apart, what is named."""

from __future__ import annotations

import json
import shutil

import pytest

from lengthwise.errors import RunError
from lengthwise.report import build_report
from lengthwise.report.collect import collect
from support.synthetic_runs import LENGTHS, START, add_rows, with_columns, write_run


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
    "device": ({}, {"start": {"device": "NVIDIA H200"}}, "NVIDIA H200"),
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


PACKAGES = START["packages"]


@pytest.mark.parametrize(
    ("first", "what", "value"),
    [
        ({"packages": PACKAGES | {"torch": "2.9.0"}}, "torch version", "2.9.0 then 2.13.0"),
        ({"precision": "bf16-mixed"}, "precision", "bf16-mixed then 32-true"),
        ({"device": "NVIDIA H200"}, "device", "NVIDIA H200 then cpu"),
        ({"results_version": 0}, "results version", "0 then 1"),
        ({"device": None}, "device", "unknown then cpu"),
    ],
)
def test_what_a_run_was_resumed_under_does_not_hide_what_it_began_with(tmp_path, first, what, value):
    for seed in range(2):
        write_run(tmp_path, "rotary", seed)
        write_run(tmp_path, "rotary", seed + 2, start=first, later=({**{k: START[k] for k in first}},))
    collection = collect(tmp_path)
    assert sorted(labels(collection).values()) == [2, 2]
    assert any(f"{what} {value}" in group.label for group in collection.groups)
    assert value in collection.notes[0]


def test_starts_alike_are_one_context(tmp_path):
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "rotary", 1, later=({}, {}))
    assert labels(collect(tmp_path)) == {"rotary": 2}


def test_testing_a_run_on_another_device_leaves_it_in_its_group(tmp_path):
    tests = {"argv": ["evaluate.py", "run=x"], "precision": "bf16-mixed", "device": "NVIDIA H200"}
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "rotary", 1, later=(tests,))
    assert labels(collect(tmp_path)) == {"rotary": 2}
    write_run(tmp_path, "rotary", 2, later=({**tests, "argv": ["train.py"]},))  # the same, in training
    assert sorted(labels(collect(tmp_path)).values()) == [1, 2]


def test_a_device_that_no_record_tells_is_not_shown(tmp_path):
    for seed in range(2):
        write_run(tmp_path, "rotary", seed, start={"device": None})
    (group,) = collect(tmp_path).groups
    assert "device" not in dict(group.context) and len(group.runs) == 2


def test_different_variants_under_different_conditions_are_noted(tmp_path):
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "t5", 0, trainer__max_steps=600)
    collection = collect(tmp_path)
    # Side by side they would be taken for trained alike.
    assert labels(collection) == {"rotary, 300 steps": 1, "t5, 600 steps": 1}
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


STOP = {"_target_": "pytorch_lightning.callbacks.EarlyStopping", "monitor": "val/loss", "patience": 5}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([{"callbacks": {"early_stopping": STOP}}, {"data__validation_size": 128}],
         {"rotary", "rotary early_stopping", "rotary validation_size=128"}),
        ([{"callbacks": {"early_stopping": STOP}}], {"rotary early_stopping=none", "rotary early_stopping"}),
        ([{"callbacks": {"early_stopping": STOP}}, {"callbacks": {"early_stopping": STOP | {"patience": 9}}}],
         {"rotary early_stopping=none", "rotary patience=5", "rotary patience=9"}),
        ([{"callbacks": {"early_stopping": STOP}}, {"callbacks": {"early_stopping": None}}], None),
        ([{"schedule__steps": 200}], {"rotary schedule.steps=None", "rotary schedule.steps=200"}),
        ([{"trainer__validate_every": 10}], {"rotary validate_every=50", "rotary validate_every=10"}),
        ([{"readout": "mean"}], {"rotary readout=end", "rotary readout=mean"}),
        ([{"pe__eps": 1, "optimizer__eps": 2}, {"pe__eps": 2, "optimizer__eps": 1}], None),
        ([{"variant": "0123456789"}], None),  # what no option tells, as the source of a component
        ([{"pe___target_": "mine.Rotary"}], None),
    ],
)  # fmt: skip
def test_two_variants_never_have_the_same_label(tmp_path, others, expected):
    for number, changes in enumerate([{}, *others]):
        write_run(tmp_path, "rotary", 0, name=f"run-{number}", **changes)
    found = labels(collect(tmp_path))
    assert len(found) == len(others) + 1, found
    assert all(label.startswith("rotary") for label in found)
    assert expected is None or set(found) == expected


def test_what_leaves_results_alone_is_in_no_label(tmp_path):
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "rotary", 1, trainer__log_every=3, wandb__mode="online", evaluation__count=64)
    assert labels(collect(tmp_path)) == {"rotary": 2}


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
    add_rows(
        folder,
        {"checkpoint": "best", "length": 7, "token_accuracy": 0.1},
        {"evaluation_id": "12e5", "length": 100, "token_accuracy": 0.1},
        {"step": 100, "length": 70, "token_accuracy": 0.1},  # before the run was extended to 300
        {"split": "val", "length": 9, "token_accuracy": 0.1},
    )
    lengths = collect(tmp_path).lengths
    assert set(lengths["length"]) == set(LENGTHS)
    assert 0.1 not in set(lengths["token_accuracy"])


def test_a_run_that_was_not_tested_since_it_was_extended_is_named(tmp_path):
    write_run(tmp_path, "rotary", 0)
    folder = write_run(tmp_path, "rotary", 1)
    add_rows(folder, {"step": 600, "evaluation_id": "12e5"})
    collection = collect(tmp_path)
    assert set(collection.lengths["run"]) != {folder.name} and folder.name not in set(
        collection.lengths["run"]
    )
    assert "not tested since" in reasons(collection)[folder.name]


def test_a_table_without_its_columns_is_damaged(tmp_path):
    folder = write_run(tmp_path, "rotary", 0)
    text = (folder / "length.csv").read_text()
    (folder / "length.csv").write_text(text.replace("checkpoint,step,", "checkpoint,steps,", 1))
    assert "no column step" in reasons(collect(tmp_path))[folder.name]


def recorded(folder, lengths=LENGTHS, checkpoints=("last",)):
    """Record in the status of a run which lengths were tested."""
    status = json.loads((folder / "status.json").read_text())
    status["evaluations"] = {"trained": sorted(lengths)}
    status["results"] |= {f"{name}/token_accuracy/in_distribution": 1.0 for name in checkpoints}
    (folder / "status.json").write_text(json.dumps(status))
    return folder / "length.csv"


def test_a_table_that_has_all_that_was_tested_is_whole(tmp_path):
    recorded(write_run(tmp_path, "rotary", 0))
    # Tested later at more lengths, of one checkpoint alone: nothing is lacking of the other one.
    folder = write_run(tmp_path, "rotary", 1, evaluation__checkpoints=["last", "best"])
    add_rows(folder, *({"length": n, "checkpoint": "best"} for n in (*LENGTHS, 200)))
    recorded(folder, (*LENGTHS, 200), ("last", "best"))
    assert not collect(tmp_path).problems


CUT = {
    "half": (lambda lines: lines[: 1 + 3 * 4], "lengths 20,50,100 (checkpoint last)"),
    "the header alone": (lambda lines: lines[:1], "lengths 4,6,8,10,20,50,100 (checkpoint last)"),
    "empty": (lambda lines: [], "lengths 4,6,8,10,20,50,100 (checkpoint last)"),
}


@pytest.mark.parametrize("what", CUT)
def test_a_table_that_lost_tests_is_named_with_their_lengths(tmp_path, what):
    cut, words = CUT[what]
    write_run(tmp_path, "rotary", 1)
    folder = write_run(tmp_path, "rotary", 0)
    table = recorded(folder)
    lines = cut(table.read_text().splitlines())
    table.write_text("".join(f"{line}\n" for line in lines))
    said = reasons(collect(tmp_path))
    assert list(said) == [folder.name]
    assert (
        said[folder.name].startswith("damaged: length.csv lacks tests that were made")
        and words in said[folder.name]
    )


def test_a_table_without_a_row_is_named_without_a_record_too(tmp_path):
    folder = write_run(tmp_path, "rotary", 0)
    (folder / "length.csv").write_text("")
    assert reasons(collect(tmp_path)) == {folder.name: "damaged: length.csv is empty: this run has no test"}


@pytest.mark.parametrize(
    ("column", "value"),
    [("token_accuracy", "1.7"), ("exact_match", "-0.1"), ("n", "-5"), ("best_blind", "7")],
)
def test_a_figure_that_cannot_be_is_left_out_and_named(tmp_path, column, value):
    folder = write_run(tmp_path, "rotary", 0)
    with_columns(folder, **{column: value})
    collection = collect(tmp_path)
    assert (
        reasons(collection)
        .get(folder.name, "")
        .startswith(f"out of range: length.csv: {column} in 21 rows (")
    )
    assert collection.lengths[column].isna().all()
    build_report(tmp_path)
