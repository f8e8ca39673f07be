"""Greedy decoding, and when one teacher-forced pass may stand for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lengthwise.batch import IGNORE
from lengthwise.evaluation.decoding import answer_steps, at_targets, greedy
from lengthwise.evaluation.length import evaluate_lengths
from lengthwise.tasks import Copy, Layout, Reverse, Sort, UniqueCopy, WordOrder
from lengthwise.tasks import test_items as items_of

SHAPES = ("decoder", "encoder_decoder")
ENCODINGS = ("none", "sinusoidal", "learned", "binary", "rotary", "alibi", "t5")


def own_answers(model, layout, length=9, count=24):
    """Items whose answers are the model's own (end token included, wherever it comes), with that decoding."""
    items = items_of(layout.task, length, count)
    decoded = greedy(model, items, layout)
    answers = decoded[:, : layout.task.answer_length(length)].numpy()
    return replace(items, answers=answers, answer_lengths=np.full(count, answers.shape[1])), decoded


def forced(model, layout, items):
    """Teacher-forced predictions (B, T) at the scored positions."""
    batch = layout(items)
    with torch.no_grad():
        predictions = model.eval()(batch).argmax(-1)
    return predictions[batch.targets != IGNORE].view(len(items), -1)


def agreement(model, layout):
    """Share of symbols, up to each row's end, on which teacher forcing on the model's own answer agrees with it."""
    items, decoded = own_answers(model, layout)
    known = forced(model, layout, items)[:, : decoded.shape[1]]
    end = layout.vocabulary.eos
    live = torch.cumsum((decoded == end).int(), 1) - (decoded == end).int() == 0
    return float((known == decoded[:, : known.shape[1]])[live[:, : known.shape[1]]].double().mean())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pe", ENCODINGS)
def test_teacher_forcing_on_ones_own_answer_reproduces_it(pe, shape, build):
    layout = Layout(Sort(symbols=40), shape)
    model = build(layout, pe, trained=24)
    assert model.prefix_stable
    assert agreement(model, layout) == 1.0


def test_it_does_not_where_a_prefix_depends_on_the_length(interpolated, build):
    layout = Layout(Sort(symbols=40), "decoder")
    model = build(layout, interpolated, trained=6)
    assert not model.prefix_stable
    assert agreement(model, layout) < 0.9


def trained(model, layout, steps=60):
    """A model that is right on some sequences only."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    generator = np.random.default_rng(0)
    for _ in range(steps):
        batch = layout(layout.task.generate(generator.integers(1, 5, 32), generator))
        loss = torch.nn.functional.cross_entropy(model(batch).transpose(1, 2), batch.targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def exact(model, layout, length, protocol):
    """Exact match per item under a protocol, whatever the model declares."""
    batch = layout(items_of(layout.task, length, 128))
    with torch.no_grad():
        predictions = model(batch).argmax(-1)
    if protocol == "greedy":
        predictions = at_targets(greedy(model, items_of(layout.task, length, 128), layout), batch.targets)
    return ((predictions == batch.targets) | (batch.targets == IGNORE)).all(1)


@pytest.mark.parametrize("pe", ("rotary", "t5"))
def test_exact_match_of_a_trained_decoder_is_the_same_either_way(pe, build):
    layout = Layout(Copy(), "decoder")
    model = trained(build(layout, pe, trained=10, dropout=0.0), layout)
    forced, decoded = (exact(model, layout, 4, protocol) for protocol in ("teacher_forced", "greedy"))
    assert 0.02 < forced.double().mean() < 0.98  # or the comparison would say nothing
    assert torch.equal(forced, decoded)
    row = evaluate_lengths(model, layout.task, layout, [4], 128, train_lengths=[4])[0]
    assert row["protocol"] == "teacher_forced"
    assert row["exact_match"] == forced.double().mean()


def test_exact_match_of_an_unstable_decoder_is_that_of_real_decoding(interpolated, build):
    layout = Layout(Copy(), "decoder")
    model = trained(build(layout, interpolated, trained=6, dropout=0.0), layout)
    forced, decoded = (exact(model, layout, 4, protocol) for protocol in ("teacher_forced", "greedy"))
    assert not torch.equal(forced, decoded)
    row = evaluate_lengths(model, layout.task, layout, [4], 128, train_lengths=[4])[0]
    assert row["protocol"] == "greedy"
    assert row["exact_match"] == decoded.double().mean()


@pytest.mark.parametrize("shape", SHAPES)
def test_decoding_sees_no_answer(shape, build):
    layout = Layout(Reverse(), shape)
    model = build(layout, "rotary")
    items = items_of(layout.task, 6, 8)
    other = replace(items, answers=1 - items.answers)
    assert torch.equal(greedy(model, items, layout), greedy(model, other, layout))


def test_not_even_the_masked_places_hold_an_answer(build, cheats):
    """Beside a longer prompt, a short one is followed by masked places."""
    layout = Layout(Reverse(), "decoder")
    model = cheats["PadsSeen"](build(layout, "none"))  # records what it is given
    items = layout.task.generate(np.array([3, 9]), np.random.default_rng(0))
    other = replace(items, answers=1 - items.answers)
    seen = []
    model.spoil = lambda batch: seen.append(batch.tokens) or batch
    for given in (items, other):
        greedy(model, given, layout)
    half = len(seen) // 2
    assert all(torch.equal(a, b) for a, b in zip(seen[:half], seen[half:], strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_mixed_lengths_decode_as_each_alone(shape, build):
    layout = Layout(UniqueCopy(symbols=12), shape)
    model = build(layout, "alibi")
    mixed = layout.task.generate(np.array([2, 7, 4]), np.random.default_rng(1))
    together = greedy(model, mixed, layout)
    for row, length in enumerate((2, 7, 4)):
        single = mixed.rows(slice(row, row + 1))
        width = max(1, int(single.answer_lengths[0]))
        single = replace(single, inputs=single.inputs[:, :length], answers=single.answers[:, :width])
        alone = greedy(model, single, layout)[0]
        assert torch.equal(together[row, : len(alone)], alone)


def test_it_stops_at_the_end_and_at_the_longest_answer(cheats):
    layout = Layout(Copy(), "decoder")
    items = items_of(layout.task, 6, 4)
    size, end = len(layout.vocabulary), layout.vocabulary.eos

    class Always(cheats["Oracle"]):
        symbol = end

        def logits_of(self, batch):
            logits = torch.zeros(*batch.tokens.shape, size)
            logits[..., self.symbol] = 1.0
            return logits

    assert greedy(Always(size), items, layout).tolist() == [[end]] * 4
    talkative = Always(size)
    talkative.symbol = 0
    assert greedy(talkative, items, layout).tolist() == [[0] * 7] * 4
    assert answer_steps(layout, 6) == 7
    assert answer_steps(Layout(WordOrder(), "decoder"), 6) == 1


def test_answers_are_laid_at_their_targets():
    targets = torch.tensor([[IGNORE, 5, 6, 9], [5, 9, IGNORE, IGNORE]])
    answers = torch.tensor([[1, 2], [3, 4]])
    assert at_targets(answers, targets).tolist() == [[-1, 1, 2, -1], [3, 4, -1, -1]]


def test_an_encoder_decodes_nothing(build):
    layout = Layout(Reverse(), "encoder")
    with pytest.raises(ValueError, match="encoder answers in one pass"):
        greedy(build(layout), items_of(layout.task, 4, 2), layout)
