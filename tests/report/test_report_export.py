"""Tables and figures that are written: complete, readable by other programs, the same bytes from the same runs."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from importlib import resources
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from lengthwise.errors import ConfigError, LengthwiseError
from lengthwise.report import export_results
from lengthwise.report.latex import escape
from lengthwise.report.plots import COLOURS, drawn
from lengthwise.report.sparse import kept_lengths
from lengthwise.report.study import part_of
from support.synthetic_runs import LENGTHS, add_rows, write_run

HOSTILE = r"50%_#1 {a}\b & $x$ ~^ <i> | [0] é"
STUDY = {"contrasts": [{"a": "rotary", "b": "t5", "at_length": 100, "alike_within": 0.05}]}
NORM = {"_target_": "lengthwise.nn.norm.PostNorm", "_partial_": True}


def write_runs(outputs):
    for seed in range(3):
        for encoding in ("none", "rotary", "t5"):
            write_run(outputs, encoding, seed)
        write_run(outputs, "learned", seed, run__label=HOSTILE)
        for norm in ({}, {"norm": NORM}):  # another setting, tested at trained lengths alone
            write_run(outputs, "learned", seed, lengths=(4, 5), data__lengths=[4, 5], **norm)
    return outputs


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("outputs"))


@pytest.fixture(scope="module")
def results(outputs, tmp_path_factory):
    return export_results(outputs, tmp_path_factory.mktemp("results"), study=STUDY)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_summary_says_where_runs_have_different_steps(tmp_path):
    write_run(tmp_path / "outputs", "rotary", 0)
    write_run(tmp_path / "outputs", "t5", 0, trainer__max_steps=600)
    folder = export_results(tmp_path / "outputs", tmp_path / "results")
    text = (folder / "summary.md").read_text("utf-8")
    assert "differ in steps (300, 600)" in text and "| t5, 600 steps |" in text
    assert "t5, 600 steps" in (folder / "summary.tex").read_text("utf-8")


def test_what_is_written(results):
    names = set(contents(results))
    assert {
        "runs.csv", "length.csv", "symmetry.csv", "accuracy.csv", "contrasts.csv", "summary.md", "summary.tex",
    } <= names  # fmt: skip
    figures = {name for name in names if name.startswith("figures/")}
    kinds = ("accuracy.png", "accuracy.svg", "equivariance.png", "equivariance.svg")
    assert figures == {
        f"figures/word-order-trained-on-lengths-{lengths}-{kind}"
        for lengths in ("4-10", "4-5")
        for kind in kinds
    }


def test_another_process_gives_the_same_bytes_and_imports_no_more_than_it_needs(outputs, results, tmp_path):
    code = (
        "import sys; from lengthwise.report import build_report, print_summary, export_results; "
        f"print_summary({str(outputs)!r}); assert 'matplotlib' not in sys.modules; "
        f"export_results({str(outputs)!r}, {str(tmp_path)!r}, study={STUDY!r}); "
        "assert 'matplotlib' in sys.modules and not {'torch', 'matplotlib.pyplot'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={"PYTHONHASHSEED": "7"}
    )
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path) == contents(results)


def test_the_same_runs_are_drawn_the_same_and_others_otherwise(tmp_path):
    write_run(tmp_path, "t5", 0)
    before = drawn(part_of(tmp_path))
    assert drawn(part_of(tmp_path)) == before
    write_run(tmp_path, "t5", 1)
    after = drawn(part_of(tmp_path))
    assert before.keys() == after.keys() and all(before[name] != after[name] for name in before)


def pixels(content: bytes):
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def test_a_png_has_its_size_and_shows_every_variant(results):
    for path in (results / "figures").glob("*.png"):
        image = pixels(path.read_bytes())
        assert image.shape[1] == 1344 and 300 <= image.shape[0] <= 700  # 8.4 inches at 160 dots an inch
        assert (image == 255).all(-1).mean() > 0.5
    image = pixels((results / "figures" / "word-order-trained-on-lengths-4-10-accuracy.png").read_bytes())
    for colour in COLOURS[:4]:  # none, then three encodings
        rgb = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
        assert (np.abs(image - np.array(rgb)).max(-1) <= 2).sum() > 200


def texts(svg: bytes) -> list[str]:
    return [
        "".join(node.itertext())
        for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_an_svg_says_what_it_shows_as_text(results):
    shown = texts((results / "figures" / "word-order-trained-on-lengths-4-10-accuracy.svg").read_bytes())
    for label in (
        "none",
        "rotary",
        "t5",
        f"learned label={HOSTILE}",
        "trained lengths",
        "length, input symbols",
    ):
        assert label in shown
    assert any(text.startswith("baseline: ") for text in shown)
    assert {str(LENGTHS[0]), str(LENGTHS[-1])} <= set(shown)
    seeds = texts((results / "figures" / "word-order-trained-on-lengths-4-5-accuracy.svg").read_bytes())
    assert {"learned norm=pre", "learned norm=post"} <= set(seeds)
    symmetry = texts(
        (results / "figures" / "word-order-trained-on-lengths-4-10-equivariance.svg").read_bytes()
    )
    assert {"none", "fp32 before training", "fp64 after training"} <= set(symmetry)


def test_figures_carry_no_date_and_load_nothing(results):
    for path in (results / "figures").iterdir():
        content = path.read_bytes()
        assert b"date" not in content.lower() and b"Software" not in content
        assert not re.search(rb'(href|src)="(?!#)', content)


def test_colours_are_those_of_the_page():
    files = (resources.files("lengthwise.report") / "template").iterdir()
    scripts = " ".join(file.read_text(encoding="utf-8") for file in files if file.name.endswith(".js"))
    light = re.search(r"light: \{(.*?)\}", scripts, flags=re.S)[1]
    assert tuple(re.findall(r"\b\d: \"(#\w{6})\"", light)) == COLOURS


def test_two_measures_are_two_figures(tmp_path):
    folder = write_run(tmp_path, "t5", 0)
    add_rows(folder, {"length": 200, "n_tokens": 4096, "exact_match": 0.1})
    names = set(drawn(part_of(tmp_path, study={"shows": ["accuracy"]})))
    assert {name.rpartition("-10-")[2] for name in names} == {
        "accuracy.svg", "accuracy.png", "exact-match.svg", "exact-match.png",
    }  # fmt: skip


def test_settings_with_one_title_get_a_file_each(tmp_path):
    for symbols in ("a!", "a?"):
        task = {"_target_": "lengthwise.tasks.word_order.WordOrder", "words": symbols}
        write_run(tmp_path, "t5", 0, task=task)
    assert len(drawn(part_of(tmp_path, study={"shows": ["accuracy"]}))) == 4


def test_means_in_the_table_are_those_of_the_runs(results):
    table = pd.read_csv(results / "accuracy.csv")
    runs = pd.read_csv(results / "length.csv").merge(
        pd.read_csv(results / "runs.csv")[["run", "label"]], on="run"
    )
    far = runs[(runs["length"] == 100) & (runs["stratum"] == "all")]
    for label, own in far.groupby("label"):
        (row,) = table[
            (table["variant"] == label) & (table["length"] == 100) & (table["stratum"] == "all")
            & (table["measure"] == "token_accuracy")
        ].to_dict("records")  # fmt: skip
        values = own["token_accuracy"]
        assert (row["mean"], row["best"], row["n"]) == pytest.approx((values.mean(), values.max(), 3))
        assert row["low"] < row["mean"] < row["high"] and row["items"] == 1024
        assert row["normalised"] == pytest.approx((row["mean"] - row["best_blind"]) / (1 - row["best_blind"]))
    assert set(table["trained"]) == {"4-10", "4,5"}


def test_contrasts_are_a_table_with_words(results):
    (row,) = pd.read_csv(results / "contrasts.csv").to_dict("records")
    assert (row["a"], row["b"], row["length"], row["n"], row["stated"]) == ("rotary", "t5", 100, 3, True)
    assert row["low"] < row["difference"] < row["high"] and row["p_holm"] >= row["p"]
    assert row["verdict"].endswith("provisional") and row["sentence"].startswith("At length 100, ")


def latex_problems(text: str) -> list[str]:
    """What TeX would stumble over: groups and environments that do not close, special characters, ragged rows."""
    problems = []
    plain = re.sub(r"(?m)^%.*\n", "", text)
    bare = re.sub(r"\\[\\&%$#_{}]", "", plain)
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            break
    problems += ["groups"] if depth else []
    begun = re.findall(r"\\begin\{(\w+)\}", plain)
    problems += ["environments"] if sorted(begun) != sorted(re.findall(r"\\end\{(\w+)\}", plain)) else []
    problems += [f"bare {c}" for c in "#%_~^" if c in bare.replace("~", "")]
    problems += ["mathematics"] if any(line.count("$") % 2 for line in bare.splitlines()) else []
    for columns, body in re.findall(r"\\begin\{tabular\}\{([lr]+)\}(.*?)\\end\{tabular\}", plain, flags=re.S):
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        widths = {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows}
        problems += ["ragged rows"] if widths != {len(columns)} else []
    return problems


def test_latex_can_be_typeset(results):
    text = (results / "summary.tex").read_text("utf-8")
    assert latex_problems(text) == []
    assert text.count(r"\begin{table}") == 5 and text.count(r"\toprule") == text.count(r"\bottomrule") == 5
    assert "n = 3 seeds" in text and r"$\pm$" in text and "rotary $-$ t5" in text
    assert (
        r"learned label=50\%\_\#1 \{a\}\textbackslash{}b \& \$x\$ \textasciitilde{}\textasciicircum{}" in text
    )


@pytest.mark.parametrize("broken", ["a_b", "50 % of it", "{", "a & b", "$"])
def test_control_what_is_not_escaped_is_seen(results, broken):
    text = (results / "summary.tex").read_text("utf-8")
    assert latex_problems(text.replace("rotary &", f"{broken} &")) != []
    assert latex_problems(text.replace("rotary &", f"{escape(broken)} &")) == []


def test_many_lengths_fit_a_printed_page(tmp_path):
    write_run(tmp_path, "t5", 0, lengths=tuple(range(4, 60)))
    text = (export_results(tmp_path, tmp_path / "results") / "summary.tex").read_text("utf-8")
    head = next(line for line in text.splitlines() if line.startswith(" & "))
    lengths = [int(cell) for cell in head.removesuffix(r" \\").split(" & ")[1:]]
    assert len(lengths) <= 8 and 10 in lengths and lengths[-1] == 59 and "Some of the tested lengths" in text


def test_names_cannot_break_a_markdown_table(results):
    lines = (results / "summary.md").read_text("utf-8").splitlines()
    table = [line for line in lines if line.startswith("| ")]
    assert any(r"\| [0]" in line for line in table)
    cells = [
        len(re.findall(r"(?<!\\)\|", line))
        for line in table
        if line.startswith(("| learned label", "| rotary"))
    ]
    assert len(set(cells)) == 3 and cells[0] == cells[1]


def test_without_a_finished_run_there_are_tables_without_rows(tmp_path):
    write_run(tmp_path, "t5", 0, state="failed", reason="out of memory")
    folder = export_results(tmp_path, tmp_path / "results")
    assert len(pd.read_csv(folder / "accuracy.csv")) == len(pd.read_csv(folder / "contrasts.csv")) == 0
    assert latex_problems((folder / "summary.tex").read_text("utf-8")) == []
    assert not (folder / "figures").exists()


def test_what_is_no_folder_for_results_is_refused_before_anything_is_written(tmp_path):
    outputs = tmp_path / "outputs"
    run = write_run(outputs, "t5", 0)
    other = write_run(tmp_path / "elsewhere", "t5", 0)
    (tmp_path / "file").write_text("mine")
    for folder, says in {
        tmp_path / "file": "that is a file; name a folder",
        tmp_path / "file" / "below": "cannot write to",
        outputs: "of the runs themselves",
        outputs / "runs": "of the runs themselves",
        run: "of the runs themselves",
        run / "results": "of the runs themselves",
        other: "of the runs themselves",
    }.items():
        before = contents(tmp_path)
        with pytest.raises(LengthwiseError, match=says) as caught:
            export_results(outputs, folder)
        assert f"export={folder}" in str(caught.value)
        assert contents(tmp_path) == before
    assert (
        export_results(outputs, outputs / "results") / "runs.csv"
    ).is_file()  # beside the runs there is room


def test_a_folder_that_may_not_be_written_to_is_one_message(tmp_path):
    run = write_run(tmp_path, "t5", 0)
    (tmp_path / "closed").mkdir(mode=0o555)
    script = (
        "import sys; from support.disks import obey_permissions; obey_permissions(); import os; "
        "os.execv(sys.executable, [sys.executable, '-m', 'lengthwise', 'report', *sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, f"outputs={tmp_path}", f"export={tmp_path}/closed/results"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "tests"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2 and run.is_dir()
    assert re.search(r"error: export=.*closed/results: cannot write to .*permission denied", done.stderr)
    assert "Traceback" not in done.stderr


def test_a_run_with_a_long_name_is_exported_whole(tmp_path):
    names = [f"{'long-' * 48}{end}" for end in ("a", "b")]
    for seed, name in enumerate(names):
        write_run(tmp_path, "t5", seed, name=name)
    configs = export_results(tmp_path, tmp_path / "results") / "configs"
    texts = {path.read_bytes() for path in configs.iterdir()}
    assert texts == {(tmp_path / "runs" / name / "config.yaml").read_bytes() for name in names}


def test_the_results_of_other_runs_are_not_mixed_in(tmp_path):
    write_run(tmp_path, "t5", 0)
    first = [path.name for path in (tmp_path / "runs").iterdir()]
    results = export_results(tmp_path, tmp_path / "results", runs=first)
    write_run(tmp_path, "rotary", 0)
    both = sorted(path.name for path in (tmp_path / "runs").iterdir())
    export_results(tmp_path, results, runs=both)  # more of the same is no other study
    before = contents(results)
    with pytest.raises(
        ConfigError, match=r"holds the results of other runs \(configs/.*; name another folder"
    ):
        export_results(tmp_path, results, runs=first)
    assert contents(results) == before


def test_where_a_contrast_is_stated_is_kept_among_many_lengths(tmp_path):
    for encoding in ("rotary", "t5"):
        for seed in range(2):
            write_run(tmp_path, encoding, seed, lengths=tuple(range(4, 600)))
    study = {"contrasts": [{"a": "rotary", "b": "t5", "at_length": 377}]}
    for stated, kept in ((study, True), ({}, False)):
        (section,) = part_of(tmp_path, study=stated).sections
        assert (377 in kept_lengths(section, 24)) == kept
