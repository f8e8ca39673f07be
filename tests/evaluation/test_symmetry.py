"""Certificates: exact symmetries leave rounding, broken ones do not, and a collapsed model is no symmetric one."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from lengthwise.evaluation.actions import PERMUTATIONS
from lengthwise.evaluation.modes import full_precision
from lengthwise.evaluation.symmetry import ACTIONS, COLUMNS, certificate, probe
from lengthwise.evaluation.verdict import judge, verdicts
from lengthwise.nn.position import ALiBi, Learned, Rotary, T5Bias
from lengthwise.tasks import Digits, Layout, Majority, Offsets, Reverse, UniqueCopy, WordOrder
from support.lengths import train_lengths

LENGTH = 9


def measure(model, layout, **options):
    options.setdefault("length", LENGTH)
    options.setdefault("draws", 3)
    options.setdefault("sequences", 4)
    return certificate(model, layout.task, layout, **options)


def find(rows, action, quantity="inputs", dtype="float64"):
    (row,) = [
        row for row in rows if (row["action"], row["quantity"], row["dtype"]) == (action, quantity, dtype)
    ]
    return row


@pytest.fixture
def encoder():
    return Layout(WordOrder(), "encoder", "front")


def test_no_encoding_is_equivariant_in_every_way(encoder, build):
    rows = measure(build(encoder, "none"), encoder)
    bound = {"float32": 1e-5, "float64": 1e-12}
    for row in rows:
        assert row["error_max"] < bound[row["dtype"]], row
        assert row["flags"] == ""
    assert max(row["error_max"] for row in rows if row["dtype"] == "float32") > 0  # rounding is there to see
    assert {row["action"] for row in rows} == set(ACTIONS)
    assert {row["quantity"] for row in rows} == {"inputs", "answer", "hidden_0", "hidden_1", "hidden_2"}
    assert all(tuple(row) == COLUMNS for row in rows)


@pytest.mark.parametrize("pe", ("sinusoidal", "learned", "binary", "rotary", "alibi", "t5"))
def test_every_encoding_breaks_permutations(pe, encoder, build):
    rows = measure(build(encoder, pe), encoder, per_layer=False)
    for action in PERMUTATIONS:
        for dtype in ("float32", "float64"):
            row = find(rows, action, "inputs", dtype)
            assert row["error_mean"] > 1e-3 and row["difference_mean"] > 1e-3, row


def test_a_causal_mask_breaks_them_without_any_encoding(build):
    layout = Layout(WordOrder(), "decoder")
    rows = measure(build(layout, "none"), layout)
    assert find(rows, "uniform")["error_mean"] > 1e-3
    assert find(rows, "uniform", "hidden_0")["error_max"] < 1e-12  # the embedding is not to blame


@pytest.mark.parametrize(
    "pe, keeps", [("alibi", True), ("none", True), ("t5", False), ("rotary", False), ("sinusoidal", False)]
)
def test_reversal_of_the_whole_sequence(pe, keeps, encoder, build):
    row = find(measure(build(encoder, pe), encoder), "whole_reversal")
    assert (row["error_max"] < 1e-12) == keeps
    assert (row["error_max"] > 1e-3) != keeps


def test_reversal_around_a_fixed_slot_is_another_thing(encoder, build):
    """Also with a symmetric bias: the slot's distances change."""
    assert find(measure(build(encoder, "alibi"), encoder), "reversal")["error_max"] > 1e-3


def test_reversal_without_slots(build):
    layout = Layout(Offsets(), "encoder")
    rows = measure(build(layout, "alibi"), layout)
    assert find(rows, "reversal")["error_max"] < 1e-12
    assert not [row for row in rows if row["quantity"] == "answer"]


@pytest.mark.parametrize("shape", ("encoder", "decoder", "encoder_decoder"))
@pytest.mark.parametrize(
    "pe, keeps",
    [
        ("none", True),
        ("rotary", True),
        ("alibi", True),
        ("t5", True),
        ("sinusoidal", False),
        ("learned", False),
    ],
)
def test_translation_of_the_position_numbers(pe, keeps, shape, build):
    layout = Layout(WordOrder(), shape)
    row = find(measure(build(layout, pe), layout, per_layer=False), "translation", "answer")
    assert (row["error_max"] < 1e-11) == keeps
    assert (row["error_max"] > 1e-3) != keeps


