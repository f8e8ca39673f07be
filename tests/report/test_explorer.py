"""What the explorer chooses from: factors, variants, thinned curves, and runs of every state."""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lengthwise.evaluation.length import summarise
from lengthwise.evaluation.verdict import SUCCESS
from lengthwise.report import build_report
from lengthwise.report.analysis import analyse
from lengthwise.report.collect import collect
from lengthwise.report.explorer import explorer, reach, reached
from lengthwise.report.factors import varying
from lengthwise.report.page import asset
from lengthwise.report.reading import Reader, parse_config
from lengthwise.report.sparse import COLUMNS, POINTS, sparse, spread
from lengthwise.report.study import parts_of, whole_of
from lengthwise.report.training import MOST, thinned, training_curves
from support.synthetic_runs import CONFIG, ENCODINGS, TRAINED, write_run

POST = {"_target_": "lengthwise.nn.norm.PostNorm", "_partial_": True}


def explored(outputs, **options):
    collection = collect(outputs, **options)
    data, problems = explorer(collection, analyse(collection))
    json.dumps(data, allow_nan=False)
    return data, problems


def factors(data):
    return {factor["name"]: factor["values"] for factor in data["factors"]}


# --- factors


def test_factors_are_what_the_runs_differ_in(tmp_path):
    for heads in (16, 8):
        write_run(tmp_path, "rotary", 0, model__heads=heads)
        write_run(tmp_path, "none", 1, model__heads=heads, norm=POST)
    write_run(tmp_path, "t5", 2, model__heads=2, state="failed", reason="x")
    data, _ = explored(tmp_path)
    assert factors(data) == {"pe": ["none", "rotary", "t5"], "norm": ["post", "pre"], "heads": [2, 8, 16]}
    for variant in data["variants"]:
        chosen = {
            f["name"]: f["values"][at] for f, at in zip(data["factors"], variant["factors"], strict=True)
        }
        assert variant["label"].startswith(chosen["pe"])
        assert chosen["norm"] == ("post" if chosen["pe"] == "none" else "pre")


def test_an_option_counts_only_between_runs_that_could_have_it(tmp_path):
    write_run(tmp_path, "rotary", 0, pe__base=10000)
    write_run(tmp_path, "none", 0)
    assert set(factors(explored(tmp_path)[0])) == {"pe"}
    write_run(tmp_path, "rotary", 0, pe__base=500)
    assert factors(explored(tmp_path)[0]) == {"pe": ["none", "rotary"], "pe.base": [500, 10000, None]}


def test_steps_precision_and_versions_are_factors_too(tmp_path):
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "rotary", 1, start={"precision": "bf16-mixed"})
    assert factors(explored(tmp_path)[0]) == {"precision": ["32-true", "bf16-mixed"]}


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([{"a": 1, "b": 2}, {"a": 2, "b": 2}], ["a"]),
        ([{"a": 1, "b": 1}, {"a": 2, "b": 2}], ["a"]),  # the same twice
        ([{"a": 1, "pe": "x"}, {"a": 2, "pe": "y"}], ["pe", "a"]),
        ([{"a": 1}, {"a": True}], ["a"]),
        ([{"a": 1}], []),
        ([], []),
    ],
)
def test_varying(rows, names):
    assert varying(rows) == names


# --- what is drawn


