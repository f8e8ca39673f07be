"""The page: self-contained, harmless, honest, quick."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from lengthwise.errors import RunError
from lengthwise.report import build_report
from lengthwise.report.analysis import analyse
from lengthwise.report.collect import collect
from lengthwise.report.findings import findings, sentence
from support.html_page import Page
from support.synthetic_runs import ENCODINGS, write_run

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}'\"&amp; \U0001f600"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    for encoding in ENCODINGS:
        for seed in range(3):
            write_run(folder, encoding, seed)
    write_run(folder, "rotary", 5, name="failed-run", state="failed", reason="out of memory")
    return folder


@pytest.fixture(scope="module")
def page(outputs):
    return Page(build_report(outputs, title="A study", study={"question": "Which one?"}).read_text("utf-8"))


def test_nothing_is_loaded_from_anywhere(page):
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, name, value)
        assert tag not in ("iframe", "object", "embed", "base")
    policy = next(a["content"] for t, a in page.elements if t == "meta" and a.get("http-equiv"))
    assert "default-src 'none'" in policy and "http" not in policy
    assert "@import" not in build_css() and "url(" not in build_css()


def build_css() -> str:
    from lengthwise.report.page import asset

    return str(asset("page.css"))


def test_it_says_what_was_found(page):
    for words in (
        "Which one?",
        "none: 50.0 % at every length, which is the best of the blind rules that are known.",
        "is not resolved with 3 seeds",
        "inside the trained positions",
        "kept by none up to rounding",
        "broken by sinusoidal, learned, rotary, alibi and t5",
        "positions past those of the longest trained input (10 symbols) were never trained",
        "failed-run failed out of memory",
        "as declared",
    ):
        assert words in page.text, words
    assert "against its declaration" not in page.text


def test_every_run_is_named(page, outputs):
    for folder in (outputs / "runs").iterdir():
        assert folder.name in page.text


def test_every_seed_is_drawn_with_mean_interval_baseline_and_trained_range(page):
    figure = page.figures["overview-0"]
    traces = figure["views"]["token_accuracy"]
    for variant in range(len(ENCODINGS)):
        own = [trace for trace in traces if trace["meta"].get("variant") == variant]
        seeds, mean = own
        assert seeds["y"].count(None) == 3 and len(mean["y"]) == 7
        assert all(gap >= 0 for gap in mean["error_y"]["array"]) and max(mean["error_y"]["array"]) > 0
    assert any("baseline" in trace["meta"] for trace in traces)
    assert figure["trained"] == [4, 10]
    facets = [key for key in page.figures if key.startswith("facet-0-")]
    assert len(facets) == len(ENCODINGS)
    shown = json.dumps(page.figures["facet-0-2"])
    assert "evidence inside" in shown and "evidence outside" in shown


def test_plots_and_figures_belong_together(page):
    plots = {a["id"] for t, a in page.elements if t == "div" and "plot" in (a.get("class") or "").split()}
    assert plots == set(page.figures)
    assert all(a.get("aria-label") for t, a in page.elements if a.get("role") in ("img", "region", "group"))


def test_every_row_of_a_table_has_a_cell_a_column(outputs, tmp_path):
    """A cell too many or too few would put a figure under another's head."""
    plain, margins = build_report(outputs).read_text(encoding="utf-8"), stated(tmp_path)
    for text in (plain, margins):
        shown = re.sub(r"<script.*?</script>", "", text, flags=re.S)
        tables = [
            found
            for table in re.findall(r"<table[^>]*>(.*?)</table>", shown, flags=re.S)
            if (
                found := re.findall(r"<tr[^>]*>(.*?)</tr>", table, flags=re.S)
            )  # others are filled by the scripts
        ]
        assert len(tables) > 5
        for head, *rows in tables:
            columns = cells_in(head)
            under = rows[1:] if "rowspan" in head else rows
            assert {cells_in(row) for row in under} <= {columns}, re.sub(r"<[^>]*>", " ", head)
    assert "p alike, Holm" in margins and "p alike, Holm" not in plain


def cells_in(row):
    spans = [re.search(r'colspan="(\d+)"', cell) for cell in re.findall(r"<t[hd][^>]*>", row)]
    return sum(int(span.group(1)) if span else 1 for span in spans)


def stated(outputs):
    """The page of a study with two contrasts, one of which asks whether its sides are alike."""
    for seed in range(3):
        for encoding in ("rotary", "t5", "learned"):
            write_run(outputs, encoding, seed)
    margin = {"a": "rotary", "b": "t5", "alike_within": 0.02}
    study = {"contrasts": [{"a": "rotary", "b": "learned"}, margin]}
    return build_report(outputs, study=study).read_text(encoding="utf-8")


def test_provisional_below_ten_seeds_and_not_from_ten_on(tmp_path):
    for seed in range(9):
        write_run(tmp_path, "rotary", seed)
        write_run(tmp_path, "none", seed)
    assert "Provisional." in Page(build_report(tmp_path).read_text("utf-8")).text
    write_run(tmp_path, "rotary", 9)
    write_run(tmp_path, "none", 9)
    assert "rovisional" not in Page(build_report(tmp_path).read_text("utf-8")).text


