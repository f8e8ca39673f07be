"""Testing one run at more lengths changes none of the comparisons."""

from __future__ import annotations

import csv
import io

import pytest
from rich.console import Console

from lengthwise.report import build_report, export_results, print_summary
from lengthwise.report.analysis import analyse, scores_in_distribution
from lengthwise.report.collect import collect
from lengthwise.report.explorer import explorer
from lengthwise.report.findings import findings
from lengthwise.report.symmetry import length_note
from support.html_page import Page
from support.synthetic_runs import LENGTHS, TRAINED, add_rows, write_run

LONGER = (*LENGTHS, 200)


def section_of(outputs, study=None):
    (section,) = analyse(collect(outputs), study)
    return section


def said(section):
    return {finding.about: finding.text for finding in findings(section)}


@pytest.fixture
def folders(tmp_path):
    """Three seeds of three variants, all tested at the same lengths."""
    return {
        (encoding, seed): write_run(tmp_path, encoding, seed)
        for encoding in ("rotary", "t5", "learned")
        for seed in range(3)
    }


def test_one_run_tested_longer_changes_no_finding(tmp_path, folders):
    before = section_of(tmp_path)
    strata = [{"stratum": name} for name in ("all", "evidence_inside", "evidence_outside")]
    add_rows(
        folders["learned", 0],
        *({"length": 200, "token_accuracy": 1.0, "exact_match": 1.0, **stratum} for stratum in strata),
    )
    after = section_of(tmp_path)
    assert said(after) == said(before)
    assert {"Length 100", "Where the evidence lies, length 100"} <= said(after).keys()
    assert after.contrasts == before.contrasts
    assert after.longest_shared == 100 and after.lengths[-1] == 200
    assert any("length 200" in note and "compared at 100" in note for note in after.notes)
    assert not any("compared at" in note for note in before.notes)


def test_all_runs_tested_longer_are_compared_there(tmp_path, folders):
    for folder in folders.values():
        add_rows(folder, {"length": 200})
    section = section_of(tmp_path)
    assert section.longest_shared == 200 and "Length 200" in said(section)
    assert {contrast.at for contrast in section.contrasts} == {200}


def test_not_defined_counts_as_tested(tmp_path, folders):
    for (encoding, _), folder in folders.items():
        nothing = {"n": 0, "token_accuracy": "", "exact_match": "", "loss": "", "flags": "not_defined"}
        add_rows(folder, {"length": 200, **(nothing if encoding == "learned" else {})})
    section = section_of(tmp_path)
    assert section.longest_shared == 200
    assert {(contrast.a, contrast.b) for contrast in section.contrasts} <= {
        ("t5", "rotary"),
        ("rotary", "t5"),
    }


def test_one_run_tested_at_more_trained_lengths_leaves_the_others_in(tmp_path, folders):
    before = section_of(tmp_path)
    add_rows(folders["rotary", 0], {"length": 7, "token_accuracy": 0.2})
    after = section_of(tmp_path)
    for old, new in zip(before.groups, after.groups, strict=True):
        scores = scores_in_distribution(after, new)
        assert len(scores) == 3 and scores == scores_in_distribution(before, old)


def test_contrasts_of_a_study_default_to_the_shared_length(tmp_path, folders):
    add_rows(folders["t5", 0], {"length": 200})
    study = {"contrasts": [{"a": "rotary", "b": "t5"}, {"a": "rotary", "b": "learned", "at_length": 200}]}
    section = section_of(tmp_path, study)
    assert [contrast.at for contrast in section.contrasts] == [100]
    assert any("share no test at length 200" in note for note in section.notes)


def test_runs_with_no_length_in_common_are_shown_and_not_compared(tmp_path):
    for seed in range(2):
        write_run(tmp_path, "rotary", seed, lengths=(4, 50))
        write_run(tmp_path, "t5", seed, lengths=(8, 100))
    section = section_of(tmp_path)
    assert section.longest_shared is None and section.contrasts == []
    assert not any(about.startswith(("Length", "Fall", "Trained")) for about in said(section))
    assert any("nothing is compared" in note for note in section.notes)


