"""The page in a real browser: what is drawn, chosen, sorted and shared, with a mouse and without one."""

from __future__ import annotations

import csv
import json
import statistics
import struct
import zlib
from itertools import product
from pathlib import Path

import pytest

from lengthwise.report import build_report
from support.browser import NAMES, Browser, find_browser
from support.synthetic_runs import with_columns, write_run

PROGRAM = find_browser()
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason=f"no browser: none of {', '.join(NAMES)} is installed (Debian: chromium)"
)

POST = {"_target_": "lengthwise.nn.norm.PostNorm", "_partial_": True}
ENCODINGS, SEEDS = ("none", "rotary", "t5"), range(3)
HOSTILE = "a<b>&\"'\u202edcba\U0001f600" + "x" * 200
REASON = "</script><script>document.title='alert'</script>"

MEANS = """[...document.querySelectorAll('#compare-panels .plot')].flatMap(plot => plot.data || [])
  .filter(trace => trace.meta.mean !== undefined)"""
LINES = f"{MEANS}.flatMap(trace => [...new Set(trace.customdata.filter(Boolean))]).sort()"
COLOURS = f"Object.fromEntries({MEANS}.map(trace => [trace.meta.mean, trace.line.color]))"
DRAWN = (
    "document.querySelectorAll('#compare-panels .plot').length && "
    "[...document.querySelectorAll('#compare-panels .plot')].every(plot => plot.data)"
)
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
"""By then what the page does as its parts come into view is done."""
ROWS = "[...document.querySelectorAll('#run-table tbody tr')].map(row => [...row.children].map(cell => cell.innerText))"
WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


def box(factor: str, value: str) -> str:
    """A checkbox among the filters."""
    return f"document.querySelector('[data-factor={factor}] input[value={value}]')"


def show(browser: Browser, place: str) -> None:
    """Scrolls to it, and lets the page draw what comes into view."""
    browser.run(f"document.getElementById('{place}').scrollIntoView()")
    browser.run(FRAMES)


def choose(browser: Browser, key: str, value: str) -> None:
    browser.run(f"{{ const box = document.getElementById('{key}'); box.value = '{value}'; "
                "box.dispatchEvent(new Event('change', {bubbles: true})) }")  # fmt: skip


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    for encoding in ENCODINGS:
        for seed in SEEDS:
            write_run(folder, encoding, seed)
            write_run(folder, encoding, seed, norm=POST, shift=-0.03)
    write_run(folder, "rotary", 9, name="failed-run", state="failed", reason=REASON)
    write_run(folder, "t5", 9, name=HOSTILE, state="interrupted", reason="Ctrl-C")
    return folder


