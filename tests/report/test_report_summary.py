"""The summary in a terminal, and in something that is not one."""

from __future__ import annotations

import io

from rich.console import Console

from lengthwise.report import export_results, print_summary
from support.synthetic_runs import LENGTHS, add_rows, write_run


def printed(outputs, **options):
    console = Console(file=io.StringIO(), width=120, **options)
    print_summary(outputs, console=console)
    return console.file.getvalue()


def test_it_shows_lengths_strata_errors_and_findings(tmp_path):
    for seed in range(3):
        for encoding in ("none", "learned", "t5"):
            write_run(tmp_path, encoding, seed)
    write_run(tmp_path, "t5", 7, name="failed-[red]run", state="failed", reason="[bold]no[/]")
    text = printed(tmp_path)
    for words in (
        "word_order, trained on lengths 4-10",
        "or [low, high] where",
        "100 outside",
        "fp64 after",
        "holds, as declared",
        "provisional; a verdict needs 10",
        "failed-[red]run: failed: [bold]no[/]",
        "never trained",
    ):
        assert words in text, words
    assert "\x1b" not in text
    assert "\x1b" in printed(tmp_path, force_terminal=True)


def cells(outputs, label):
    """The second line of a variant's row: its intervals."""
    lines = printed(outputs).splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.strip().startswith(label)) + 1]


def test_one_seed_has_no_interval(tmp_path):
    write_run(tmp_path, "t5", 0)
    assert not cells(tmp_path, "t5").strip()
    write_run(tmp_path, "t5", 1)
    text = cells(tmp_path, "t5")
    assert text.count("±") + text.count("[") == 4


def rows_of(outputs, label):
    text = (export_results(outputs, outputs / "results") / "summary.md").read_text("utf-8")
    return next(line for line in text.splitlines() if line.startswith(f"| {label} ")).split(" | ")


def test_an_interval_that_is_cut_off_is_shown_by_its_ends(tmp_path):
    for seed, accuracy in enumerate((0.0, 1.0, 0.9)):
        folder = write_run(tmp_path, "t5", seed, lengths=(4,))
        add_rows(
            folder,
            {"length": 50, "token_accuracy": accuracy},  # the interval covers everything
            {"length": 60, "token_accuracy": 1.0},
            {"length": 70, "token_accuracy": 0.5},
        )
    _, _, everything, right, half = rows_of(tmp_path, "t5")
    assert everything == "63.3 [0, 100]"
    assert right.startswith("100.0 [99.") and right.endswith(", 100]")
    assert half.startswith("50.0 ± ")
    text = cells(tmp_path, "t5")
    assert "[0, 100]" in text and text.count(", 100]") >= 2 and "±" in text


def test_lengths_that_only_some_were_tested_at(tmp_path):
    for seed in range(3):
        write_run(tmp_path, "t5", seed)
        write_run(tmp_path, "none", seed, lengths=LENGTHS[:-1])
    write_run(tmp_path, "t5", 3, lengths=(*LENGTHS, 200))
    assert rows_of(tmp_path, "none")[-2:] == ["–", "– |"]
    assert rows_of(tmp_path, "t5")[-1].endswith("(1 seed) |") and "seed)" not in rows_of(tmp_path, "t5")[-2]
    assert "(1 seed)" in printed(tmp_path)
    summary = (tmp_path / "results" / "summary.md").read_text("utf-8")
    assert "n = 3 to 4 seeds" in summary and "–: not tested at that length" in summary


def test_every_length_tested_needs_no_word_on_gaps(tmp_path):
    for seed in range(2):
        write_run(tmp_path, "t5", seed)
    assert "–" not in "".join(rows_of(tmp_path, "t5"))
    assert "not tested" not in (tmp_path / "results" / "summary.md").read_text("utf-8")


def test_without_a_compared_length_beyond_training_there_is_no_table_of_evidence(tmp_path):
    write_run(tmp_path, "t5", 0, lengths=(4, 10, 20))
    assert "evidence lies" in " ".join(printed(tmp_path).split())
    write_run(tmp_path, "none", 0, lengths=(4, 10, 50))
    assert "evidence lies" not in " ".join(printed(tmp_path).split())