def test_means_intervals_and_seeds_are_those_of_the_sections(tmp_path):
    for seed in range(3):
        write_run(tmp_path, "rotary", seed)
        write_run(tmp_path, "none", seed)
    collection = collect(tmp_path)
    (section,) = sections = analyse(collection)
    data, _ = explorer(collection, sections)
    for group, variant in zip(section.groups, data["variants"], strict=True):
        curve, found = section.curve(group), variant["curves"]["token_accuracy"]
        assert found["at"] == curve.lengths
        for name, values in (("mean", found["mean"]), ("low", found["low"]), ("high", found["high"])):
            assert values == pytest.approx(
                [getattr(curve.estimates[n], name) for n in curve.lengths], rel=1e-5
            )
        assert {str(seed) for seed in curve.seeds} == set(found["seeds"])
        assert variant["curves"]["loss"]["mean"] == [0.3] * 7
        assert variant["symmetry"]["actions"]["uniform"][0] == (
            "holds" if group.encoding == "none" else "fails"
        )
        assert (variant["symmetry"]["errors"][2] < 1e-14) == (group.encoding == "none")
    assert data["settings"][0]["measures"] == {
        "token_accuracy": "token_accuracy",
        "exact_match": "token_accuracy",
    }


def test_each_run_has_its_own_figures(tmp_path):
    for seed in range(2):
        write_run(tmp_path, "t5", seed)
    data, _ = explored(tmp_path)
    for run in data["runs"]:
        with (tmp_path / "runs" / run["run"] / "length.csv").open(newline="") as stream:
            rows = [
                {**row, "length": int(row["length"]), **{m: float(row[m]) for m in ("token_accuracy", "exact_match")}}
                for row in csv.DictReader(stream) if row["stratum"] == "all"
            ]  # fmt: skip
        trained, longest, far, ends = run["figures"]["token_accuracy"]
        own = {row["length"]: row["token_accuracy"] for row in rows}
        assert trained == pytest.approx(statistics.mean(own[n] for n in own if n in TRAINED), rel=1e-5)
        assert longest == pytest.approx(own[100], rel=1e-5)
        assert far == summarise(rows, TRAINED)["token_accuracy"]["reach"] == reach(own) > 0
        assert ends == (far == 100)
    assert reach({4: 0.89, 6: 1.0}) == 0 and reach({4: 1.0, 6: 0.5, 8: 1.0}) == 4
    assert reached({4: 1.0, 6: 0.95}) == [6, True] and reached({4: 1.0, 6: 0.5}) == [4, False]
    assert reached({4: 0.5}) == [0, False]


def test_runs_of_every_state_have_a_row_with_the_reason(tmp_path):
    write_run(tmp_path, "rotary", 0)
    write_run(tmp_path, "t5", 0, name="failed", state="failed", reason="out of memory")
    for name in ("newer", "torn", "curves"):
        write_run(tmp_path, "alibi", len(name), name=name)
    runs = tmp_path / "runs"
    (runs / "newer/status.json").write_text('{"format": 99, "state": "done"}')
    (runs / "torn/status.json").write_text('{"format": 1, "sta')
    text = (runs / "curves/train.csv").read_text().splitlines()
    (runs / "curves/train.csv").write_text("\n".join([*text[:3], "40,0.5", *text[4:]]) + "\n")
    data, problems = explored(tmp_path)
    rows = {row["run"]: (row["state"], row["why"]) for row in data["runs"]}
    assert {"failed", "newer", "torn", "curves"} < set(rows)
    assert rows["failed"] == ("failed", "out of memory")
    assert rows["newer"][0] == rows["torn"][0] == "damaged"
    assert "newer Lengthwise" in rows["newer"][1] and "status.json" in rows["torn"][1]
    assert rows["curves"][0] == "done" and "train.csv is damaged: line 4" in rows["curves"][1]
    assert [problem.run for problem in problems] == ["curves"]
    assert list(data["states"]) == ["done", "failed", "damaged"]


def test_one_run_no_test_and_no_finished_run_at_all(tmp_path):
    folder = write_run(tmp_path, "rotary", 0)
    data, _ = explored(tmp_path)
    assert len(data["variants"]) == 1 and data["factors"] == []
    assert data["variants"][0]["curves"]["token_accuracy"]["low"] == [None] * 7  # one seed has no interval
    (folder / "length.csv").unlink()
    data, _ = explored(tmp_path)
    assert data["variants"][0]["curves"] == {} and "no test" in data["runs"][0]["why"]
    other = tmp_path / "other"
    write_run(other, "rotary", 0, state="interrupted", reason="Ctrl-C")
    data, _ = explored(other)
    assert data["variants"] == [] and data["runs"][0]["why"] == "Ctrl-C"


