"""Bins of lengths, the mean over a range of them, and the two ways to test on a text."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from lengthwise.batch import IGNORE
from lengthwise.errors import ConfigError
from lengthwise.evaluation.bins import bin_items, evaluate_bins
from lengthwise.evaluation.length import evaluate_lengths
from lengthwise.evaluation.perplexity import perplexity
from lengthwise.measure import _protocols
from lengthwise.nn.position import Learned
from lengthwise.runs.lengths import bin_name, bin_of, parse_bins
from lengthwise.tasks import Copy, Layout, Majority, Sort, Text, WordOrder, bin_lengths
from lengthwise.tasks import test_items as items_of

# -- which lengths


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], []),
        (None, []),
        ([[101, 150], [51, 100]], [[51, 100], [101, 150]]),
        (["51-100", [7, 7]], [[7, 7], [51, 100]]),
        ("51-100", [[51, 100]]),
        ([[1, 5], [1, 5]], [[1, 5]]),
    ],
)
def test_bins_as_they_may_be_written(given, found):
    assert parse_bins(given) == found
    for low, high in found:
        assert bin_of(bin_name(low, high)) == (low, high)


@pytest.mark.parametrize(
    "given", [[5], [[5]], [[5, 4]], [[0, 4]], [[1, 2, 3]], ["a-b"], 7, [[1, 2.5]], [[True, 2]]]
)
def test_what_is_no_bin_is_refused(given):
    with pytest.raises(ConfigError, match=r"evaluation\.bins=.*shortest and its longest"):
        parse_bins(given)


def test_no_other_stratum_is_a_bin():
    assert not any(map(bin_of, ("all", "evidence_inside", "sliding_window", None, "bin_3")))


def test_lengths_are_uniform_over_the_bin():
    lengths = bin_lengths(Copy(), 51, 100, 20_000)
    assert (lengths.min(), lengths.max()) == (51, 100)
    counts = np.bincount(lengths)[51:]
    assert chisquare(counts).pvalue > 1e-4
    assert chisquare(counts[:-1] + counts[1:][::-1] * (np.arange(49) % 2)).pvalue < 1e-4  # control
    assert (bin_lengths(Copy(), 51, 100, 20_000) == lengths).all()
    assert (bin_lengths(Copy(), 51, 101, 20_000) != lengths).any()


def test_only_lengths_that_the_task_has_are_drawn():
    assert set(bin_lengths(Majority(), 1, 9, 500).tolist()) == {1, 3, 5, 7, 9}
    assert bin_lengths(WordOrder(), 1, 5, 500).min() == WordOrder().min_length
    with pytest.raises(ValueError, match="length 4 is not possible"):
        bin_lengths(Majority(), 4, 4, 5)
    with pytest.raises(ValueError, match="length 151 is not possible; use lengths from 1 to 150"):
        bin_lengths(Sort(), 101, 151, 5)


def test_items_of_a_bin_are_those_of_its_lengths():
    sets = bin_items(Copy(symbols=9), 5, 8, 300)
    assert sum(map(len, sets)) == 300
    assert [int(examples.lengths[0]) for examples in sets] == [8, 7, 6, 5]
    for examples in sets:
        alone = items_of(Copy(symbols=9), int(examples.lengths[0]), len(examples))
        assert np.array_equal(examples.inputs, alone.inputs)


# -- figures


def test_right_answers_score_one_in_a_bin(cheats):
    for shape in ("encoder", "decoder", "encoder_decoder"):
        layout = Layout(Copy(), shape)
        model = cheats["Oracle"](len(layout.vocabulary))
        rows = evaluate_bins(model, layout.task, layout, [[3, 6], [7, 9]], 64, train_lengths=[3])
        assert [(row["stratum"], row["length"], row["n"]) for row in rows] == [
            ("bin_3-6", 6, 64), ("bin_7-9", 9, 64)
        ]  # fmt: skip
        assert all(row["token_accuracy"] == row["exact_match"] == 1.0 and row["loss"] < 1e-9 for row in rows)


def test_a_bin_is_the_mean_of_its_items_by_length(build):
    layout = Layout(Copy(), "encoder")
    model = build(layout, "rotary")
    options = {"train_lengths": [4, 5]}
    (row,) = evaluate_bins(model, layout.task, layout, [[4, 6]], 90, **options)
    right = symbols = 0
    for examples in bin_items(layout.task, 4, 6, 90):
        (alone,) = evaluate_lengths(
            model, layout.task, layout, [int(examples.lengths[0])], len(examples), **options
        )
        right += alone["token_accuracy"] * alone["n_tokens"]
        symbols += alone["n_tokens"]
    assert row["token_accuracy"] == pytest.approx(right / symbols) and row["n_tokens"] == symbols
    (single,) = evaluate_bins(model, layout.task, layout, [[5, 5]], 90, **options)
    (same,) = evaluate_lengths(model, layout.task, layout, [5], 90, **options)
    assert {**single, "stratum": "all"} == same


def test_a_bin_with_a_length_past_the_table_has_no_figure(build):
    layout = Layout(WordOrder(), "encoder", "end")
    model = build(layout, partial(Learned, max_length=16, beyond="error"), trained=16)
    rows = evaluate_bins(model, layout.task, layout, [[4, 15], [10, 40]], 64, train_lengths=[4])
    assert (rows[0]["n"], rows[0]["flags"]) == (64, "")
    assert (rows[1]["n"], rows[1]["exact_match"], rows[1]["flags"]) == (0, None, "not_defined")


# -- the mean over a range


def row_of(length, figure, stratum="all"):
    return {
        "length": length, "stratum": stratum, "token_accuracy": figure, "exact_match": figure, "loss": 1.0
    }  # fmt: skip


def asking(**options):
    return {"bins": [], "mean": None, "lengths": [3, 5], **options}


def test_the_mean_is_over_every_length_that_the_task_has():
    rows = [row_of(3, 0.5), row_of(5, 0.7), row_of(7, 0.0), row_of(5, 0.1, "evidence_inside")]
    found = _protocols(rows, asking(mean=[3, 6]), Majority(), "last")
    assert found == {
        "last/token_accuracy/mean_3-6": pytest.approx(0.6), "last/exact_match/mean_3-6": pytest.approx(0.6)
    }  # fmt: skip
    assert set(_protocols(rows, asking(mean=[3, 6]), Copy(), "last").values()) == {None}  # 4 was not tested
    undefined = [row_of(3, None), row_of(5, 0.7)]
    assert set(_protocols(undefined, asking(mean=[3, 5]), Majority(), "last").values()) == {None}


def test_only_bins_that_are_asked_for_are_headlines():
    rows = [row_of(6, 0.25, "bin_3-6"), row_of(9, 0.5, "bin_7-9")]
    assert _protocols(rows, asking(bins=[[3, 6]]), Copy(), "best") == {
        "best/token_accuracy/3-6": 0.25, "best/exact_match/3-6": 0.25
    }  # fmt: skip


# -- a text


@pytest.fixture
def text(tmp_path):
    """The task on 20 kB of random letters."""
    path = tmp_path / "text"
    letters = np.random.Generator(np.random.Philox(key=1)).integers(97, 105, size=20_000)
    path.write_bytes(letters.astype(np.uint8).tobytes())
    return Text(file=str(path))


def rows_of(model, layout, lengths):
    rows = evaluate_lengths(model, layout.task, layout, lengths, 7, train_lengths=[8])
    return {(row["length"], row["stratum"]): row for row in rows}


def test_a_text_is_tested_in_both_ways_and_right_answers_score_one(text, cheats):
    layout = Layout(text, "decoder")
    rows = rows_of(cheats["Oracle"](len(layout.vocabulary)), layout, [1, 8, 100])
    assert len(rows) == 6 and all(row["token_accuracy"] == 1.0 for row in rows.values())
    assert rows[8, "all"]["n"] == 124 and rows[8, "all"]["n_tokens"] == 992  # whatever the count
    assert rows[8, "sliding_window"]["n_tokens"] == 4 * rows[8, "sliding_window"]["n"] == 992
    assert {row["protocol"] for row in rows.values()} == {"parallel"}


def test_random_symbols_score_chance_and_even_ones_lose_the_logarithm(text, cheats):
    layout = Layout(text, "decoder")
    chance = 1 / len(text.symbols)
    for row in rows_of(cheats["Noise"](len(layout.vocabulary), text.answer_ids), layout, [8, 100]).values():
        assert abs(row["token_accuracy"] - chance) < 3 * math.sqrt(chance * (1 - chance) / row["n_tokens"])

    class Even(cheats["Oracle"]):
        def logits_of(self, batch):
            return torch.zeros(*batch.tokens.shape, self.size)

    for row in rows_of(Even(16), layout, [8, 100]).values():
        assert perplexity(row["loss"]) == pytest.approx(16)


def test_what_needs_context_is_seen_in_blocks_and_not_in_sliding_windows(text, cheats):
    """A model that knows the next symbol once it has seen four: in blocks it fails at the start of each."""
    layout = Layout(text, "decoder")

    class NeedsFour(cheats["Oracle"]):
        def logits_of(self, batch):
            logits = super().logits_of(batch)
            logits[:, :4] = 0.0  # BOS and three symbols: one of those comes before its answer
            return logits

    rows = rows_of(NeedsFour(len(layout.vocabulary)), layout, [8, 100])
    assert rows[8, "sliding_window"]["loss"] < 1e-9 and rows[100, "sliding_window"]["loss"] < 1e-9
    lost = math.log(len(layout.vocabulary))
    assert rows[8, "all"]["loss"] == pytest.approx(3 / 8 * lost)
    assert rows[100, "all"]["loss"] == pytest.approx(3 / 100 * lost)


def test_what_is_not_scored_in_a_window_counts_nowhere(text):
    layout = Layout(text, "decoder")
    windows = text.whole_test(8)["sliding_window"]
    batch = layout(windows, "test", 8)
    assert (batch.targets[:, :5] == IGNORE).all() and (batch.targets[:, 5:9] != IGNORE).all()


def test_perplexity_of_nothing():
    assert perplexity(None) is None and perplexity(float("nan")) is None and perplexity(1e4) is None
    assert perplexity(math.log(7)) == pytest.approx(7)


def test_headlines_of_a_text(text):
    rows = [
        {**row_of(3, 0.5), "loss": math.log(4)},
        {**row_of(3, 0.5, "sliding_window"), "loss": math.log(3)},
        {**row_of(9, 0.5, "sliding_window"), "loss": 0.0},
    ]
    assert _protocols(rows, asking(), text, "last") == {
        "last/perplexity/3": pytest.approx(4), "last/perplexity/3/sliding_window": pytest.approx(3)
    }  # fmt: skip
    assert _protocols(rows[:1], asking(), text, "last") == {}