def test_hostile_names_stay_text(tmp_path):
    for seed in range(2):
        write_run(tmp_path, "rotary", seed, run__label=HOSTILE)
        write_run(tmp_path, "rotary", seed)
    write_run(tmp_path, "t5", 0, name="a<b>&\U0001f600" + "x" * 200, state="failed", reason=HOSTILE)
    text = build_report(tmp_path, title=HOSTILE, study={"question": HOSTILE}).read_text("utf-8")
    page = Page(text)
    assert not [tag for tag, attributes in page.elements if tag == "img" or "onerror" in attributes]
    assert sum(tag == "script" for tag, _ in page.elements) == 4
    assert "alert(1)" in page.text and "{{7*7}}" in page.text  # shown, as text
    assert "<img" not in json.dumps(page.figures)  # Plotly has a markup of its own
    assert "&lt;img" in json.dumps(page.figures)


def test_bytes_that_are_no_text_do_not_stop_the_page(tmp_path):
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "t5", 0, name="bad-\udcff-name", state="failed", reason="x")
    assert "bad-" in build_report(tmp_path).read_text("utf-8")


def test_a_page_without_a_finished_run_says_so(tmp_path):
    write_run(tmp_path, "rotary", 0, state="interrupted", reason="Ctrl-C")
    page = Page(build_report(tmp_path).read_text("utf-8"))
    assert "No run is finished yet" in page.text and "Ctrl-C" in page.text


def test_a_run_without_symmetry_strata_or_baselines_is_shown(tmp_path):
    for seed in range(2):
        folder = write_run(tmp_path, "rotary", seed)
        (folder / "symmetry.csv").unlink()
        rows = (folder / "length.csv").read_text().splitlines()
        kept = [",".join(row.split(",")[:13]) for row in rows if "evidence" not in row]
        (folder / "length.csv").write_text("\n".join(kept) + "\n")
    page = Page(build_report(tmp_path).read_text("utf-8"))
    assert (
        "One by one" in page.text
        and "Permutation equivariance" not in page.text
        and "blind to" not in page.text
    )


def test_two_measures_get_a_switch(tmp_path):
    folder = write_run(tmp_path, "rotary", 0)
    header, *rows = (folder / "length.csv").read_text().splitlines()
    at = header.split(",").index("exact_match")
    cells = [row.split(",") for row in rows]
    text = "\n".join(",".join([*c[:at], "0.25" if c[at] else "", *c[at + 1 :]]) for c in cells)
    (folder / "length.csv").write_text(f"{header}\n{text}\n")
    page = Page(build_report(tmp_path).read_text("utf-8"))
    switches = [a["data-measure"] for t, a in page.elements if t == "button" and "data-measure" in a]
    assert switches == ["token_accuracy", "exact_match"]
    assert set(page.figures["overview-0"]["views"]) == {"token_accuracy", "exact_match"}


def test_contrasts_are_those_the_study_states(outputs):
    study = {"contrasts": [{"a": "rotary", "b": "learned", "at_length": 50}, {"a": "rotary", "b": "kerple"}]}
    (section,) = analyse(collect(outputs), study)
    (contrast,) = section.contrasts
    assert (contrast.a, contrast.b, contrast.at, contrast.n) == ("rotary", "learned", 50, 3)
    assert section.stated and any("kerple" in note for note in section.notes)
    assert "At length 50, rotary is above learned" in sentence(contrast) and "provisional" in sentence(
        contrast
    )
    assert any(sentence(contrast) in finding.text for finding in findings(section))


def test_a_broken_declaration_is_reported(tmp_path):
    folder = write_run(tmp_path, "rotary", 0)
    status = json.loads((folder / "status.json").read_text())
    status["results"]["symmetry/permutation/declared"] = True
    (folder / "status.json").write_text(json.dumps(status))
    assert "against its declaration" in Page(build_report(tmp_path).read_text("utf-8")).text


def test_a_hundred_runs_fit_one_page(tmp_path):
    for seed in range(17):
        for encoding in ENCODINGS:
            write_run(tmp_path, encoding, seed)
    path = build_report(tmp_path)
    assert path.stat().st_size < 8e6


def test_the_page_is_replaced_whole_or_not_at_all(tmp_path, outputs):
    path = tmp_path / "deep" / "report.html"
    assert build_report(outputs, path=path) == path and path.read_text("utf-8").rstrip().endswith("</html>")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match="cannot write"):
        build_report(outputs, path=tmp_path / "file" / "report.html")


def test_reporting_never_imports_torch(outputs):
    code = (
        "import sys; from lengthwise.report import build_report, print_summary; "
        f"build_report({str(outputs)!r}); print_summary({str(outputs)!r}); "
        "assert not {'torch', 'pytorch_lightning', 'hydra', 'wandb'} & set(sys.modules), 'imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout and re.search(r"rotary +\d", done.stdout)