def test_figures_that_are_not_finite_are_left_out_and_named(tmp_path):
    folder = write_run(tmp_path, "rotary", 0)
    header, *rows = (folder / "length.csv").read_text().splitlines()
    at = [header.split(",").index(name) for name in ("token_accuracy", "loss", "best_blind")]
    cells = [row.split(",") for row in rows]
    for row, value in zip(cells, ("inf", "nan", "-inf"), strict=False):
        for column in at:
            row[column] = value
    (folder / "length.csv").write_text("\n".join([header, *map(",".join, cells)]) + "\n")
    lines = (folder / "train.csv").read_text().splitlines()
    (folder / "train.csv").write_text("\n".join([*lines, "310,nan,0.003", "320,inf,0.003"]) + "\n")
    text = build_report(tmp_path).read_text("utf-8")
    assert "token_accuracy in 3 rows, loss in 3 rows, best_blind in 3 rows" in text
    data, _ = explored(tmp_path)
    (run,) = data["runs"]
    assert "left out" in run["why"] and run["training"]["loss"][1][-2:] == [None, None]


def test_studies_are_explored_as_one(tmp_path):
    names = {e: [write_run(tmp_path, e, s).name for s in range(2)] for e in ("rotary", "none", "t5")}
    far = ({"name": "far", "shows": ["accuracy"]}, names["rotary"] + names["none"])
    kept = ({"name": "kept", "shows": ["equivariance"]}, names["none"] + names["t5"])
    reader = Reader(tmp_path)

    def whole(*studies):
        parts = parts_of(tmp_path, studies=studies, reader=reader)
        return whole_of(parts, tmp_path, reader)

    both = whole(far, kept)
    assert sorted(run.name for run in both.collection.read) == sorted(
        name for own in names.values() for name in own
    )
    assert both.sections[0].measures and both.sections[0].symmetry
    assert [len(group.runs) for group in both.collection.groups] == [2, 2, 2]
    assert not whole(far, far).sections[0].symmetry  # nobody asked for it
    assert not whole(kept, kept).sections[0].measures


# --- curves of training


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.integers(4, 30))
def test_thinned_curves_keep_their_ends_and_extremes(values, most):
    kept = thinned(values, most)
    assert len(kept) <= max(most, 2) and kept == sorted(set(kept))
    assert kept[0] == 0 and kept[-1] == len(values) - 1
    seen = [values[at] for at in kept]
    assert max(seen) == max(values) and min(seen) == min(values)


def test_a_short_curve_is_kept_whole_and_a_long_one_is_not(tmp_path):
    path = write_run(tmp_path, "rotary", 0) / "train.csv"
    steps, values = training_curves(path)["loss"]
    assert steps == list(range(10, 301, 10))
    spike = "".join(
        f"{step},{9.5 if step == 777 else math.exp(-step / 500):.4f}\n" for step in range(1, 2001)
    )
    path.write_text(f"step,loss\n{spike}")
    steps, values = training_curves(path)["loss"]
    assert len(steps) <= MOST and (777, 9.5) in zip(steps, values, strict=True)
    assert training_curves(path.with_name("none.csv")) == {}


# --- many lengths


@given(st.sets(st.integers(1, 3000), min_size=1), st.integers(2, 40))
def test_spread_lengths(lengths, most):
    lengths = sorted(lengths)
    kept = spread(lengths, most)
    assert len(kept) <= most and set(kept) <= set(lengths) and kept == sorted(set(kept))
    assert {kept[0], kept[-1]} == {lengths[0], lengths[-1]}
    assert len(lengths) > most or kept == lengths