def test_a_trained_length_that_is_tested_otherwise_counts_as_beyond(tmp_path, folders):
    """All are tested at 10, which they were trained on, on inputs of another kind: no mean of the trained has it."""
    before = section_of(tmp_path)
    for folder in folders.values():
        path = folder / "length.csv"
        lines = path.read_text().splitlines()
        head = lines[0].split(",")
        at, flags, stratum = (head.index(name) for name in ("length", "flags", "stratum"))
        for number, line in enumerate(lines[1:], start=1):
            cells = line.split(",")
            if cells[at] == "10" and cells[stratum] == "all":
                cells[flags] = "not_as_trained"
            lines[number] = ",".join(cells)
        path.write_text("\n".join(lines) + "\n")
    after = section_of(tmp_path)
    assert before.longest_trained == 10 and 10 in before.trained_lengths
    assert after.longest_trained < 10 and 10 not in after.trained_lengths
    (group, *_) = after.groups
    assert scores_in_distribution(after, group) != scores_in_distribution(before, group)
    (note,) = [note for note in after.notes if "drawn otherwise than in training" in note]
    assert "length 10" in note
    assert not any("drawn otherwise" in note for note in before.notes)


def test_what_a_mean_over_trained_lengths_is_over_is_said_wherever_it_stands(tmp_path):
    """One run was tested at 7 and 10 alone of those trained on: every mean is over 10 alone."""
    for seed in range(2):
        write_run(tmp_path, "t5", seed)
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "rotary", 1, lengths=(7, 10, 20, 50, 100))
    section = section_of(tmp_path)
    assert section.compared_lengths == [10]
    assert "Trained lengths tested in every run (10)" in said(section)
    assert {"Fall from trained lengths (10) to 100"} <= said(section).keys()
    (note,) = [note for note in section.notes if "trained length" in note]
    assert "at the trained lengths 4, 6, 7 and 8" in note and "over 10 alone" in note
    console = Console(file=io.StringIO(), width=160)
    print_summary(tmp_path, console=console)
    assert "trained (10)" in console.file.getvalue() and note in console.file.getvalue()
    results = export_results(tmp_path, tmp_path / "results")
    assert f"- {note}" in (results / "summary.md").read_text("utf-8")
    assert f"\\item {note}" in (results / "summary.tex").read_text("utf-8")
    collection = collect(tmp_path)
    data, _ = explorer(collection, analyse(collection))
    assert data["settings"][0]["over"] == "10"
    for run in data["runs"]:  # a run's own mean is over all that it was tested at
        own = collection.lengths[collection.lengths["run"] == run["run"]]
        own = own[(own["stratum"] == "all") & own["length"].isin(TRAINED)]
        assert run["figures"]["token_accuracy"][0] == pytest.approx(own["token_accuracy"].mean(), rel=1e-5)


def test_control_where_all_were_tested_alike_nothing_is_left_out(tmp_path, folders):
    section = section_of(tmp_path)
    assert section.compared_lengths == [n for n in LENGTHS if n in TRAINED]
    assert not any("trained length" in note for note in section.notes)
    every = (
        section_of(tmp_path / "all") if write_run(tmp_path / "all", "t5", 0, lengths=(*TRAINED, 20)) else None
    )
    assert "Trained lengths (4-10)" in said(every)


def test_symmetry_errors_of_different_lengths_are_not_joined_without_a_word(tmp_path, folders):
    assert length_note(section_of(tmp_path)) == ""
    path = folders["rotary", 1] / "symmetry.csv"
    with path.open(newline="") as stream:
        rows = [row | {"length": "100"} for row in csv.DictReader(stream)]
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    note = length_note(section_of(tmp_path))
    assert "(10,100)" in note and "the means of rotary join several" in note
    assert note in (export_results(tmp_path, tmp_path / "results") / "summary.md").read_text("utf-8")
    assert note in Page(build_report(tmp_path).read_text("utf-8")).text


def test_means_that_are_equal_are_no_lead(tmp_path):
    for encoding in ("none", "learned"):
        for seed in range(2):
            folder = write_run(tmp_path, encoding, seed)
            add_rows(folder, {"length": 100, "token_accuracy": 0.75, "exact_match": 0.75})
    text = said(section_of(tmp_path))["Length 100"]
    assert "has the same" in text and "lead" not in text


def test_how_many_seeds_do_not_resolve_a_fall(tmp_path):
    for seed in range(5):
        write_run(tmp_path, "none", seed)
        if seed < 3:
            write_run(tmp_path, "none", seed, model__heads=8)
    assert said(section_of(tmp_path))["Fall from trained lengths (4,6,8,10) to 100"] == (
        "no fall is resolved with 3 to 5 seeds."
    )
