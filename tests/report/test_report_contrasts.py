"""Comparisons that a study states: what is refused, what counts as one family, and where they are said."""

from __future__ import annotations

import pytest
from scipy import stats

from lengthwise.composing import compose
from lengthwise.errors import ConfigError
from lengthwise.report import export_results
from lengthwise.report.analysis import analyse
from lengthwise.report.blind import baseline_lines, best_blind_lines, worded
from lengthwise.report.collect import collect
from lengthwise.report.comparison import headlines, normalised
from lengthwise.report.findings import findings
from lengthwise.report.page import environment
from lengthwise.report.words import sentence, stated_when
from lengthwise.sweeps.contrasts import Stated, stated_contrasts
from lengthwise.tasks.contract import BLIND, WINDOW
from support.html_page import Page
from support.synthetic_runs import add_rows, with_columns, write_run

ROTARY_T5 = {"a": "rotary", "b": "t5", "at_length": 100, "alike_within": 0.02}


def test_what_a_study_states():
    assert stated_contrasts({}) == stated_contrasts({"contrasts": None}) == []
    stated = stated_contrasts({"contrasts": [ROTARY_T5, {"a": "rotary", "b": "t5"}]})
    assert stated == [Stated("rotary", "t5", 100, 0.02), Stated("rotary", "t5")]


WRONG = {
    "no list": ({"a": "rotary", "b": "t5"}, "give a list"),
    "no mapping": (["rotary"], r"contrasts\[0\]='rotary': give a and b"),
    "an unknown key": (
        [ROTARY_T5 | {"margin": 1}],
        r"contrasts\[0\].margin: .*it has a, b, at_length, alike_within",
    ),
    "no b": ([{"a": "rotary"}], r"contrasts\[0\].b=None: name a variant"),
    "a number for a name": ([{"a": 8, "b": "t5"}], r"\.a=8: name a variant"),
    "one variant": ([{"a": "t5", "b": "t5"}], "both 't5'"),
    "a length below 1": ([ROTARY_T5 | {"at_length": 0}], r"at_length=0: .*whole number from 1"),
    "half a length": ([ROTARY_T5 | {"at_length": 10.5}], r"at_length=10\.5: "),
    "a margin in points": ([ROTARY_T5 | {"alike_within": 2}], r"alike_within=2: .*0\.02 for 2 points"),
    "no margin": ([ROTARY_T5 | {"alike_within": 0}], "alike_within=0: "),
    "a margin in words": ([ROTARY_T5 | {"alike_within": "2 %"}], "alike_within='2 %': "),
    "yes for a margin": ([ROTARY_T5 | {"alike_within": True}], "alike_within=True: "),
    "the same twice": (
        [ROTARY_T5, {"a": "t5", "b": "rotary", "at_length": 100}],
        r"contrasts\[1\] compares the same as study\.contrasts\[0\]",
    ),
}


@pytest.mark.parametrize("given", WRONG)
def test_what_is_no_comparison_is_refused(given: str):
    contrasts, words = WRONG[given]
    with pytest.raises(ConfigError, match=words):
        stated_contrasts({"contrasts": contrasts})


