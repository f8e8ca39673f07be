"""Bins of lengths, perplexity and overlap in the summary and on the page."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from lengthwise.report import build_report, print_summary
from lengthwise.report.analysis import analyse
from lengthwise.report.collect import collect
from lengthwise.report.one_run import print_run
from lengthwise.runs import RunFolder
from support.html_page import Page
from support.synthetic_runs import LENGTHS, add_rows, with_columns, write_run


@pytest.fixture
def outputs(tmp_path):
    """Two seeds with two bins each, of 40 % and 60 %, and 20 % alike; the second one has seen more of its test."""
    for seed, accuracy in ((0, 0.4), (1, 0.6)):
        folder = write_run(tmp_path, "rotary", seed)
        with_columns(folder, train_overlap="", overlap_is="", asked="1024")
        row = {"token_accuracy": accuracy, "exact_match": accuracy, "n": 2000, "n_tokens": 2000}
        add_rows(
            folder,
            {"stratum": "bin_101-150", "length": 150, **row, "exact_match": 0.2, "token_accuracy": 0.2},
            {"stratum": "bin_51-100", "length": 100, **row},
            {"stratum": "bin_1-50", "length": 50, **row, "train_overlap": accuracy, "overlap_is": "at_least"},
            {"length": 4, "train_overlap": 1.0, "overlap_is": "exact"},
        )
    return tmp_path


def summary(outputs):
    console = Console(file=io.StringIO(), width=160)
    print_summary(outputs, console=console)
    return console.file.getvalue()


def test_bins_are_shown_and_are_no_lengths(outputs):
    (section,) = analyse(collect(outputs))
    assert section.lengths == sorted(LENGTHS) == section.shared_lengths
    assert section.bin_names == ["bin_1-50", "bin_51-100", "bin_101-150"]
    (group,) = section.groups
    assert section.bins[group.key, "token_accuracy", "bin_51-100"].estimates[100].mean == pytest.approx(0.5)
    text = summary(outputs)
    assert "Over bins of lengths" in text and "101-150" in text
    page = Page(build_report(outputs).read_text("utf-8"))
    assert "Over bins of lengths" in page.text and "51-100" in page.text


def test_overlap_is_the_largest_and_says_when_it_is_a_lower_bound(outputs):
    (section,) = analyse(collect(outputs))
    (note,) = [note for note in section.notes if "training had seen" in note]
    assert note.endswith(": at least 60.0 % at 1-50, 100.0 % at 4.")
    assert note in " ".join(Page(build_report(outputs).read_text("utf-8")).text.split())
    console = Console(file=io.StringIO(), width=160)
    print_run(RunFolder(next((outputs / "runs").iterdir())), console=console)
    assert ">= " in console.file.getvalue() and "seen in training" in console.file.getvalue()


def test_a_record_from_before_has_none_of_it(tmp_path):
    folder = write_run(tmp_path, "rotary", 0)
    (section,) = analyse(collect(tmp_path))
    assert not (section.bins or section.perplexities)
    assert not any("seen" in note for note in section.notes)
    page = Page(build_report(tmp_path).read_text("utf-8")).text
    assert "Over bins" not in page and "Perplexity" not in page
    console = Console(file=io.StringIO(), width=160)
    print_run(RunFolder(folder), console=console)
    assert "perplexity" not in console.file.getvalue() and "seen in" not in console.file.getvalue()


def test_perplexity_of_a_text_is_shown_for_blocks_and_sliding_windows(tmp_path):
    for seed, many in ((0, 4), (1, 8)):
        folder = write_run(tmp_path, "alibi", seed)
        add_rows(
            folder,
            {"length": 100, "loss": math.log(many)},
            {"length": 100, "stratum": "sliding_window", "loss": math.log(many / 2)},
        )
    (section,) = analyse(collect(tmp_path))
    (group,) = section.groups
    assert section.perplexities[group.key, "all"][100].mean == pytest.approx(6)
    assert section.perplexities[group.key, "sliding_window"][100].mean == pytest.approx(3)
    text = summary(tmp_path)
    assert "Perplexity by context length" in text and "6.000" in text and "3.000" in text
    page = Page(build_report(tmp_path).read_text("utf-8")).text
    assert "Perplexity against context length" in page and "6.000" in page and "sliding window" in page
    console = Console(file=io.StringIO(), width=160)
    print_run(RunFolder(folder), console=console)
    assert "8.000" in console.file.getvalue() and "4.000" in console.file.getvalue()


def test_runs_on_one_text_in_two_places_are_one_setting(tmp_path):
    for seed, (file, digest) in enumerate((("/a", "b2-1"), ("/b", "b2-1"), ("/a", "b2-2"))):
        task = {"_target_": "lengthwise.tasks.text.Text", "file": file, "digest": digest}
        write_run(tmp_path, "alibi", seed, task=task)
    found = collect(tmp_path)
    assert sorted(len(group.runs) for group in found.groups) == [1, 2]
    assert len(found.settings) == 2 and not any("/a" in setting.title for setting in found.settings)
