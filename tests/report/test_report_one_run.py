"""What is printed after one run, and which rows of its table are current."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lengthwise.report.one_run import one_line, print_run
from lengthwise.runs import RunFolder, read_table, tested
from support.synthetic_runs import LENGTHS, add_rows, write_run


def printed(path, **options):
    console = Console(file=io.StringIO(), width=120)
    print_run(RunFolder(path), console=console, **options)
    return console.file.getvalue()


def shown_lengths(text):
    first = [line.strip(" │┃").split() for line in text.splitlines()]
    return [int(words[0]) for words in first if words and words[0].isdigit()]


@pytest.fixture
def extended(tmp_path):
    """Tested at lengths 4, 10 and 200 after 300 steps; after 600 at 20, and at 50 with other options."""
    folder = write_run(tmp_path, "rotary", 0, lengths=(4, 10))
    new = {"step": 600, "token_accuracy": 0.75}
    add_rows(
        folder,
        {"length": 200, "token_accuracy": 0.125},
        {"length": 20, **new},
        {"length": 50, "evaluation_id": "12e5", **new},
        {"length": 30, "checkpoint": "best", "step": 250},
    )
    return folder


def lengths_of(folder, *arguments):
    return {row["length"] for row in tested.current_rows(read_table(folder / "length.csv"), *arguments)}


def test_rows_of_earlier_weights_are_not_current(extended):
    assert lengths_of(extended, "last") == {20}
    assert lengths_of(extended, "last", "12e5") == {50}
    assert lengths_of(extended, "best") == {30}  # each checkpoint has weights of its own
    assert lengths_of(extended, "other") == set()


def test_other_options_tell_that_the_weights_are_newer(tmp_path):
    folder = write_run(tmp_path, "rotary", 0)
    assert lengths_of(folder, "last") == set(LENGTHS)
    add_rows(folder, {"step": 600, "evaluation_id": "12e5"})
    assert lengths_of(folder, "last") == set()


def test_lengths_of_earlier_weights_do_not_count_as_tested(extended):
    folder = RunFolder(extended)
    assert tested.tested_lengths(folder, "last", 1024) == {20}
    assert tested.tested_lengths(folder, "last", 1024, step=300) == {4, 10, 200}


def test_only_current_rows_are_printed(extended):
    text = printed(extended)
    assert shown_lengths(text) == [20] and "75.0" in text and "12.5" not in text


def test_the_checkpoint_that_was_asked_for_is_printed(extended):
    assert "checkpoint last" in printed(extended)
    text = printed(extended, checkpoint="best")
    assert "checkpoint best" in text and shown_lengths(text) == [30]
    assert "checkpoint first: not tested" in printed(extended, checkpoint="first")


def test_without_a_wish_it_is_the_first_that_has_rows(tmp_path):
    folder = write_run(tmp_path, "rotary", 0, evaluation__checkpoints=["best", "last"])
    assert "checkpoint last" in printed(folder)
    status = RunFolder(folder).status()
    status.results = {
        "last/token_accuracy/in_distribution": 0.25, "best/token_accuracy/in_distribution": 0.5,
        "last/exact_match/reach": 10, "best/exact_match/reach": 20,
    }  # fmt: skip
    RunFolder(folder).write_status(status)
    assert "trained lengths 25.0" in one_line(RunFolder(folder))
    assert printed(folder).count("up to): 10") == 1
    add_rows(folder, {"checkpoint": "best"})
    assert "checkpoint best" in printed(folder) and "up to): 20" in printed(folder)
