"""``lengthwise scorecard``: the table, CSV, JSON and page, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from lengthwise.evaluation.card import MEASURES
from lengthwise.paths import conf_dir
from lengthwise.report.scorecard_table import print_cards
from lengthwise.report.scorecard_words import COLUMNS, DASH, cell, reasons
from lengthwise.scorecard import NOT_ALONE, cells_of
from support.commandline import Result, in_process
from support.html_page import Page

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Four encodings; one has no place to go in a head of five columns."""
    folder = tmp_path_factory.mktemp("scorecard")
    words = [
        "pe=sinusoidal,learned,alibi,rotary",
        "model.width=20",
        "csv=tables/card.csv",
        "path=pages/card.html",
    ]
    for name in ("tables", "pages"):
        (folder / name).mkdir()
    return folder, in_process(folder, "scorecard", *words)


def test_the_table_has_a_row_an_encoding_and_names_what_cannot_be(some: tuple[Path, Result]) -> None:
    _, result = some
    assert result.code == 0, result.err
    for column in COLUMNS:
        assert column.name.split()[0] in result.out
    rows = [line.split()[0] for line in result.out.splitlines() if line.startswith(" ") and line.strip()]
    assert [rows.count(name) for name in ("sinusoidal", "learned", "alibi", "rotary")] == [3, 3, 3, 0]
    assert (
        "not possible: rotary: rotary needs an even key width a head, got 5 (width 20, 4 heads)" in result.out
    )
    assert "acts in the attention: it gives no vector to a position (alibi)" in " ".join(result.out.split())
    assert "page: pages/card.html" in result.out


def test_the_csv_has_every_figure_or_its_reason(some: tuple[Path, Result]) -> None:
    folder, _ = some
    rows = {
        row["encoding"]: row for row in csv.DictReader(io.StringIO((folder / "tables/card.csv").read_text()))
    }
    assert list(rows) == ["sinusoidal", "learned", "alibi", "rotary"]
    for name, row in rows.items():
        if name == "rotary":
            assert "even key width" in row["error"] and not any(row[measure] for measure in MEASURES)
            continue
        empty = {measure for measure in MEASURES if row[measure] == ""}
        explained = {part.partition(":")[0] for part in row["not_applicable"].split("; ")}
        assert empty == explained & set(MEASURES) and not row["error"]
    assert rows["learned"]["parameters"] == str(1024 * 20)
    assert (
        rows["alibi"]["declared_symmetries"] == rows["alibi"]["declared_symmetries"] == "reversal translation"
    )
    assert float(rows["alibi"]["memory"]) > 1 and float(rows["alibi"]["time_low"]) > 0


def test_the_page_is_one_file_with_the_pictures(some: tuple[Path, Result]) -> None:
    folder, _ = some
    text = (folder / "pages/card.html").read_text(encoding="utf-8")
    assert len(text) < 8_000_000
    page = Page(text)
    assert not [value for _, attributes in page.elements for name, value in attributes.items()
                if name in ("src", "href") and value and value.startswith(("http", "//"))]  # fmt: skip
    plots = [attributes["id"] for _, attributes in page.elements if "plot" in (attributes.get("class") or "")]
    assert plots == list(page.figures) and len(plots) == 6 + 6 + 5
    kinds = [("z" in spec, "lines" in spec) for spec in page.figures.values()]
    assert kinds[:6] == [
        (True, False),
        (False, True),
        (True, False),
        (False, True),
        (False, True),
        (True, False),
    ]
    for word in (
        "sinusoidal",
        "rotary is not possible here",
        "What the columns mean",
        "Why there are dashes",
    ):
        assert word in page.text
    assert "Content-Security-Policy" in text and "default-src 'none'" in text


def test_json_holds_the_same_and_nothing_else_is_printed(run: Run) -> None:
    result = run("scorecard", "pe=rotary", "pe.base=100,10000", "model.width=16", "path=null", "--json")
    shown = json.loads(result.out)
    assert result.code == 0 and shown["page"] is None and shown["sizes"]["width"] == 16
    assert [card["encoding"] for card in shown["encodings"]] == ["rotary pe.base=100", "rotary pe.base=10000"]
    for card in shown["encodings"]:
        assert set(card["figures"]) == set(MEASURES) and card["declared"]["symmetries"] == ["translation"]
        assert card["symmetries"]["translation"] is True and "pictures" not in card
    assert not Path("outputs").exists()


def test_one_encoding_is_written_downwards_in_a_decoder_where_it_must(run: Run) -> None:
    result = run("scorecard", "pe=cope", "model.width=16", "path=null")
    lines = result.out.splitlines()
    assert result.code == 0 and any("cope (decoder)" in line for line in lines)
    assert all(any(line.strip().startswith(column.name) for line in lines) for column in COLUMNS)
    assert "starts at zero, and was filled" in result.out and "Golovneva" in result.out