@pytest.fixture(scope="module")
def page(outputs) -> str:
    return build_report(outputs, title="A title").as_uri()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Browser(PROGRAM, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(shared, page):
    """The page, drawn, with nothing chosen; afterwards nothing was fetched and nothing complained."""
    shared.media(prefers_color_scheme="light")
    shared.size(1400)
    shared.events.clear()
    shared.open(f"{page}#compare")  # loads it where it is not there already
    show(shared, "compare")
    shared.wait(DRAWN)
    yield shared
    assert [
        address for address in shared.requests if not address.startswith(("file:", "data:", "blob:"))
    ] == []
    assert shared.complaints == []


def test_all_variants_are_drawn_and_filters_leave_fewer(browser):
    assert len(browser.run(LINES)) == 6
    assert browser.run("document.getElementById('summary').textContent") == "6 variants, 20 runs shown"
    browser.run(f"{box('pe', 'rotary')}.click()")
    assert browser.run(LINES) == ["rotary norm=post", "rotary norm=pre"]
    assert browser.run("document.getElementById('summary').textContent").startswith(
        "2 of 6 variants, 7 of 20 runs"
    )
    browser.run(f"{box('norm', 'post')}.click()")
    assert browser.run(LINES) == ["rotary norm=post"]
    assert browser.run(f"{box('pe', 't5')}.closest('label').innerText").split() == [
        "t5",
        "1",
    ]  # were it chosen too
    browser.run("document.getElementById('clear').click()")
    assert len(browser.run(LINES)) == 6 and browser.run("location.hash") == "#compare"


def test_what_is_drawn_is_the_mean_of_length_csv(browser, outputs):
    values = []
    for folder in (outputs / "runs").glob("word_order-t5-pre-s*"):
        with (folder / "length.csv").open(newline="") as stream:
            values += [
                float(row["token_accuracy"])
                for row in csv.DictReader(stream)
                if row["length"] == "50" and row["stratum"] == "all"
            ]
    assert len(values) == 3
    drawn = browser.run("""(() => { for (const trace of document.querySelector('#compare-panels .plot').data)
      if (trace.meta.mean !== undefined) for (let k = 0; k < trace.x.length; k++)
        if (trace.customdata[k] === 't5 norm=pre' && trace.x[k] === 50) return trace.y[k]; })()""")
    assert drawn == pytest.approx(statistics.mean(values), abs=1e-5)
    assert drawn != pytest.approx(values[0], abs=1e-5)  # not one seed


def test_colour_and_panels_follow_a_factor(browser):
    by_variant = browser.run(COLOURS)
    assert (
        len(by_variant) == len(set(by_variant.values()) - {"rgba(95,102,115,1)"}) + 2
    )  # none, twice, is grey
    choose(browser, "colour", "norm")
    browser.wait(DRAWN)
    by_norm = browser.run(COLOURS)
    assert set(by_norm) == {"pre", "post"} and len(set(by_norm.values())) == 2
    assert len(browser.run(LINES)) == 6
    choose(browser, "facet", "pe")
    browser.wait(DRAWN)
    titles = "[...document.querySelectorAll('#compare-panels h4')].map(title => title.textContent)"
    assert browser.run(titles) == ["pe none", "pe rotary", "pe t5"]
    shaded = "[...document.querySelectorAll('#compare-panels .plot')].map(plot => plot.layout.shapes.length)"
    assert browser.run(shaded) == [1, 1, 1]


def test_the_legend_filters_by_its_colours(browser):
    choose(browser, "colour", "pe")
    entry = "[...document.querySelectorAll('#compare-legend button')].find(one => one.textContent === 't5')"
    browser.run(f"{entry}.click()")
    assert browser.run(LINES) == ["t5 norm=post", "t5 norm=pre"] and "pe=t5" in browser.run("location.hash")
    assert browser.run(f"{entry}.getAttribute('aria-pressed')") == "true"
    assert browser.run("document.querySelectorAll('#compare-legend button.off').length") == 2
    assert browser.run(f"document.activeElement === {entry}")
    browser.run(f"{entry}.click()")
    assert len(browser.run(LINES)) == 6


def test_the_address_is_the_view(browser, page):
    browser.run(f"{box('pe', 'rotary')}.click()")
    browser.run(f"{box('pe', 't5')}.click()")
    choose(browser, "colour", "norm")
    choose(browser, "axis", "linear")
    choose(browser, "rows", "norm")
    browser.run("document.querySelector('#setting-0 button[data-label=\"none norm=pre\"]').click()")
    browser.run("document.querySelector('#run-table [data-key=reach] button').click()")
    address = browser.run("location.hash")
    assert (
        address
        == "#compare&pe=rotary,t5&colour=norm&axis=linear&rows=norm&hidden-0=none+norm=pre&sort=-reach"
    )
    seen = "[document.getElementById('summary').textContent, colour.value, axis.value, rows.value, " \
           "document.querySelector('#run-table [data-key=reach]').getAttribute('aria-sort'), " \
           "document.querySelector('#setting-0 button[aria-pressed=false]').dataset.label]"  # fmt: skip
    before = browser.run(seen)
    assert before[0].startswith("4 of 6") and before[-2:] == ["descending", "none norm=pre"]
    browser.open("about:blank")
    browser.open(page + address)
    browser.wait(DRAWN)
    assert browser.run(seen) == before and browser.run("location.hash") == address
    assert browser.run("document.querySelector('#compare-panels .plot').layout.xaxis.type") == "linear"
    browser.run(f"{box('pe', 't5')}.click()")
    assert browser.run("document.getElementById('summary').textContent").startswith("2 of 6")
    browser.run("history.back()")
    browser.wait("document.getElementById('summary').textContent.startsWith('4 of 6')")
    browser.run(
        "document.querySelector('nav a[href=\"#setting-0\"]').click()"
    )  # a place, with the same choices
    assert browser.run("location.hash") == address.replace("compare", "setting-0")
    browser.wait("Math.abs(document.getElementById('setting-0').getBoundingClientRect().top) < 5")


def test_what_the_page_does_not_have_is_said(browser, page):
    browser.open(f"{page}#pe=rotary,kerple&nonsense=1&sort=%E0%A4%A&colour=seed")
    browser.wait("!document.getElementById('address-notice').hidden")
    said = browser.run("document.getElementById('address-notice').textContent")
    assert all(word in said for word in ("pe=kerple", "nonsense", "sort=%E0%A4%A", "colour=seed"))
    assert browser.run("document.getElementById('summary').textContent").startswith("2 of 6")
    browser.open(f"{page}#pe=rotary")
    browser.wait("document.getElementById('address-notice').hidden")


def test_a_plain_anchor_goes_to_its_section(browser, page):
    browser.open("about:blank")
    browser.open(f"{page}#setting-0")
    browser.wait("Math.abs(document.getElementById('setting-0').getBoundingClientRect().top) < 5")
    assert browser.run("document.getElementById('address-notice').hidden")


def test_runs_are_sorted_and_searched(browser):
    show(browser, "runs")
    browser.wait(f"{ROWS}.length === 20")
    header = browser.run(
        "[...document.querySelectorAll('#run-table thead th')].map(head => head.dataset.key)"
    )
    longest = header.index("longest")

    def column() -> list[float | None]:
        cells = [row[longest] for row in browser.run(ROWS)]
        return [None if cell == "–" else float(cell) for cell in cells]

    click = "document.querySelector('#run-table [data-key=longest] button').click()"
    browser.run(click)
    found = column()
    numbers = [value for value in found if value is not None]
    assert numbers == sorted(numbers, reverse=True) and len(set(numbers)) > 5
    assert found[len(numbers) :] == [None, None]  # what has no figure stands last
    browser.run(click)
    assert column() == [*sorted(numbers), None, None]
    assert browser.run("document.querySelector('#run-table [data-key=longest]').ariaSort") == "ascending"
    browser.run(
        "{ const find = document.getElementById('find'); find.value = 'INTERRUPTED t5'; "
        "find.dispatchEvent(new Event('input')) }"
    )
    browser.wait(f"{ROWS}.length === 1")
    (row,) = browser.run(ROWS)
    assert HOSTILE in row[0] and "Ctrl-C" in row[0] and row[1] == "interrupted"


def test_what_went_wrong_stands_beside_the_run(browser):
    show(browser, "runs")
    rows = browser.wait(f"{ROWS}.length === 20 && {ROWS}")
    (failed,) = [row for row in rows if row[0].startswith("failed-run")]
    assert REASON in failed[0] and failed[1] == "failed"
    assert browser.run("document.title") == "A title"


def test_a_filter_by_keyboard_alone(browser):
    browser.run("document.querySelector('[data-factor=pe] summary').focus()")
    focused = "document.activeElement"
    browser.press("Tab")
    assert browser.run(f"{focused}.value") == "none"
    browser.press(" ")
    assert browser.run(f"{focused}.checked") and browser.run("location.hash") == "#compare&pe=none"
    assert browser.run(LINES) == ["none norm=post", "none norm=pre"]
    assert browser.run(f"getComputedStyle({focused}).outlineStyle") != "none"
    browser.run("document.body.focus(); document.activeElement.blur()")
    reached = set()
    for _ in range(120):
        browser.press("Tab")
        reached.add(browser.run(f"{focused}.id || {focused}.textContent.trim().slice(0, 30)"))
    assert {"Skip to the results", "clear", "copy", "measure", "colour", "facet", "seeds", "rows", "cell",
            "scale", "find", "run-scroll", "state"} - reached <= {"measure"}  # one alone is no choice  # fmt: skip


def test_the_heat_map_says_how_many_are_behind_a_cell(browser):
    choose(browser, "columns", "norm")
    cell = "document.querySelector('#heat-table tbody td')"
    show(browser, "heat-map")
    browser.wait(f"!!{cell}")
    assert browser.run(f"{cell}.innerText").split("\n")[-1] == "3 runs"
    choose(browser, "rows", "norm")
    choose(browser, "columns", "pe")
    browser.run(f"{box('pe', 'rotary')}.click()")
    assert browser.run("document.querySelectorAll('#heat-table tbody td').length") == 2
    choose(browser, "columns", "norm")
    choose(browser, "rows", "pe")
    browser.run("document.getElementById('clear').click()")
    choose(browser, "rows", "norm")
    found = browser.run(
        "[...document.querySelectorAll('#heat-table tbody td:not(.empty)')].map(cell => [cell.innerText, cell.title])"
    )
    assert len(found) == 2 and all(
        "3 variants, 9 runs" in text and "rotary norm=" in title for text, title in found
    )
    choose(browser, "cell", "error")
    assert "e-16" in browser.run("document.getElementById('heat-scale').innerText.replace('1e-16', 'e-16')")


@pytest.fixture(scope="module")
def uneven(tmp_path_factory) -> str:
    """Three seeds, of which two were tested at 50 and at trained lengths besides 10, and are right everywhere; one was
    interrupted at a tenth of more steps."""
    folder = tmp_path_factory.mktemp("uneven")
    for seed, lengths in enumerate(((4, 10, 20, 50), (4, 10, 20, 50), (10, 20))):
        right = {"token_accuracy": "1.0", "exact_match": "1.0"}
        with_columns(write_run(folder, "rotary", seed, lengths=lengths), **right)
        write_run(folder, "none", seed, lengths=lengths)
    stopped = write_run(folder, "none", 9, name="stopped", state="interrupted", trainer__max_steps=1000)
    status = json.loads((stopped / "status.json").read_text())
    (stopped / "status.json").write_text(json.dumps(status | {"steps": 100}))
    return build_report(folder).as_uri()


def opened(browser: Browser, address: str, place: str) -> None:
    browser.open("about:blank")
    browser.open(address)
    show(browser, place)


HEAT = ROWS.replace("#run-table", "#heat-table")


def test_a_cell_says_the_runs_behind_its_own_length(shared, uneven):
    opened(shared, f"{uneven}#rows=pe&columns=length", "heat-map")
    (_, rotary) = shared.wait(f"{HEAT}.length === 2 && {HEAT}")
    assert [cell.split("\n")[-1] for cell in rotary[1:]] == ["2 runs", "3 runs", "3 runs", "2 runs"]


def test_a_reach_that_ends_with_the_tests_is_marked(shared, uneven):
    opened(shared, f"{uneven}#rows=pe&columns=pe&cell=reach", "heat-map")
    (none, rotary) = shared.wait(f"{HEAT}.length === 2 && {HEAT}")
    assert none[1].startswith("0\n") and rotary[2].startswith("≥ 50\n")
    assert "it may be longer" in shared.run("document.getElementById('heat-note').textContent")
    show(shared, "runs")
    rows = shared.wait(f"{ROWS}.length === 7 && {ROWS}")
    head = shared.run("[...document.querySelectorAll('#run-table thead th')].map(head => head.dataset.key)")
    reach = [row[head.index("reach")] for row in rows if "rotary" in row[0]]
    assert sorted(reach) == ["≥ 20", "≥ 50", "≥ 50"]


def test_an_interrupted_run_is_shown_with_the_steps_it_made(shared, uneven):
    opened(shared, uneven, "runs")
    rows = shared.wait(f"{ROWS}.length === 7 && {ROWS}")
    head = shared.run("[...document.querySelectorAll('#run-table thead th')].map(head => head.dataset.key)")
    assert head.count("steps") == 1 and "steps" in shared.run("Explorer.factors.map(factor => factor.name)")
    steps = {row[0].split("\n")[0]: row[head.index("steps")] for row in rows}
    assert steps.pop("stopped") == "100 of 1000" and set(steps.values()) == {"300"}


def test_what_is_over_the_trained_lengths_says_which(shared, uneven):
    opened(shared, f"{uneven}#rows=pe&columns=pe&cell=trained", "heat-map")
    note = shared.wait("document.getElementById('heat-note').textContent")
    assert "that all runs of a setting were tested at: 10." in note


def test_the_title_names_what_is_compared(browser):
    title = "document.getElementById('compare-title').textContent"
    assert browser.run(title) == "Compare: accuracy against length"
    choose(browser, "measure", "loss")
    assert browser.run(title) == "Compare: loss against length"


def test_training_curves_of_the_chosen_runs(browser):
    show(browser, "training")
    browser.wait("!!document.querySelector('#training-panels .plot')?.data")
    traces = "document.querySelector('#training-panels .plot').data"
    names = f"[...new Set({traces}.flatMap(trace => trace.customdata.filter(Boolean)))]"
    assert len(browser.run(names)) == 18
    browser.run(f"{box('pe', 't5')}.click()")
    assert len(browser.run(names)) == 6


def background(path: Path) -> tuple[int, ...]:
    """The colour of a PNG's first pixel."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        packed += data[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    return tuple(zlib.decompress(packed)[1:4])


def test_dark_and_light_wide_and_narrow(browser, tmp_path):
    for scheme, paper in (("light", (255, 255, 255)), ("dark", (18, 21, 27))):
        browser.media(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
        for width in (1400, 400):
            browser.size(width, mobile=width < 600)
            browser.wait(f"{DRAWN} && !({WIDE})")
            picture = browser.screenshot(tmp_path / f"{scheme}-{width}.png")
            assert picture.stat().st_size > 10_000 and background(picture) == paper
    lines = browser.run(COLOURS)
    assert "rgba(170,178,192,1)" in lines.values()  # the grey for dark paper
    browser.size(400, mobile=True)
    assert not browser.run("document.getElementById('filters').open")
    for section in ("setting-0", "heat-map", "symmetries", "training", "runs", "problems", "method"):
        show(browser, section)
        assert not browser.run(WIDE), section


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2) of ``#rrggbb``."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("scheme", "towards"), [("light", -1), ("dark", 1)])
def test_the_colours_of_the_heat_map_are_in_order_and_can_be_read_on(browser, scheme, towards):
    browser.media(prefers_color_scheme=scheme)
    for scale in ("heat", "ordered"):
        shades = browser.run(f"[...Array(41)].map((_, at) => Look.ramp('{scale}', at / 40))")
        steps = [luminance(colour) for colour in shades]
        assert steps == sorted(steps, reverse=towards < 0) and len(set(steps)) == 41
        for colour, lightness in zip(shades, steps, strict=True):
            text = luminance(browser.run(f"Look.inkOn('{colour}')"))
            assert (max(text, lightness) + 0.05) / (min(text, lightness) + 0.05) >= 4.5, colour


@pytest.mark.parametrize("what", ["one run", "a run without its test", "nothing finished"])
def test_a_page_with_little_on_it_works(shared, tmp_path, what):
    folder = write_run(
        tmp_path, "rotary", 0, state="failed" if what == "nothing finished" else "done", reason="why"
    )
    if what == "a run without its test":
        (folder / "length.csv").unlink()
    shared.size(1400)
    shared.open("about:blank")
    shared.events.clear()
    shared.open(build_report(tmp_path).as_uri() + "#runs")
    (row,) = shared.wait(f"{ROWS}.length && {ROWS}")
    assert row[0].startswith(folder.name)
    shown = "!document.getElementById('compare').hidden"
    assert shared.run(shown) == (what == "one run")
    if what == "one run":
        show(shared, "compare")
        shared.wait(DRAWN)
        assert shared.run(LINES) == ["rotary"]
    assert shared.complaints == [] and not shared.run(WIDE)


def test_a_hostile_option_stays_text(shared, tmp_path):
    label = "<img src=x onerror=\"document.title='pwned'\">,a=1&b=2#c"
    for seed in range(2):
        write_run(tmp_path, "rotary", seed, run__label=label)
        write_run(tmp_path, "rotary", seed)
    shared.open("about:blank")
    shared.events.clear()
    shared.open(build_report(tmp_path).as_uri() + "#compare")
    shared.wait(DRAWN)
    choose(shared, "colour", "label")
    shared.run("document.querySelector('[data-factor=label] input').click()")
    assert shared.run(LINES) == [f"rotary label={label}"]
    address = shared.run("location.href")
    shared.open("about:blank")
    shared.open(address)  # commas, equal signs and ampersands come back as they were
    shared.wait(DRAWN)
    assert shared.run(LINES) == [f"rotary label={label}"]
    assert shared.run("document.getElementById('address-notice').hidden")
    assert shared.run("document.images.length") == 0 and shared.run("document.title") == "Lengthwise report"
    assert shared.complaints == []


@pytest.mark.slow
def test_a_thousand_runs_are_made_row_by_row(shared, tmp_path):
    grid = product(
        ("none", "rotary", "t5", "alibi"), (1, 2, 4, 8, 16), (0.001, 0.003), (2, 4, 6, 8, 10), range(5)
    )
    for encoding, heads, rate, layers, seed in grid:
        write_run(tmp_path, encoding, seed, model__heads=heads, model__layers=layers, optimizer__lr=rate)
    shared.open("about:blank")
    shared.open(build_report(tmp_path).as_uri())
    assert shared.run("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd") < 5000
    show(shared, "runs")
    made = shared.wait("document.querySelectorAll('#run-table tbody tr').length")
    assert 20 < made < 300
    for _ in range(40):
        shared.run("{ const box = document.getElementById('run-scroll'); box.scrollTop = box.scrollHeight }")
        shared.run("new Promise(done => setTimeout(done, 60))")
    assert shared.run("document.querySelectorAll('#run-table tbody tr').length") == 1000
    shared.run("document.querySelector('#run-table [data-key=longest] button').click()")
    assert shared.run("document.querySelectorAll('#run-table tbody tr').length") < 300


def test_the_link_can_be_copied_even_where_the_clipboard_is_closed(browser):
    browser.run(
        "navigator.clipboard && (navigator.clipboard.writeText = () => Promise.reject(new Error('closed')))"
    )
    browser.run("document.getElementById('copy').click()")
    browser.wait("!document.getElementById('copy-address').hidden")
    assert browser.run("document.getElementById('copy-address').value") == browser.run("location.href")


def test_control_a_request_and_a_complaint_would_be_seen(shared, page):
    shared.open(page)
    shared.events.clear()
    shared.run("fetch('https://example.invalid/x').catch(() => 0)")
    shared.run("console.error('something')")
    assert "something" in shared.complaints and len(shared.complaints) > 1  # the policy refused the request


def test_control_a_page_that_does_not_filter_would_be_seen(shared, page, outputs, tmp_path):
    text = (outputs / "report.html").read_text("utf-8")
    broken = text.replace("variants.filter((variant) => passes(variant))", "variants")
    assert broken != text
    (tmp_path / "broken.html").write_text(broken, "utf-8")
    shared.open(f"{(tmp_path / 'broken.html').as_uri()}#compare")
    shared.wait(DRAWN)
    shared.run(f"{box('pe', 'rotary')}.click()")
    assert len(shared.run(LINES)) == 6


def test_no_two_variants_look_the_same(shared, tmp_path):
    for heads in (2, 4, 8):
        write_run(tmp_path, "none", 0, model__heads=heads)
        write_run(tmp_path, "rotary", 0, model__heads=heads)
    shared.open(build_report(tmp_path).as_uri() + "#compare")
    shared.wait(DRAWN)
    looks = shared.run(f"{MEANS}.map(trace => [trace.line.color, trace.line.dash])")
    assert len(looks) == 6 and len({tuple(look) for look in looks}) == 6
    greys = shared.run(f"{MEANS}.filter(trace => trace.meta.mean.startsWith('none')).map(t => t.line.color)")
    assert len(greys) == 3 and len(set(greys)) == 1


def test_a_long_name_widens_no_page(shared, tmp_path):
    for seed in range(2):
        write_run(tmp_path, "rotary", seed, run__label="x" * 300)
        write_run(tmp_path, "none", seed, model__heads=8)
    shared.open("about:blank")
    shared.open(build_report(tmp_path).as_uri())
    for width in (1400, 400):
        shared.size(width, mobile=width < 600)
        shared.wait(f"!({WIDE})")  # figures follow in a moment
    style = ".facets h4 { overflow-wrap: normal !important; white-space: nowrap; }"
    shared.run(
        f"document.head.append(Object.assign(document.createElement('style'), {{textContent: '{style}'}}))"
    )
    assert shared.run(WIDE)  # control: a name that does not wrap would be seen
    shared.size(1400)


def test_what_is_folded_up_is_in_print(browser):
    closed = "document.querySelectorAll('details:not([open])').length"
    before = browser.run(closed)
    browser.run(f"window.addEventListener('beforeprint', () => {{ window.inPrint = {closed} }})")
    browser.send("Page.printToPDF")
    assert before > 0 == browser.run("window.inPrint")
    assert browser.run(closed) == before
