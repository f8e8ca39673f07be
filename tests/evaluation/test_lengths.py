"""Accuracy against length: right answers score 1, blind ones chance, and nothing else moves the figures."""

from __future__ import annotations

import logging
import math
from functools import partial

import pytest
import torch

from lengthwise.build import build_parts
from lengthwise.evaluation.length import evaluate_lengths, evaluation_id, summarise, with_baselines
from lengthwise.nn.position import Learned
from lengthwise.tasks import (
    AboveMean,
    Copy,
    Digits,
    Layout,
    Majority,
    Offsets,
    Reverse,
    SetMax,
    Sort,
    UniqueCopy,
    WordOrder,
)
from lengthwise.tasks import test_items as items_of
from support.configs import composed
from support.lengths import test_lengths

TASKS = (WordOrder, Majority, SetMax, Offsets, AboveMean, Reverse, Sort, UniqueCopy)
SHAPES = ("encoder", "decoder", "encoder_decoder")


def measure(model, layout, lengths, count=64, **options):
    options.setdefault("train_lengths", [4, 5])
    return evaluate_lengths(model, layout.task, layout, lengths, count, **options)


def of(rows, stratum="all"):
    return [row for row in rows if row["stratum"] == stratum]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
def test_right_answers_score_one(task, shape, cheats):
    layout = Layout(task(), shape)
    rows = measure(cheats["Oracle"](len(layout.vocabulary)), layout, [5, 9])
    for row in rows:
        if row["n"]:
            assert row["token_accuracy"] == row["exact_match"] == 1.0
            assert row["loss"] < 1e-9
    assert [row["n"] for row in of(rows)] == [64, 64]


@pytest.mark.parametrize("shape", ("decoder", "encoder_decoder"))
@pytest.mark.parametrize("task", (Reverse, UniqueCopy), ids=lambda task: task.__name__)
def test_right_answers_score_one_when_really_decoded(task, shape, cheats):
    """A memory of every prefix decodes without the targets, since it is not handed any."""
    layout = Layout(task(), shape)
    batch = layout(items_of(layout.task, 5, 16))
    model = cheats["Memory"](len(layout.vocabulary), batch, prefix_stable=False)
    (row,) = of(measure(model, layout, [5], 16))
    assert (row["protocol"], row["token_accuracy"], row["exact_match"]) == ("greedy", 1.0, 1.0)


@pytest.mark.parametrize("readout", ("front", "end", "mean"))
def test_every_readout(readout, cheats):
    layout = Layout(WordOrder(), "encoder", readout)
    (row,) = of(measure(cheats["Oracle"](len(layout.vocabulary)), layout, [6]))
    assert (row["exact_match"], row["n_tokens"], row["protocol"]) == (1.0, 64, "parallel")


@pytest.mark.parametrize(
    "task, shape, protocol",
    [
        (WordOrder, "encoder", "parallel"),
        (WordOrder, "decoder", "parallel"),
        (WordOrder, "encoder_decoder", "parallel"),
        (Offsets, "decoder", "parallel"),
        (Offsets, "encoder_decoder", "teacher_forced"),
        (Copy, "encoder", "parallel"),
        (Copy, "decoder", "teacher_forced"),
        (Copy, "encoder_decoder", "teacher_forced"),
    ],
)
def test_only_what_reads_its_own_answers_is_taught_by_forcing(task, shape, protocol, build):
    layout = Layout(task(), shape)
    assert {row["protocol"] for row in measure(build(layout, "rotary"), layout, [5])} == {protocol}


def test_one_wrong_symbol_fails_the_sequence_but_not_the_symbols(cheats):
    layout = Layout(Reverse(), "decoder")

    class LastWrong(cheats["Oracle"]):
        def logits_of(self, batch):
            logits = super().logits_of(batch)
            end = (batch.targets == layout.vocabulary.eos).nonzero()
            logits[end[:, 0], end[:, 1]] = 0.0  # the end token is missed, every answer symbol is right
            logits[end[:, 0], end[:, 1], 0] = 1.0
            return logits

    (row,) = measure(LastWrong(len(layout.vocabulary)), layout, [5])
    assert (row["token_accuracy"], row["exact_match"]) == (1.0, 0.0)
    assert row["n_tokens"] == 5 * 64  # the end token is not counted among the symbols
    assert row["loss"] > 0.1


