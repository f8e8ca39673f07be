"""Published figures: what their data says, and that they stand beside our runs of the same protocol and no others."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
import yaml

from lengthwise.composing import compose
from lengthwise.report import analysis, export_results, words
from lengthwise.report.analysis import analyse
from lengthwise.report.collect import collect
from lengthwise.report.page import environment
from lengthwise.report.published import MARKS, published, read
from lengthwise.report.published.__main__ import markdown
from lengthwise.report.published.matching import fits
from lengthwise.runs import format_lengths
from support.html_page import Page
from support.synthetic_runs import add_rows, write_run

ROOT = Path(__file__).resolve().parents[2]
TASKS = {
    yaml.safe_load(path.read_text())["task"]["_target_"]: path.stem
    for path in sorted((ROOT / "conf" / "task").glob("*.yaml"), reverse=True)
}
DECODER = {
    "_target_": "lengthwise.nn.transformer.Decoder",
    "width": 64,
    "layers": 2,
    "heads": 4,
    "dropout": 0.0,
}
COPY = {"_target_": "lengthwise.tasks.strings.Copy", "symbols": 2}
HUANG = {"task": COPY, "model": DECODER, "data__lengths": list(range(1, 51))}


def test_the_page_is_up_to_date() -> None:
    """If not: ``python -m lengthwise.report.published > docs/published.md``."""
    assert (ROOT / "docs" / "published.md").read_text(encoding="utf-8") == markdown()


def test_every_figure_names_its_source() -> None:
    tables = published()
    assert sum(len(row.figures) for table in tables for row in table.rows) > 200
    for table in tables:
        assert table.paper and 2017 <= table.year <= 2026 and str(table.year) in table.paper
        assert table.where and table.mark in MARKS and table.protocol and table.trained
        assert (table.matches is None) == bool(table.unmatched)
        assert all(row.encoding and row.figures for row in table.rows)


@pytest.mark.parametrize(
    "table",
    [t for t in published() if t.matches],
    ids=lambda table: f"{table.year}-{table.task}".replace(" ", "_"),
)
def test_what_a_table_matches_is_a_run_that_can_be_made(table) -> None:
    match = table.matches
    options = [f"task.{key}={value}" for key, value in match.options.items()]
    config = compose(
        [
            f"task={TASKS[match.task]}",
            *options,
            f"model={match.model}",
            f"data.lengths=[{format_lengths(match.trained)}]",
        ]
    )
    assert fits(config, match) and tuple(config["data"]["lengths"]) == match.trained
    assert not fits(config | {"model": {"_target_": "lengthwise.nn.transformer.Encoder"}}, match)
    module, _, name = match.task.rpartition(".")
    task = getattr(importlib.import_module(module), name)
    known = {name for name in inspect.signature(task).parameters if name not in ("args", "kwargs")}
    assert set(match.options) <= known
    pe = {row.pe for row in table.rows if row.pe}
    assert pe <= {path.stem for path in (ROOT / "conf" / "pe").glob("*.yaml")}


def write_huang(outputs, **changes):
    """Two encodings, three seeds each, tested in two bins, with an exact match of 40 to 60 %."""
    for encoding in ("none", "learned"):
        for seed in range(3):
            folder = write_run(outputs, encoding, seed, **(HUANG | changes))
            right = {"exact_match": 0.4 + 0.1 * seed, "token_accuracy": 0.9, "n": 2000, "n_tokens": 9000}
            add_rows(
                folder,
                {"stratum": "bin_51-100", "length": 100, **right},
                {"stratum": "bin_151-200", "length": 200, **right},
            )
    return outputs


def test_a_table_stands_beside_runs_of_the_same_protocol(tmp_path) -> None:
    (section,) = analyse(collect(write_huang(tmp_path)))
    (beside,) = section.published
    assert beside.table.task == "repeat_copy" and "Huang" in beside.table.paper
    assert beside.columns == ("51-100",)  # the other bins were not tested, or are not published
    assert [row.label for row in beside.ours] == ["none", "learned"]
    assert all(row.cells[0].mean == pytest.approx(0.5) and row.n == 3 for row in beside.ours)
    figures = {reference.row.encoding: reference.cells[0].value for reference in beside.references}
    assert figures == {"APE": 25.55, "NoPE": 28.01}
    said = {reference.row.encoding: reference.differs for reference in beside.references}
    assert "layers 4 (here 2)" in said["NoPE"] and "5 runs (here 3)" in said["NoPE"]
    assert "positions offset (here sequential)" in said["APE"]
    assert not any("heads" in words for words in said["NoPE"])  # 4 there as here


def test_what_a_publication_says_of_model_and_training_is_compared(tmp_path) -> None:
    (section,) = analyse(collect(write_huang(tmp_path)))
    said = {reference.row.encoding: reference.differs for reference in section.published[0].references}
    assert {"activation gelu (here relu)", "schedule linear (here cosine)"} <= set(said["NoPE"])
    assert not any(words.startswith(("norm", "optimizer", "not said")) for words in said["NoPE"])
    post = {"norm": {"_target_": "lengthwise.nn.norm.PostNorm", "_partial_": True}}
    (section,) = analyse(collect(write_huang(tmp_path / "post", **post)))
    assert all("norm pre (here post)" in reference.differs for reference in section.published[0].references)


def test_what_a_publication_does_not_say_is_named(tmp_path) -> None:
    task = {"_target_": "lengthwise.tasks.recall.InductionHeads", "symbols": 16}
    write_run(tmp_path, "rotary", 0, lengths=(256, 512), task=task, model=DECODER, data__lengths=[256])
    (section,) = analyse(collect(tmp_path))
    (rotary,) = [one for one in section.published[0].references if one.row.encoding == "RoPE"]
    assert "not said: norm, activation, dropout, weight decay, positions" in rotary.differs


def test_a_row_has_its_tables_setup_unless_it_says_otherwise() -> None:
    setups = {(t.year, t.task, row.encoding): row.setup for t in published() for row in t.rows}
    assert setups[2023, "copy cmc", "ALiBi"]["steps"] == 40000
    assert setups[2025, "sort", "APE with the authors' regulariser (1e-4)"] == {}
    assert setups[2023, "SCAN mdlen_tr25_ts48", "NoPE"] == {}


def test_it_is_on_the_page_and_in_the_summary(tmp_path) -> None:
    outputs = write_huang(tmp_path)
    (section,) = analyse(collect(outputs))
    template = environment().get_template("published.html.j2")
    page = Page(
        template.render(section=section, analysis=analysis, words=words, verdict_seeds=10, view={})
    ).text
    summary = (export_results(outputs, outputs / "results") / "summary.md").read_text("utf-8")
    for text in (page, summary):
        for shown in (
            "28.01",
            "Huang et al. 2025",
            "mean over 5 runs",
            "layers 4 (here 2)",
            "51-100",
            "published",
        ):
            assert shown.lower() in text.lower(), shown
    assert "| NoPE (published) | 28.01 | 5 |" in summary and "| none | 50.0 ± " in summary


OTHERS = {
    "another option of the task": {"task": COPY | {"symbols": 3}},
    "an option that is not published": {"task": COPY | {"shuffled": True}},
    "another task": {"task": {"_target_": "lengthwise.tasks.strings.Reverse", "symbols": 2}},
    "another task of the same name": {"task": {"_target_": "mine.Copy", "symbols": 2}},
    "shorter training": {"data__lengths": list(range(1, 41))},
    "gaps in training": {"data__lengths": list(range(1, 51, 7))},
    "an encoder": {"model": DECODER | {"_target_": "lengthwise.nn.transformer.Encoder"}},
}


@pytest.mark.parametrize("other", OTHERS)
def test_nothing_stands_beside_another_protocol(tmp_path, other) -> None:
    (section,) = analyse(collect(write_huang(tmp_path, **OTHERS[other])))
    assert section.published == []


def test_nothing_stands_beside_runs_that_were_tested_elsewhere(tmp_path) -> None:
    for seed in range(2):
        write_run(tmp_path, "none", seed, **HUANG)
    (section,) = analyse(collect(tmp_path))
    assert section.published == []


def test_an_equivariance_study_shows_no_published_accuracy(tmp_path) -> None:
    from lengthwise.report.study import part_of

    (section,) = part_of(write_huang(tmp_path), None, {"shows": ["equivariance"]}).sections
    assert section.published == []


def test_a_mean_over_lengths_needs_every_one_of_them(tmp_path) -> None:
    task = {"_target_": "lengthwise.tasks.repetition.Replace", "symbols": 100}
    changes = {"task": task, "model": DECODER, "data__lengths": list(range(6, 25))}
    folders = [
        write_run(tmp_path, "alibi", seed, lengths=tuple(range(25, 44)), **changes) for seed in range(2)
    ]
    (section,) = analyse(collect(tmp_path))
    assert section.published == []
    for folder in folders:
        add_rows(folder, {"length": 44, "exact_match": 0.0})
    (section,) = analyse(collect(tmp_path))
    (beside,) = section.published
    assert beside.columns == ("21-40",)  # as published, where 4 symbols fewer are counted
    (group,) = section.groups
    curve = section.curve(group, measure="exact_match")
    mean = sum(at[n] for at in curve.seeds.values() for n in range(25, 45)) / 40
    assert beside.ours[0].cells[0].mean == pytest.approx(mean)
    assert [r.cells[0].spread for r in beside.references if r.row.pe == "alibi"] == [2.6]


GOOD = """
paper: Somebody 2020
tables:
  - where: Table 1
    mark: P
    task: copy
    measure: exact_match
    unit: "%"
    seeds: 3
    over: mean
    trained: 1 to 50
    protocol: some
    unmatched: never
    rows: [{encoding: NoPE, figures: {51-100: 90.5}}]
year: 2020
"""

BAD = {
    "no source": ("where: Table 1", "where: ''", "where is empty"),
    "no mark": ("mark: P", "mark: M", "mark 'M' is none of P, Rw"),
    "a figure that is no percentage": ("90.5", "190.5", "190.5 at 51-100 is no percentage"),
    "no reason": ("    unmatched: never\n", "", "say what it matches, or why nothing"),
    "a misspelt key": ("seeds: 3", "seed: 3", "unknown key seed"),
    "nothing said of the seeds": ("    seeds: 3\n", "", "lacks 'seeds'"),
    "no rows": ("[{encoding: NoPE, figures: {51-100: 90.5}}]", "[]", "no rows"),
    "an unknown mean": ("over: mean", "over: median", "over 'median'"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_data_is_named(what) -> None:
    old, new, said = BAD[what]
    assert len(read(GOOD, "good.yaml")) == 1 and GOOD.count(old) == 1
    with pytest.raises(ValueError, match=rf"bad\.yaml, table 1 \(copy\): .*{said}"):
        read(GOOD.replace(old, new), "bad.yaml")
