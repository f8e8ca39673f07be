"""The summary in a terminal, and in something that is not one."""

from __future__ import annotations

import io

from rich.console import Console

from lengthwise.report import print_summary
from support.synthetic_runs import write_run


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
        " ±",
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


def test_one_seed_has_no_half_width(tmp_path):
    write_run(tmp_path, "t5", 0)
    row = next(line for line in printed(tmp_path).splitlines() if line.strip().startswith("t5"))
    assert "±" not in row
    write_run(tmp_path, "t5", 1)
    row = next(line for line in printed(tmp_path).splitlines() if line.strip().startswith("t5"))
    assert row.count("±") == 4