def test_an_encoding_of_one_s_own(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine" / "pe").mkdir(parents=True)
    (tmp_path / "mine" / "my_scorecard_code.py").write_text(
        "from lengthwise.nn.position import Sinusoidal\n\n\nclass Mine(Sinusoidal):\n"
        "    symmetries = frozenset({'translation'})\n"
        "    paper = '<script>alert(1)</script>'\n"
    )
    (tmp_path / "mine" / "pe" / "my_own.yaml").write_text(
        "_target_: my_scorecard_code.Mine\n_partial_: true\nbase: 100.0\n"
    )
    result = run("scorecard", "--config-dir", "mine", "pe=my_own", "model.width=16", "path=page.html")
    assert result.code == 0, result.err
    assert "translation is declared, and measured to fail" in result.out
    assert "<script>alert" not in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pe=rotry"], "pe=rotry: no such option"),
        (["pe=rotary,rotry"], "Did you mean rotary?"),
        (["pe=rotary", "pe.bse=3"], "pe.bse: there is no such key. Did you mean pe.base?"),
        (["pe.base=3"], "pe.base=3: say whose option that is, such as pe=rotary pe.base=3"),
        (["pe=rotary", "model.width=60"], "got 15 (width 60, 4 heads)"),
        (["pe=rotary", "model.heads=3"], "width 128 is not divisible by 3 heads"),
        (["-m", "pe=rotary"], "-m: not needed here"),
        (["pe=[rotary,alibi]"], "takes one option, not a list"),
        (["pe=rotary", "csv="], "csv=: name a file"),
        (["pe=rotary", "csv=nowhere/card.csv"], "csv=nowhere/card.csv: there is no folder nowhere"),
        (["pe=rotary", "path=nowhere/card.html"], "path=nowhere/card.html: there is no folder nowhere"),
        (["pe=rotary", "csv=."], "csv=.: that is a folder"),
        (["pe=sinusoidal", "attention=fixed"], "use attention=scaled"),
        (["pe=rotary", "model=encoder_decoder"], "a scorecard is of an encoder or a decoder"),
        (["pe=xpos", "model=encoder"], "use a decoder"),
        (["foo=1"], "foo: there is no such key"),
        (["pe=rotary", "trainer.max_steps=5"], "trainer.max_steps=5: has no effect on a scorecard"),
        (["pe=rotary", "optimizer=sgd"], "optimizer=sgd: has no effect on a scorecard"),
    ],
)
def test_what_is_wrong_is_one_message(run: Run, words: list[str], said: str) -> None:
    result = run("scorecard", *words)
    assert result.code == 2 and said in result.err and result.err.count("\n") == 1 and result.out == ""
    assert not Path("outputs").exists()


def test_the_page_goes_where_the_outputs_go(run: Run, tmp_path: Path) -> None:
    result = run("scorecard", "pe=none", "model.width=8", "outputs=elsewhere")
    assert result.code == 0 and "page: elsewhere/scorecard.html" in result.out
    assert (tmp_path / "elsewhere" / "scorecard.html").is_file() and not (tmp_path / "outputs").exists()


def test_a_page_that_cannot_be_written_is_said_in_one_message(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("scorecard", "pe=none", "model.width=8", "path=file/page.html")
    assert result.code == 2 and result.err.startswith("error: path=file/page.html: there is no folder file")


def test_the_width_is_that_of_the_textbook_s_pictures_unless_one_is_named() -> None:
    for words, width in (([], 128), (["size=small"], 256), (["model.width=64"], 64)):
        assert cells_of(["pe=none", *words])[0].config["model"]["width"] == width


def test_narrow_terminals_get_one_card_under_the_other(some: tuple[Path, Result], tmp_path: Path) -> None:
    figures = dict.fromkeys(MEASURES)
    card = {
        "encoding": "mine pe.layers.b=[0,2]", "model": "encoder", "figures": figures, "error": None, "mismatches": [],
        "reasons": dict.fromkeys(MEASURES, "it is a test"), "notes": [], "symmetries": {},
        "declared": {"symmetries": [], "max_length": None, "distinct_until": None, "prefix_stable": True, "paper": ""},
    }  # fmt: skip
    for width, rows in ((200, 3), (80, 2)):
        text = io.StringIO()
        print_cards([card, card], {"sizes": {}}, Console(file=text, width=width))
        assert sum("mine pe.layers.b=[0,2]" in line for line in text.getvalue().splitlines()) >= rows
        assert max(map(len, text.getvalue().splitlines())) <= width
    assert all(cell(card, column) == DASH for column in COLUMNS)
    assert reasons([card, card]) == [
        (f"{', '.join(c.name for c in COLUMNS)}: it is a test", [card["encoding"]] * 2)
    ]


def test_every_encoding_is_measured(run: Run) -> None:
    """All that the slot offers, but those made of others; at a width that costs little."""
    result = run("scorecard", "model.width=16", "path=page.html", "--json")
    cards = json.loads(result.out)["encodings"]
    shipped = {path.stem for path in (conf_dir() / "pe").glob("*.yaml")}
    assert result.code == 0 and {card["encoding"] for card in cards} == shipped - set(NOT_ALONE)
    for card in cards:
        assert card["error"] is None
        assert {name for name, value in card["figures"].items() if value is None} == set(card["reasons"])


def test_the_page_of_the_manual_knows_every_column() -> None:
    manual = (Path(__file__).resolve().parents[2] / "docs" / "scorecard.md").read_text(encoding="utf-8")
    first = [line.split("|")[1] for line in manual.splitlines() if line.startswith("| ")]
    named = [name.strip() for cell_ in first for name in cell_.split(",")][1:]
    assert named == [column.name for column in COLUMNS]