def test_of_many_lengths_some_are_shown_and_all_are_computed_with(tmp_path):
    for seed in range(2):
        write_run(tmp_path, "rotary", seed, lengths=tuple(range(4, 304)))
    collection = collect(tmp_path)
    (section,) = sections = analyse(collection)
    data, _ = explorer(collection, sections)
    (variant,), (setting,) = data["variants"], data["settings"]
    drawn = variant["curves"]["token_accuracy"]["at"]
    assert 40 < len(drawn) <= POINTS + 3 and {4, 10, 303} <= set(drawn) and setting["lengths"] == drawn
    own = section.curve(section.groups[0])
    trained = statistics.mean(own.estimates[n].mean for n in TRAINED)
    assert variant["trained"]["token_accuracy"][0] == pytest.approx(trained, rel=1e-5)
    thin = sparse(section, COLUMNS)
    assert len(thin.lengths) <= COLUMNS + 3 and len(section.lengths) == 300
    assert thin.curve(section.groups[0]).estimates[303] == own.estimates[303]
    assert sparse(thin, 1000) is thin
    text = build_report(tmp_path).read_text("utf-8")
    assert f"{len(thin.lengths)} of 300 tested lengths" in text


# --- configurations, read piece by piece


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=12,
), st.booleans())  # fmt: skip
def test_pieces_mean_what_the_whole_means(value, flow):
    config = {"task": value, "pe": {"a": value}, "Ähnlich": 1}
    text = yaml.safe_dump(config, allow_unicode=True, sort_keys=False, default_flow_style=flow).encode()
    assert parse_config(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x {k: 1}\nb: *x\n", "a: 1\na: 2\n", "--- \na: 1\n", "{a: 1, b: 2}\n",
        "a: |\n  one\n  two\nb: >\n  x\n\n  y\n",
        "- 1\n- 2\n", "a:\n- 1\n- b: 2\n\nc: 'x\n\n  y'\n", "# a remark\na: 1 # another\n\nb: 2\n", "",
    ],
)  # fmt: skip
def test_odd_texts_mean_what_they_mean(text):
    assert parse_config(text.encode()) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text", ["a: [1,\nb: 2\n", "a: 'x\nb: y\n", "a: b\nc\n", "a: *gone\nb: 1\n", "a: 1\n...\n---\nb: 1\n"]
)
def test_what_is_no_yaml_stays_none(text):
    with pytest.raises(yaml.YAMLError):
        yaml.safe_load(text)
    with pytest.raises(yaml.YAMLError):
        parse_config(text.encode())


# --- docs/report.md


def test_the_page_of_the_docs_tells_the_limits_and_the_keys_of_the_address():
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text("utf-8")
    script = str(asset("compare.js")) + str(asset("explorer.js"))
    (detail,) = re.findall(r"const DETAIL = (\d+);", script)
    (reserved,) = re.findall(r"RESERVED = new Set\(\[(.*?)\]\)", script)
    assert f"more than {detail} lines" in text and f"training curve {MOST} points" in text
    assert f"a line shows some {POINTS} and a table some {COLUMNS}" in text
    assert f"at least {100 * SUCCESS:.0f} %" in text
    assert all(f"`{key}`" in text for key in re.findall(r'"(\w+)"', reserved))


# --- a thousand runs


@pytest.mark.slow
def test_a_thousand_runs(tmp_path):
    grid = product(ENCODINGS, (CONFIG["norm"], POST), (1, 4, 8, 16), (1e-3, 3e-3, 1e-2), range(7))
    for encoding, norm, heads, rate, seed in list(grid)[:1000]:
        write_run(tmp_path, encoding, seed, norm=norm, model__heads=heads, optimizer__lr=rate)
    began = time.process_time()
    path = build_report(tmp_path)
    assert time.process_time() - began < 10
    assert path.stat().st_size < 12e6
    data, _ = explored(tmp_path)
    assert len(data["runs"]) == 1000 and np.sum([len(v["runs"]) for v in data["variants"]]) == 1000