@pytest.mark.parametrize("shape", ("encoder", "decoder", "encoder_decoder"))
@pytest.mark.parametrize("pe", ("none", "sinusoidal", "learned", "rotary", "alibi", "t5"))
def test_padding_changes_nothing(pe, shape, build):
    for task in (WordOrder(), UniqueCopy(symbols=12)):
        layout = Layout(task, shape)
        for row in measure(build(layout, pe), layout, actions=["padding"]):
            assert row["error_max"] < {"float32": 1e-5, "float64": 1e-12}[row["dtype"]], row
            assert not row["flips"]


@pytest.mark.parametrize("pe", ("none", "rotary"))
def test_a_forgotten_mask_shows(pe, encoder, build, cheats):
    rows = measure(cheats["PadsSeen"](build(encoder, pe)), encoder, actions=["padding"])
    assert find(rows, "padding")["error_mean"] > 1e-3
    assert find(rows, "padding", "answer")["error_mean"] > 1e-3


def test_dividing_twice_exposes_collapse(encoder, build, cheats):
    model = cheats["Collapsed"](build(encoder, "sinusoidal"))
    row = find(measure(model, encoder, per_layer=False), "uniform")
    assert row["error_max"] < 1e-8  # looks symmetric
    assert row["difference_mean"] > 0.1  # is not
    assert judge([row]) == "fails"


def test_a_constant_model_is_called_collapsed(encoder, build, cheats):
    model = cheats["Collapsed"](build(encoder, "sinusoidal"))
    model.strength = 0.0
    row = find(measure(model, encoder, per_layer=False), "uniform")
    assert (row["error_max"], row["difference_mean"], row["flags"]) == (0.0, None, "collapsed")
    assert judge([row]) == "unclear"


@pytest.mark.parametrize("readout", ("front", "end", "mean"))
def test_invariance_of_the_answer(readout, build):
    layout = Layout(Majority(), "encoder", readout)
    rows = measure(build(layout, "none"), layout)
    assert find(rows, "uniform", "answer")["error_max"] < 1e-12
    assert find(rows, "whole_reversal", "answer")["error_max"] < 1e-12
    has_inputs = any(row["quantity"] == "inputs" for row in rows)
    assert has_inputs == (readout != "mean")
    broken = measure(build(layout, "rotary"), layout)
    assert find(broken, "uniform", "answer")["error_mean"] > 1e-4


def test_encoder_decoder_reads_a_bag_where_its_encoder_has_no_positions(build):
    layout = Layout(Reverse(symbols=8), "encoder_decoder")
    rows = measure(build(layout, "none"), layout)
    assert find(rows, "uniform", "answer")["error_max"] < 1e-12
    assert find(rows, "uniform", "hidden_2")["error_max"] < 1e-12  # the encoder's
    broken = measure(build(layout, "sinusoidal"), layout)
    assert find(broken, "uniform", "answer")["error_mean"] > 1e-3


def test_features_are_permuted_too(build):
    layout = Layout(Digits(), "encoder")
    length = train_lengths(layout.task)[0]
    rows = measure(build(layout, "none"), layout, length=length)
    assert max(row["error_max"] for row in rows if row["dtype"] == "float64") < 1e-12
    broken = measure(build(layout, "sinusoidal"), layout, length=length)
    assert find(broken, "uniform")["error_mean"] > 1e-3


def test_what_the_encoding_refuses_is_a_row(build):
    layout = Layout(WordOrder(), "encoder")
    model = build(layout, partial(Learned, max_length=LENGTH + 1, beyond="error"), trained=LENGTH + 1)
    rows = measure(model, layout)
    refused = [row for row in rows if row["flags"]]
    assert {row["action"] for row in refused} == {"translation", "padding"}
    assert all(row["error_max"] is None and "not_defined" in row["flags"] for row in refused)
    assert find(rows, "uniform")["error_mean"] > 1e-3
    assert judge(refused) == "not measured"


def test_the_model_is_left_as_it_was(encoder, build):
    model = build(encoder, "learned").train()
    model.head.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    measure(model, encoder)
    probe(model, encoder.task, encoder, length=LENGTH)
    assert model.training and not model.head.training
    for name, value in model.state_dict().items():
        assert value.dtype == torch.float32 and torch.equal(value, before[name])


def test_dropout_is_off(encoder, build):
    rows = measure(build(encoder, "none", dropout=0.5).train(), encoder)
    assert find(rows, "uniform")["error_max"] < 1e-12