def test_random_answers_score_chance(cheats):
    for task, shape in ((SetMax(), "encoder"), (Copy(symbols=4), "encoder"), (WordOrder(), "decoder")):
        layout = Layout(task, shape)
        model = cheats["Noise"](len(layout.vocabulary), task.answer_ids)
        (row,) = of(measure(model, layout, [6], 1024))
        chance, n = 1 / len(task.answer_ids), row["n_tokens"]
        assert abs(row["token_accuracy"] - chance) < 3 * math.sqrt(chance * (1 - chance) / n)


def choosing(model, task):
    """The model, confined to the two labels and told apart by small differences."""
    first, second = task.answer_ids
    with torch.no_grad():
        model.head.bias.fill_(-1e3)
        model.head.bias[[first, second]] = 0.0
        model.head.weight[first] = -model.head.weight[second]
    return model


def test_a_model_blind_to_order_scores_exactly_one_half_on_twins(build):
    layout = Layout(WordOrder(), "encoder", "mean")
    model = choosing(build(layout, "none"), layout.task)
    for row in of(measure(model, layout, [4, 10, 40], 256)):
        assert row["token_accuracy"] == row["exact_match"] == 0.5


def test_a_model_that_sees_order_need_not(build):
    """Control: the twins alone do not force one half."""
    layout = Layout(WordOrder(), "encoder", "mean")
    model = choosing(build(layout, "sinusoidal"), layout.task)
    assert any(row["token_accuracy"] != 0.5 for row in of(measure(model, layout, list(range(4, 12)), 256)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("task", (WordOrder, UniqueCopy, Offsets), ids=lambda task: task.__name__)
def test_the_token_budget_changes_nothing(task, shape, build):
    layout = Layout(task(), shape)
    model = build(layout, "sinusoidal")
    for budget in (1, 100, 333):
        whole, parts = (
            measure(model, layout, [7], 40),
            measure(model, layout, [7], 40, max_tokens_per_batch=budget),
        )
        for row, other in zip(whole, parts, strict=True):
            assert row.pop("loss") == pytest.approx(other.pop("loss"), rel=1e-5)
            assert row == other


def test_the_budget_test_sees_a_model_that_mixes_sequences(build, cheats):
    layout = Layout(Offsets(), "encoder")
    model = cheats["BatchMixed"](build(layout, "sinusoidal"))
    one, other = (measure(model, layout, [7], 40, max_tokens_per_batch=budget)[0] for budget in (1, 10**6))
    assert abs(one["loss"] - other["loss"]) > 1e-3


def test_the_list_of_lengths_changes_nothing(build):
    layout = Layout(WordOrder(), "encoder")
    model = build(layout, "rotary")
    alone = measure(model, layout, [9])
    assert alone == [row for row in measure(model, layout, [30, 4, 9]) if row["length"] == 9]


def test_as_many_sequences_as_asked_for(build):
    layout = Layout(WordOrder(), "encoder")
    assert [row["n"] for row in of(measure(build(layout), layout, [9, 12], 300))] == [300, 300]


def test_strata_split_by_where_the_evidence_lies(build):
    layout = Layout(WordOrder(), "encoder")
    rows = measure(build(layout, "rotary"), layout, [5, 20], 256, train_lengths=[4, 5])
    evidence = items_of(layout.task, 20, 256).evidence
    every, *parts = (row for row in rows if row["length"] == 20)
    names = ["evidence_inside", "evidence_outside", "distance_inside", "distance_outside"]
    assert [row["stratum"] for row in parts] == names
    assert parts[0]["n"] == (evidence < 5).sum()
    assert parts[2]["n"] == (evidence >= 15).sum()
    for inside, outside in (parts[:2], parts[2:]):
        assert inside["n"] + outside["n"] == every["n"] == 256
        weighted = sum(row["token_accuracy"] * row["n"] for row in (inside, outside)) / 256
        assert weighted == pytest.approx(every["token_accuracy"])
    empty = of(rows, "evidence_outside")[0]
    assert (empty["n"], empty["token_accuracy"], empty["exact_match"], empty["loss"]) == (0, None, None, None)


def test_no_strata_without_evidence(build):
    layout = Layout(Majority(), "encoder")
    assert [row["stratum"] for row in measure(build(layout), layout, [5, 7])] == ["all", "all"]


@pytest.mark.parametrize("beyond, limit", [("error", 7), ("untrained", 16)])
def test_a_length_past_the_table_is_marked_and_stops_no_other(beyond, limit, build, caplog):
    layout = Layout(WordOrder(), "encoder", "end")
    table = partial(Learned, max_length=16, beyond=beyond)
    model = build(layout, table, trained=7)
    with caplog.at_level(logging.WARNING):
        rows = measure(model, layout, [4, 40, limit - 1, 6], train_lengths=[4, 6])
    done = {row["length"]: row for row in of(rows)}
    assert done[40]["flags"] == "not_defined"
    assert (done[40]["n"], done[40]["n_tokens"], done[40]["exact_match"]) == (0, 0, None)
    assert len([row for row in rows if row["length"] == 40]) == 5
    assert all(done[length]["n"] == 64 for length in (4, 6, limit - 1))
    assert done[6]["flags"] == ""
    assert done[limit - 1]["flags"] == ("untrained_positions" if beyond == "untrained" else "")
    assert "40" in caplog.text


@pytest.mark.parametrize("task, target", [("word_order", 1), ("copy", 11)])
def test_each_side_of_an_encoder_decoder_is_trained_to_its_own_length(task, target):
    """Past it a table is clamped to its last trained row, not to one that was never seen."""
    config = composed(f"task={task}", "model=encoder_decoder", "pe=learned", "pe.beyond=clamp")
    task, layout, model = build_parts(config)
    assert (model.encoder.position.trained, model.decoder.position.trained) == (10, target)
    rows = measure(model, layout, [10, 11], 8, train_lengths=config["data"]["lengths"])
    assert [row["flags"] for row in of(rows)] == ["", "clamped_positions"]


def test_a_fault_within_the_trained_lengths_is_not_called_undefined(cheats):
    class Broken(cheats["Oracle"]):
        def logits_of(self, batch):
            raise ValueError("features are missing")

    layout = Layout(WordOrder(), "encoder")
    with pytest.raises(ValueError, match="features are missing"):
        measure(Broken(len(layout.vocabulary)), layout, [5])


def test_a_length_the_task_does_not_have_is_refused_before_anything_runs(cheats):
    class Untouched(cheats["Oracle"]):
        def logits_of(self, batch):
            pytest.fail("something ran")

    layout = Layout(WordOrder(), "encoder")
    with pytest.raises(ValueError, match="length 2"):
        measure(Untouched(len(layout.vocabulary)), layout, [5, 2])


def test_features(build):
    layout = Layout(Digits(), "encoder")
    length = test_lengths(layout.task)[0]
    (row,) = of(measure(build(layout, "learned", trained=20), layout, [length], 32, train_lengths=[length]))
    assert row["n"] == 32 and math.isfinite(row["loss"])


def test_the_model_is_left_as_it_was(build):
    layout = Layout(WordOrder(), "encoder")
    model = build(layout, "alibi").train()
    model.head.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    measure(model, layout, [5])
    assert model.training and not model.head.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    batch = layout(items_of(layout.task, 5, 4))
    model(batch).sum().backward()  # nothing cached in evaluation gets in training's way


def test_dropout_is_off(build):
    layout = Layout(WordOrder(), "encoder")
    model = build(layout, "alibi", dropout=0.5).train()
    assert measure(model, layout, [5]) == measure(model, layout, [5])


def test_the_token_budget_bounds_every_batch(cheats):
    sizes = []

    class Counted(cheats["Oracle"]):
        def logits_of(self, batch):
            sizes.append(len(batch))
            return super().logits_of(batch)

    layout = Layout(WordOrder(), "encoder")
    measure(Counted(len(layout.vocabulary)), layout, [5], 10, max_tokens_per_batch=24)
    assert sizes == [1, 4, 4, 2]  # one to see whether the length is defined


def rows_of(figures, protocol="parallel"):
    return [
        {
            "stratum": "all",
            "protocol": protocol,
            "length": length,
            "token_accuracy": figure,
            "exact_match": figure,
        }
        for length, figure in figures.items()
    ]


def test_summary():
    figures = {4: 1.0, 5: 0.98, 7: 0.95, 10: 0.91, 20: 0.5, 30: 0.95}
    strata = [{**row, "stratum": "evidence_inside", "exact_match": 0.0} for row in rows_of(figures)]
    summary = summarise(rows_of(figures) + strata, [4, 5, 6, 10])
    assert summary["exact_match"]["in_distribution"] == pytest.approx((1.0 + 0.98 + 0.91) / 3)
    assert summary["exact_match"]["extrapolation"] == pytest.approx((0.5 + 0.95) / 2)
    assert summary["exact_match"]["reach"] == 10  # 30 is above the threshold, 20 in between is not
    assert summary["not_defined"] == []


def test_summary_does_not_average_over_the_lengths_an_encoding_happens_to_reach():
    summary = summarise(rows_of({4: 1.0, 20: 0.99, 30: None}), [4])
    assert summary["token_accuracy"] == {"in_distribution": 1.0, "extrapolation": None, "reach": 20}
    assert summary["not_defined"] == [30]
    assert summarise(rows_of({4: 0.5, 20: 1.0}), [4])["exact_match"]["reach"] == 0


def test_summary_refuses_two_evaluations_at_once():
    with pytest.raises(ValueError, match="one evaluation"):
        summarise(rows_of({4: 1.0}) * 2, [4])


def test_baselines_are_those_of_the_task_at_that_length():
    task = WordOrder()
    rows = with_baselines(rows_of({5: 1.0, 50: 0.5}), task)
    assert [row["baselines"] for row in rows] == [task.baselines(5), task.baselines(50)]
    assert [row["best_blind"] for row in rows] == [0.5, 0.5]


def test_baselines_that_know_the_answer_so_far_are_for_models_that_are_given_it():
    known = Copy().baselines(10)
    assert known["remaining_bag"] > known["bag_optimal"]
    (forced,) = with_baselines(rows_of({10: 0.5}, "teacher_forced"), Copy())
    assert (forced["baselines"], forced["best_blind"]) == (known, known["remaining_bag"])
    for protocol in ("parallel", "greedy"):
        (row,) = with_baselines(rows_of({10: 0.5}, protocol), Copy())
        assert set(known) - set(row["baselines"]) == {"remaining_bag", "previous_only"}
        assert row["best_blind"] == known["bag_optimal"]


def test_evaluation_id_names_the_options():
    assert evaluation_id() == evaluation_id({}) == "trained"
    assert evaluation_id({"pe.base": 500}) != evaluation_id({"pe.base": 501}) != "trained"
    assert evaluation_id({"a": 1, "b": 2}) == evaluation_id({"b": 2, "a": 1})


def test_a_length_that_is_tested_otherwise_than_trained_counts_as_beyond():
    """7 was trained on, but its test items are others: not in distribution, also where it lies inside."""
    rows = rows_of({4: 1.0, 7: 0.25, 20: 0.5})
    rows[1]["flags"] = "untrained_positions;not_as_trained"
    summary = summarise(rows, [4, 7])["exact_match"]
    assert (summary["in_distribution"], summary["extrapolation"]) == (1.0, 0.375)
    rows[1]["flags"] = ""
    plain = summarise(rows, [4, 7])["exact_match"]
    assert (plain["in_distribution"], plain["extrapolation"]) == (0.625, 0.5)


def test_the_tests_of_scan_past_its_actions_are_flagged():
    task, layout, model = build_parts(
        composed("task=scan", "model=decoder", "model.width=8", "model.heads=1")
    )
    rows = evaluate_lengths(model, task, layout, [3, 7], train_lengths=[3, 7])
    flags = {(row["length"], row["stratum"]): row["flags"] for row in rows}
    assert "not_as_trained" in flags[7, "all"]
    assert "not_as_trained" not in flags[7, "short"] + flags[3, "all"]


def test_empty_answers_have_no_part_in_the_token_accuracy():
    """binary_multiplication of one symbol: nothing to answer, which every model gets right."""
    empty, full = rows_of({1: 1.0, 4: 0.95})
    empty["token_accuracy"], empty["n_tokens"] = None, 0
    summary = summarise([empty, full], [1, 4])
    assert summary["token_accuracy"] == {"in_distribution": 0.95, "extrapolation": None, "reach": 4}
    assert summary["exact_match"]["in_distribution"] == 0.975
    assert summary["not_defined"] == []
    undefined = {**empty, "exact_match": None}
    assert summarise([undefined, full], [1, 4])["token_accuracy"]["in_distribution"] is None, "control"
