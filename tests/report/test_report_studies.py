"""Several studies on one page: each with its own question, runs, labels and figures."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from lengthwise.errors import ConfigError, RunError
from lengthwise.report import build_report, export_results, print_summary
from lengthwise.report.collect import collect
from lengthwise.report.findings import findings
from lengthwise.report.study import named_choices, part_of
from support.html_page import Page
from support.synthetic_runs import write_run

POST = {"_target_": "lengthwise.nn.norm.PostNorm", "_partial_": True}
TRAINED = (4, 7, 10)
LENGTH_STUDY = {
    "name": "far",
    "question": "How far?",
    "grids": [{"pe": ["rotary", "learned"], "seed": [0, 1, 2]}],
    "shows": ["accuracy"],
}
SYMMETRY_STUDY = {
    "name": "kept",
    "question": "What is kept?",
    "grids": [{"pe": ["rotary", "none"]}],
    "shows": ["equivariance"],
}
NORM_STUDY = {
    "name": "norm_placement",
    "question": "Which norm?",
    "shows": ["accuracy"],
    "grids": [
        {"norm": "post", "schedule.warmup_steps": [0, 100], "seed": [0, 1, 2]},
        {"norm": "pre", "schedule.warmup_steps": 0, "seed": [0, 1, 2]},
    ],
    "contrasts": [
        {"a": "learned norm=post warmup_steps=100", "b": "learned norm=post warmup_steps=0"},
        {"a": "learned norm=pre warmup_steps=0", "b": "learned norm=post warmup_steps=100"},
    ],
}
NORM_LABELS = [
    "learned norm=post warmup_steps=0",
    "learned norm=post warmup_steps=100",
    "learned norm=pre warmup_steps=0",
]


def write_norm_study(outputs):
    runs = []
    for seed in range(3):
        for changes, shift in (
            ({"norm": POST, "schedule__warmup_steps": 0}, -0.6),
            ({"norm": POST, "schedule__warmup_steps": 100}, 0.0),
            ({"schedule__warmup_steps": 0}, 0.0),
        ):
            folder = write_run(
                outputs,
                "learned",
                seed,
                lengths=TRAINED,
                shift=shift,
                model__layers=8,
                readout="front",
                **changes,
            )
            runs.append(folder.name)
    return runs


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    return tmp_path_factory.mktemp("outputs")


@pytest.fixture(scope="module")
def studies(outputs):
    names = {
        e: [write_run(outputs, e, seed).name for seed in range(3)] for e in ("rotary", "learned", "none")
    }
    return [
        (LENGTH_STUDY, names["rotary"] + names["learned"]),
        (SYMMETRY_STUDY, names["rotary"] + names["none"]),
        (NORM_STUDY, write_norm_study(outputs)),
    ]


@pytest.fixture(scope="module")
def page(outputs, studies):
    return Page(build_report(outputs, studies=studies, title="All of them").read_text("utf-8"))


def parts(page):
    """The page's text, study by study."""
    _, far, kept, norm = re.split(r"Far How far\?|Kept What is kept\?|Norm placement Which norm\?", page.text)
    return far, kept, norm.partition("All runs")[0]


def test_each_study_is_a_part_with_its_question_and_its_own_runs(page):
    far, kept, norm = parts(page)
    assert "Accuracy against length" in far and "equivariance" not in far.lower()
    assert "rotary" in far and "learned" in far and "none" not in far
    assert "Permutation equivariance" in kept and "kept by none up to rounding" in kept
    assert "Accuracy against length" not in kept and "learned" not in kept
    assert all(label in norm for label in NORM_LABELS)
    assert "provisional: 3 seeds" in far and "6 runs" in far and "9 runs" in norm


def test_a_run_of_two_studies_is_listed_once(page, studies):
    shared = set(studies[0][1]) & set(studies[1][1])
    assert len(shared) == 3
    listed = page.text.rpartition("All runs")[2]
    assert all(listed.count(run) == 1 for _, runs in studies for run in runs)
    assert "18 done" in page.text


def test_what_was_tested_at_trained_lengths_alone_is_a_table_of_seeds(page, outputs, studies):
    norm = parts(page)[2]
    assert "Accuracy at the trained lengths" in norm and "Accuracy against length" not in norm
    section = part_of(outputs, studies[2][1], NORM_STUDY).sections[0]
    for group in section.groups:
        for points in section.curve(group).seeds.values():
            assert f"{100 * sum(points.values()) / len(points):.1f}" in norm
    assert sum(tag == "svg" and a.get("class") == "strip" for tag, a in page.elements) == 3


