"""What a model promises about its batch-mates and about what follows; declared beside measured; anyone's module."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from lengthwise.evaluation.claims import PROPERTIES, broken, claims, findings, module_claims, undeclared
from lengthwise.evaluation.modules import OnFeatures, feature_sample
from lengthwise.evaluation.symmetry import ACTIONS, CONTRACTS, certificate, certify
from lengthwise.nn.position import Learned
from lengthwise.positions import Floats, Randomized, TaskSupplied
from lengthwise.tasks import Copy, Layout, Majority, Offsets, WordOrder

ALL = (*ACTIONS, *CONTRACTS)


def measure(model, layout, **options):
    options = {"length": 9, "draws": 3, "sequences": 4, "actions": CONTRACTS} | options
    return certificate(model, layout.task, layout, **options)


def verdicts(rows, declared=None):
    return {line["action"]: line["measured"] for line in findings(rows, declared or {})}


@pytest.mark.parametrize(
    "pe, shape, holds",
    [
        ("none", "encoder", {"batch"}),
        ("rotary", "encoder", {"batch"}),
        ("sinusoidal", "decoder", {"batch", "causality", "prefix"}),
        ("t5", "decoder", {"batch", "causality", "prefix"}),
        ("alibi", "encoder_decoder", {"batch", "causality", "prefix"}),
    ],
)
def test_contracts_hold_where_they_are_declared(pe, shape, holds, build):
    layout = Layout(Copy(), shape)
    model = build(layout, pe)
    rows = measure(model, layout)
    found = findings(rows, claims(model, layout))
    assert {line["action"] for line in found if line["measured"] == "holds"} == holds
    assert {line["action"] for line in found if line["declared"]} == holds
    assert all(line["agrees"] for line in found), found
    for row in rows:
        if row["action"] in holds:
            assert row["error_max"] < {"float32": 1e-4, "float64": 1e-11}[row["dtype"]], row


def test_every_layer_is_causal_in_a_decoder_and_only_the_first_input_in_an_encoder(build):
    layout = Layout(Offsets(), "decoder")
    rows = measure(build(layout, "rotary"), layout, dtypes=["float64"])
    assert {row["quantity"] for row in rows} == {"inputs", "hidden_0", "hidden_1", "hidden_2"}
    assert max(row["error_max"] for row in rows) < 1e-11
    layout = Layout(Offsets(), "encoder")
    rows = measure(build(layout, "rotary"), layout, dtypes=["float64"], actions=["causality", "prefix"])
    for row in rows:
        assert (row["error_max"] < 1e-11) == (row["quantity"] == "hidden_0"), row


def test_a_model_that_mixes_its_batch_is_seen(build, cheats):
    layout = Layout(WordOrder(), "encoder", "front")
    mixed = cheats["BatchMixed"](build(layout, "none"))
    assert verdicts(measure(mixed, layout, per_layer=False, actions=["batch"])) == {"batch": "fails"}


def test_a_model_that_minds_company_is_seen(build, cheats):
    """The same in every batch, and another when it is alone."""

    class Shy(cheats["BatchMixed"]):
        def after(self, logits):
            return logits + logits.roll(1, 2) * (len(logits) > 1)

    layout = Layout(WordOrder(), "encoder", "front")
    rows = measure(Shy(build(layout, "none")), layout, per_layer=False, actions=["batch"])
    assert verdicts(rows) == {"batch": "fails"}


def test_pads_that_a_longer_neighbour_brings_are_seen(build, cheats):
    """Alone, and among its equals, a sequence has none."""
    for shape in ("encoder", "encoder_decoder"):
        layout = Layout(WordOrder(), shape)
        model = build(layout, "rotary")
        for seen, verdict in ((model, "holds"), (cheats["PadsSeen"](model), "fails")):
            rows = measure(seen, layout, per_layer=False, actions=["batch"])
            assert verdicts(rows) == {"batch": verdict} and not rows[0]["flags"]


def test_a_mask_taken_from_the_first_sequence_is_seen(build, cheats):
    class OneMask(cheats["BatchMixed"]):
        def spoil(self, batch):
            return replace(batch, key_mask=batch.key_mask[:1].expand_as(batch.key_mask))

        def after(self, logits):
            return logits

    layout = Layout(WordOrder(), "encoder", "front")
    rows = measure(OneMask(build(layout, "none")), layout, per_layer=False, actions=["batch"])
    assert verdicts(rows) == {"batch": "fails"}


def test_neighbours_are_as_long_as_the_model_takes_them(build):
    layout = Layout(WordOrder(), "encoder", "front")
    for room, flags in ((12, ""), (11, ""), (10, "none_longer")):
        model = build(layout, partial(Learned, max_length=room, beyond="error"), trained=room)
        rows = measure(model, layout, per_layer=False, actions=["batch"])
        assert verdicts(rows) == {"batch": "holds"} and {row["flags"] for row in rows} == {flags}
    rows = of_module(nn.Linear(8, 3))  # takes no mask
    assert {row["flags"] for row in rows if row["action"] == "batch"} == {"equal_lengths"}


@pytest.mark.parametrize("chosen", [Randomized(range=40), TaskSupplied(kind="index"), Floats(range=40)])
def test_neighbours_have_numbers_too(chosen, build):
    layout = Layout(Copy(), "decoder", rule=chosen)
    rows = measure(build(layout, "rotary"), layout, per_layer=False, actions=["batch"])
    assert verdicts(rows) == {"batch": "holds"} and {row["flags"] for row in rows} == {""}


def test_a_model_that_looks_ahead_is_seen(build, cheats):
    """It only adds, at each position, a little of the symbol behind."""

    class Peeks(cheats["BatchMixed"]):
        def after(self, logits):
            return logits + 0.01 * logits.roll(-1, 1)

    layout = Layout(Offsets(), "decoder")
    found = verdicts(measure(Peeks(build(layout, "rotary")), layout, per_layer=False))
    assert (found["causality"], found["prefix"]) == ("fails", "fails")


def test_a_model_that_knows_how_much_follows_is_causal_but_not_prefix_stable(build, cheats):
    class Counts(cheats["BatchMixed"]):
        def spoil(self, batch):
            width = batch.tokens.shape[1]
            return replace(batch, positions=torch.arange(width).expand(len(batch), width) * 12 // width)

        def after(self, logits):
            return logits

    layout = Layout(Offsets(), "decoder")
    found = verdicts(measure(Counts(build(layout, "sinusoidal")), layout, per_layer=False))
    assert (found["causality"], found["prefix"]) == ("holds", "fails")


def test_where_nothing_comes_before_it_is_not_measured(build):
    """One answer at the end, or for the whole: no position that is read has later ones."""
    for chosen in ((Majority(), "encoder", "mean"), (WordOrder(), "encoder_decoder")):
        layout = Layout(*chosen)
        rows = measure(build(layout, "none"), layout, per_layer=False)
        assert {row["action"] for row in rows} == {"batch"}


def test_a_broken_declaration_and_an_undeclared_symmetry_are_two_things(build):
    layout = Layout(WordOrder(), "encoder", "front")
    rows = measure(build(layout, "alibi"), layout, per_layer=False, actions=ALL)
    declared = claims(build(layout, "alibi"), layout)
    found = findings(rows, declared)
    assert [line["action"] for line in found] == list(ALL) and set(PROPERTIES) == set(ALL)
    assert not broken(found) and not undeclared(found)
    wrong = findings(rows, declared | {"uniform": True, "whole_reversal": False})
    assert [line["action"] for line in broken(wrong)] == ["uniform"]
    assert [line["action"] for line in undeclared(wrong)] == ["whole_reversal"]
    assert {line["action"]: line["agrees"] for line in wrong}["uniform"] is False


def test_reversed_inputs_are_a_reversal_of_the_whole_where_there_are_no_others(build):
    for chosen, expected in (((Offsets(), "encoder"), True), ((WordOrder(), "encoder", "front"), False)):
        layout = Layout(*chosen)
        model = build(layout, "alibi")
        assert claims(model, layout)["reversal"] is expected
        rows = measure(model, layout, per_layer=False, actions=["reversal"])
        assert (verdicts(rows)["reversal"] == "holds") is expected


def test_a_collapsed_model_is_not_certified(build, cheats):
    layout = Layout(WordOrder(), "encoder", "front")
    model = cheats["Collapsed"](build(layout, "none"))
    model.strength = 0.0
    found = findings(measure(model, layout, per_layer=False, actions=ALL), {"uniform": True})
    assert {line["measured"] for line in found if line["action"] not in ("causality", "prefix")} == {
        "collapsed"
    }
    assert [line["action"] for line in broken(found)] == ["uniform"]


# --- anyone's module


class Attention(nn.Module):
    """Two heads of attention, with or without a mask, a look back only, or numbers."""

    def __init__(self, causal: bool = False, numbers: bool = False, pooled: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)
        self.looks_back, self.numbers, self.pooled = causal, numbers, pooled

    def forward(self, x, key_mask=None):
        n = x.shape[1]
        if self.numbers:
            x = x + torch.arange(n).to(x)[None, :, None].sin()
        ahead = torch.ones(n, n, dtype=torch.bool).triu(1) if self.looks_back else None
        y, _ = self.inner(
            x,
            x,
            x,
            attn_mask=ahead,
            key_padding_mask=None if key_mask is None else ~key_mask,
            need_weights=False,
        )
        if self.pooled:
            real = key_mask[..., None].to(y)
            return (y * real).sum(1) / real.sum(1)
        return y


class Longer(nn.Module):
    def forward(self, x):
        return torch.cat([x, x[:, :1]], 1)


def of_module(module, **options):
    wrapped = OnFeatures(module)
    sample = feature_sample(wrapped, 8, 6, 4)
    return certify(wrapped, sample, draws=3, actions=ALL, **options)


PERMUTING = {"adjacent_swap", "cyclic_shift", "block", "uniform", "reversal", "whole_reversal"}


@pytest.mark.parametrize(
    "module, holds",
    [
        (Attention(), {*PERMUTING, "padding", "batch"}),
        (Attention(pooled=True), {*PERMUTING, "padding", "batch"}),
        (Attention(causal=True), {"padding", "batch", "causality", "prefix"}),
        (Attention(numbers=True), {"padding", "batch"}),
        (nn.Linear(8, 3), {*PERMUTING, "batch", "causality", "prefix"}),
        (nn.Identity(), {*PERMUTING, "batch", "causality", "prefix"}),
    ],
    ids=["full", "pooled", "causal", "numbers", "linear", "no parameters"],
)
def test_a_module_of_vectors(module, holds):
    found = findings(of_module(module), module_claims(module))
    assert {line["action"] for line in found if line["measured"] == "holds"} == holds
    unmeasured = {line["action"]: line["flags"] for line in found if line["measured"] == "not measured"}
    assert "takes no position numbers" in unmeasured.pop("translation")
    assert set(unmeasured) == (set() if isinstance(module, Attention) else {"padding"})
    assert not broken(found)


def test_a_module_declares_by_attributes():
    module = Attention(causal=True)
    module.symmetries, module.causal, module.prefix_stable = frozenset({"permutation"}), True, True
    found = findings(of_module(module), module_claims(module))
    assert PERMUTING - {"reversal"} <= {line["action"] for line in broken(found)}
    assert {line["action"] for line in found if line["agrees"]} == {"padding", "batch", "causality", "prefix"}
    assert module_claims(nn.Identity())["uniform"] is None


def test_torchs_encoder_layer_by_layer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    rows = of_module(module, per_layer=True)
    assert {row["quantity"] for row in rows if row["error_max"] is not None} == {
        "inputs",
        "hidden_0",
        "hidden_1",
        "hidden_2",
    }
    assert verdicts(rows)["padding"] == verdicts(rows)["uniform"] == "holds"


def test_pads_that_are_read_are_seen():
    class Sloppy(Attention):
        def forward(self, x, key_mask=None):
            return super().forward(x)

    assert verdicts(of_module(Sloppy()))["padding"] == "fails"


@pytest.mark.parametrize(
    "module, says",
    [
        (nn.MultiheadAttention(8, 2), "forward needs key, value"),
        (nn.GRU(8, 4, batch_first=True), r"to \(B, N, ·\) or \(B, ·\).* gave tuple"),
        (nn.Sequential(nn.Flatten(0, 1)), r"gave \(48, 8\)"),
        (Longer(), "the module must keep them"),
    ],
)
def test_a_module_that_is_none_of_the_kind_is_refused(module, says):
    with pytest.raises(ValueError, match=says):
        of_module(module)