def test_a_study_is_refused_before_it_runs():
    compose(["+study.contrasts=[{a: rotary, b: t5, alike_within: 0.02}]"])
    with pytest.raises(ConfigError, match=r"study\.contrasts\[0\]\.b"):
        compose(["+study.contrasts=[{a: rotary}]"])


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Three variants in two settings, which differ in the trained lengths."""
    folder = tmp_path_factory.mktemp("outputs")
    for seed in range(4):
        for encoding in ("rotary", "t5", "learned"):
            write_run(folder, encoding, seed)
            write_run(folder, encoding, seed, data__lengths=[4, 5, 6])
    return folder


def test_all_that_a_study_states_is_one_family(outputs):
    stated = [ROTARY_T5, {"a": "rotary", "b": "learned", "at_length": 20}]
    sections = analyse(collect(outputs), {"contrasts": stated})
    contrasts = [contrast for section in sections for contrast in section.contrasts]
    assert len(sections) == 2 and len(contrasts) == 4
    ps = sorted(p for c in contrasts for p in (c.p, c.p_alike) if p is not None)
    assert len(ps) == 6
    smallest = min(contrasts, key=lambda contrast: contrast.p)
    assert smallest.p_holm == pytest.approx(min(1, 6 * ps[0]))


def test_what_is_stated_and_not_answered_counts_in_the_family(tmp_path):
    for seed in range(4):
        for encoding in ("rotary", "t5"):
            write_run(tmp_path, encoding, seed)
    write_run(tmp_path, "alibi", 7)  # another seed
    stated = [{"a": "rotary", "b": "t5"}]
    lost = [
        {"a": "rotary", "b": "gone", "alike_within": 0.02}, {"a": "rotary", "b": "alibi"},
        {"a": "rotary", "b": "t5", "at_length": 33},
    ]  # fmt: skip
    (alone,), (section,) = (analyse(collect(tmp_path), {"contrasts": c}) for c in (stated, stated + lost))
    (before,), (after,) = alone.contrasts, section.contrasts
    assert before.p_holm == before.p == after.p < 1
    assert after.p_holm == pytest.approx(min(1, 5 * after.p))
    assert any("Of 4 contrasts that the study states 1 is answered here" in note for note in section.notes)
    assert any("share no seed at length 100" in note for note in section.notes)
    assert any("share no test at length 33" in note for note in section.notes)
    assert alone.unanswered == 0 and not any("contrast" in note for note in alone.notes)


def test_each_variant_is_compared_with_the_blind_rules_of_its_own(tmp_path):
    """Decoders are also compared with rules that know the answer so far, and have a better best blind rule."""
    decoder = {"model___target_": "lengthwise.nn.transformer.Decoder"}
    for seed in range(2):
        write_run(tmp_path, "rotary", seed)
        with_columns(
            write_run(tmp_path, "rotary", seed, **decoder), best_blind="0.8", baseline_remaining_bag="0.8"
        )
    (section,) = analyse(collect(tmp_path))
    encoder_, decoder_ = sorted(section.groups, key=lambda group: "Decoder" in group.label.title())
    assert set(section.best_blind(encoder_).values()) == {0.5} and set(
        section.best_blind(decoder_).values()
    ) == {0.8}
    for one in headlines(section):
        blind = 0.8 if one.group == decoder_ else 0.5
        assert one.normalised == pytest.approx((one.at.mean - blind) / (1 - blind))
    lines = dict(baseline_lines(section))
    assert set(lines) == {"uniform = bag optimal", f"remaining bag ({decoder_.label})"}
    assert len(best_blind_lines(section)) == 2
    summary = (export_results(tmp_path, tmp_path / "results") / "summary.md").read_text("utf-8")
    assert f"| *best blind rule ({decoder_.label})* |" in summary and f"({encoder_.label})* |" in summary


def test_a_rule_that_is_not_blind_is_not_called_so(tmp_path):
    assert worded("window") == f"window of {WINDOW} symbols, not blind to order" and "window" not in BLIND
    assert not any("not blind" in worded(name) for name in BLIND)
    for seed in range(2):
        with_columns(write_run(tmp_path, "rotary", seed), baseline_window="0.7")
    (section,) = analyse(collect(tmp_path))
    assert [name for name, _ in baseline_lines(section)] == ["uniform = bag optimal", worded("window")]
    assert [name for name, _ in best_blind_lines(section)] == ["best blind rule"]


def test_what_no_study_stated_is_corrected_within_its_section(outputs):
    for section in analyse(collect(outputs)):
        smallest = min(section.contrasts, key=lambda contrast: contrast.p)
        assert len(section.contrasts) == 2 and not section.stated
        assert smallest.p_holm == pytest.approx(min(1, 2 * smallest.p))


@pytest.mark.parametrize("study", [{}, {"contrasts": [ROTARY_T5]}], ids=["exploratory", "stated"])
def test_every_comparison_is_a_sentence_in_the_summary(outputs, tmp_path, study):
    text = (export_results(outputs, tmp_path, study=study) / "summary.md").read_text("utf-8")
    for section in analyse(collect(outputs), study):
        assert section.contrasts
        for contrast in section.contrasts:
            assert f"- {sentence(contrast)}" in text
    assert ("stated in the study" in text) == bool(study)
    assert ("exploratory" in text) != bool(study)


def rendered(section) -> str:
    from lengthwise.report import analysis, words

    template = environment().get_template("contrasts.html.j2")
    return Page(
        template.render(section=section, analysis=analysis, words=words, verdict_seeds=10, view={})
    ).text


def test_the_page_says_each_verdict_in_its_table(outputs):
    (section, _) = analyse(collect(outputs), {"contrasts": [ROTARY_T5]})
    text = rendered(section)
    assert "p alike, Holm" in text and "not resolved with 4 seeds, provisional" in text
    (section, _) = analyse(collect(outputs))
    text = rendered(section)
    assert "p alike" not in text and "Exploratory" in text
    assert all(sentence(contrast).replace("\u00a0", " ") in text for contrast in section.contrasts)


def test_normalised_by_the_best_blind_rule():
    assert normalised(0.5, 0.5) == 0 and normalised(1.0, 0.5) == 1 and normalised(0.75, 0.5) == 0.5
    assert normalised(0.4, 0.5) == pytest.approx(-0.2) and normalised(0.5, 0.25) == pytest.approx(1 / 3)
    assert normalised(0.9, None) is None and normalised(0.9, 1.0) is None


def test_headlines_show_best_seed_share_of_what_blindness_leaves_and_successes(outputs):
    (section, _) = analyse(collect(outputs))
    for one in headlines(section):
        points = [at[100] for at in section.curve(one.group).seeds.values()]
        assert one.at.best == max(points) > one.at.mean
        assert one.normalised == pytest.approx((one.at.mean - 0.5) / 0.5)
        assert one.success.successes == sum(point >= 0.9 for point in points) and one.success.n == 4
        exact = stats.binomtest(one.success.successes, 4).proportion_ci(method="exact")
        assert (one.success.low, one.success.high) == pytest.approx((exact.low, exact.high))
    assert "best seed" in rendered(section)


@pytest.mark.parametrize(
    ("accuracy", "said"),
    [
        (0.5, "which is the best of the blind rules that are known"),
        (0.51, "which the test does not tell from the best of the blind rules"),
        (0.55, None),
    ],
)
def test_no_better_than_blind_is_said_as_far_as_the_test_tells(tmp_path, accuracy, said):
    for seed in range(2):
        folder = write_run(tmp_path, "none", seed)
        add_rows(folder, {"length": 100, "token_accuracy": accuracy, "exact_match": accuracy})
    (section,) = analyse(collect(tmp_path))
    blind = [finding.text for finding in findings(section) if finding.about == "No better than blind"]
    assert len(blind) == (said is not None)
    assert said is None or said in blind[0]


def test_what_was_stated_later_is_told_apart(tmp_path):
    """By the record that the study's first sweep left; without one nothing is claimed."""
    for encoding in ("rotary", "t5", "learned"):
        for seed in range(3):
            write_run(tmp_path, encoding, seed)
    first, second = {"a": "rotary", "b": "t5"}, {"a": "rotary", "b": "learned"}
    for start, claims, later in (
        (None, "stated in the study", 0),
        ([first, second], "stated before the runs", 0),
        ([first], "stated in the study", 1),
    ):
        study = {"contrasts": [first, second], "stated_at_start": start}
        (section,) = analyse(collect(tmp_path), study)
        sentences = [sentence(contrast) for contrast in section.contrasts]
        assert sum("added or changed after the runs began" in text for text in sentences) == later
        assert stated_when(section.contrasts) == claims