def test_contrasts_over_the_trained_lengths_are_sentences(outputs, studies):
    (section,) = part_of(outputs, studies[2][1], NORM_STUDY).sections
    assert [(c.a, c.b, c.at) for c in section.contrasts] == [
        (NORM_LABELS[1], NORM_LABELS[0], None),
        (NORM_LABELS[2], NORM_LABELS[1], None),
    ]
    assert not section.notes
    (said,) = [f.text for f in findings(section) if f.about.startswith("Compared over the trained lengths")]
    assert f"{NORM_LABELS[1]} is above {NORM_LABELS[0]}" in said and "provisional" in said
    assert f"{NORM_LABELS[2]} − {NORM_LABELS[1]} is not resolved with 3 seeds" in said


def test_control_without_the_study_labels_leave_out_what_most_share(outputs, studies):
    runs = studies[2][1]
    assert {g.label for g in collect(outputs, runs=runs, named=named_choices(NORM_STUDY)).groups} == set(
        NORM_LABELS
    )
    assert "learned" in {g.label for g in collect(outputs, runs=runs).groups}


def test_where_the_encoding_is_an_axis_it_is_the_label():
    assert named_choices(LENGTH_STUDY) == []
    assert named_choices(NORM_STUDY) == ["norm", "schedule.warmup_steps"]
    assert named_choices({"grids": [{"model": "decoder", "seed": [0, 1]}, {"model": "encoder"}]}) == ["model"]
    assert named_choices({"grids": [{"model.heads": 2}, {"model.heads": 2, "norm": "post"}]}) == ["norm"]
    together = {"norm,schedule.warmup_steps": [["pre", 0], ["post", 100]], "model.layers": 8, "seed": [0, 1]}
    assert named_choices({"grids": [together]}) == ["norm", "schedule.warmup_steps"]
    assert named_choices({}) == []


def test_labels_go_by_the_size_of_their_numbers(tmp_path):
    for heads in (16, 8, 1):
        write_run(tmp_path, "learned", 0, model__heads=heads)
    found = [group.label for group in collect(tmp_path, named=["model.heads"]).groups]
    assert found == ["learned heads=1", "learned heads=8", "learned heads=16"]


def test_the_terminal_says_the_same(outputs, studies):
    console = Console(file=io.StringIO(), width=160)
    print_summary(outputs, studies=studies, console=console)
    text = console.file.getvalue()
    assert [text.index(q) for q in ("How far?", "What is kept?", "Which norm?")] == sorted(
        text.index(q) for q in ("How far?", "What is kept?", "Which norm?")
    )
    norm = text.partition("Which norm?")[2]
    assert "each seed" in norm and "over the tested lengths 4,7,10" in norm
    assert text.partition("What is kept?")[0].count("Error under") == 0


def test_the_exported_table_has_each_seed(outputs, studies, tmp_path):
    text = (export_results(outputs, tmp_path, runs=studies[2][1], study=NORM_STUDY) / "summary.md").read_text(
        "utf-8"
    )
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {NORM_LABELS[0]} |")]
    assert re.fullmatch(r"\| .+ \| \d+\.\d.*\| \d+\.\d, \d+\.\d, \d+\.\d \|", row)
    assert "| variant | accuracy | each seed |" in text
    shown = export_results(outputs, tmp_path / "far", runs=studies[0][1], study=LENGTH_STUDY) / "summary.md"
    assert "Error under" not in shown.read_text("utf-8")


def test_a_study_without_a_finished_run_is_named(outputs, studies, tmp_path):
    for study, runs in ((LENGTH_STUDY, ["rotary-0"]), (SYMMETRY_STUDY, ["none-0"])):
        write_run(
            tmp_path,
            runs[0].partition("-")[0],
            0,
            name=runs[0],
            state="done" if study is LENGTH_STUDY else "failed",
        )
    page = Page(
        build_report(
            tmp_path, studies=[(LENGTH_STUDY, ["rotary-0"]), (SYMMETRY_STUDY, ["none-0"])]
        ).read_text("utf-8")
    )
    assert "Kept: no run is finished yet." in page.text and "Far: no run" not in page.text


@pytest.mark.parametrize("shows", ["accuracy", [], ["accurcy"]])
def test_something_to_show_that_does_not_exist_is_refused(outputs, shows):
    with pytest.raises(ConfigError, match=r"study\.shows=.*accuracy and equivariance"):
        part_of(outputs, None, {"shows": shows})


def test_no_run_at_all_is_an_error(tmp_path):
    with pytest.raises(RunError, match="no run"):
        build_report(tmp_path, studies=[])