def test_equal_calls_measure_the_same_and_other_seeds_the_same_inputs(encoder, build):
    model = build(encoder, "rotary")
    first = measure(model, encoder)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    assert first == measure(model, encoder)
    assert measure(model, encoder, actions=["uniform"]) == [r for r in first if r["action"] == "uniform"]


@pytest.mark.parametrize("name", PERMUTATIONS)
@pytest.mark.parametrize("n", (2, 3, 17))
def test_permutations_are_permutations_and_do_something(name, n):
    for seed in range(20):
        order = PERMUTATIONS[name](n, np.random.default_rng(seed))
        assert sorted(order) == list(range(n))
        assert (order != np.arange(n)).any()


def test_reduced_precision_is_off_while_measuring_and_back_after():
    torch.set_float32_matmul_precision("high")
    try:
        with full_precision(torch.device("cpu")):
            assert torch.backends.cuda.matmul.fp32_precision == "ieee"
            with torch.autocast("cpu", enabled=False):
                pass
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_autocast_around_it_makes_no_difference(encoder, build):
    model = build(encoder, "none")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rows = measure(model, encoder)
        assert probe(model, encoder.task, encoder, length=LENGTH)["uniform"] < 1e-5
    assert find(rows, "uniform", dtype="float32")["error_max"] < 1e-5


def test_the_probe_tells_symmetric_from_not(encoder, build):
    kept = probe(build(encoder, "none"), encoder.task, encoder, length=LENGTH)
    broken = probe(build(encoder, "rotary"), encoder.task, encoder, length=LENGTH)
    assert set(kept) == {"uniform", "uniform_difference"}
    assert kept["uniform"] < 1e-5 and kept["uniform_difference"] < 1e-5
    assert broken["uniform"] > 1e-3 and broken["uniform_difference"] > 1e-3


@pytest.mark.parametrize("pe", ("none", "sinusoidal", "learned", "binary", "rotary", "alibi", "t5"))
@pytest.mark.parametrize("shape", ("encoder", "decoder", "encoder_decoder"))
def test_measured_symmetries_are_the_declared_ones(pe, shape, build):
    layout = Layout(WordOrder(), shape)
    model = build(layout, pe)
    table = verdicts(measure(model, layout, per_layer=False, dtypes=["float64"]), model.symmetries)
    assert [row["symmetry"] for row in table] == ["permutation", "reversal", "translation"]
    assert all(row["agrees"] for row in table), table


@pytest.mark.parametrize("encoding", (ALiBi, Rotary, T5Bias), ids=lambda encoding: encoding.__name__)
def test_an_encoding_that_acts_across_keeps_no_reversal_of_the_source(encoding, build):
    layout = Layout(WordOrder(), "encoder_decoder")
    for cross in (True, False):
        model = build(layout, partial(encoding, cross=cross))
        assert ("reversal" in model.symmetries) == (encoding is ALiBi and not cross)
        table = verdicts(measure(model, layout, per_layer=False, dtypes=["float64"]), model.symmetries)
        assert all(row["agrees"] for row in table), table


def test_a_wrong_declaration_is_seen(encoder, build):
    rows = measure(build(encoder, "rotary"), encoder, per_layer=False, dtypes=["float64"])
    table = {row["symmetry"]: row for row in verdicts(rows, {"permutation"})}
    assert (table["permutation"]["measured"], table["permutation"]["agrees"]) == ("fails", False)
    assert (table["translation"]["measured"], table["translation"]["agrees"]) == ("holds", False)
    assert table["reversal"]["agrees"]


def test_between_the_tolerances_nothing_is_said():
    row = {
        "action": "uniform",
        "dtype": "float64",
        "quantity": "inputs",
        "error_max": 1e-6,
        "difference_max": 1e-6,
    }
    assert judge([row]) == "unclear"
    assert judge([{**row, "dtype": "float32"}]) == "not measured"
    assert verdicts([row], set())[0]["agrees"] is None


@pytest.mark.parametrize(
    "options, message",
    [
        ({"actions": ["shuffle"]}, "unknown action 'shuffle'"),
        ({"dtypes": ["float16"]}, "unknown dtype 'float16'"),
        ({"draws": 0}, "draws=0"),
        ({"length": 2}, "length 2"),
    ],
)
def test_bad_options_are_named(options, message, encoder, build):
    with pytest.raises(ValueError, match=message):
        measure(build(encoder), encoder, **options)
