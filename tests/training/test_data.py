"""Batches are pure functions; slicing them over ranks and micro-batches loses and doubles nothing."""

from __future__ import annotations

from itertools import combinations, islice
from types import SimpleNamespace

import pytest
import torch

from lengthwise.batch import IGNORE
from lengthwise.training.data import TrainStream, global_batch, micro_batches, validation_batches
from support.tiny_training import tiny_data


def batch_of(step: int = 0, seed: int = 0, split: str = "train", size: int = 24):
    data = tiny_data()
    return global_batch(
        data.task,
        data.layout,
        lengths=data.lengths,
        batch_size=size,
        data_seed=seed,
        split=split,
        step=step,
    )


def same(a, b) -> bool:
    return a.tokens.shape == b.tokens.shape and torch.equal(a.tokens, b.tokens)


def test_a_batch_depends_on_its_key_and_on_nothing_drawn_before():
    first = batch_of(step=3)
    batch_of(step=7)
    torch.manual_seed(5)
    assert same(first, batch_of(step=3))


@pytest.mark.parametrize(
    "other", [{"step": 4}, {"seed": 1}, {"seed": 2**32}, {"seed": 2**64}, {"split": "val"}], ids=str
)
def test_seed_step_and_split_all_reach_the_data(other):
    assert not same(batch_of(step=3), batch_of(**{"step": 3, **other}))


def test_batches_that_are_made_at_once_are_as_much_their_own():
    batches = [batch_of(step=step, size=24) for step in range(40)]
    backwards = [batch_of(step=step, size=24) for step in reversed(range(40))][::-1]
    assert all(same(a, b) for a, b in zip(batches, backwards, strict=True))
    assert not any(same(a, b) for a, b in combinations(batches, 2))


def test_large_batches_are_made_one_by_one():
    assert len(batch_of(step=1, size=3000)) == 3000
    assert not same(batch_of(step=0, size=3000), batch_of(step=1, size=3000))


def test_lengths_are_mixed_within_a_batch_and_uniform():
    lengths = torch.cat([batch_of(step=step).lengths for step in range(50)])
    assert len(batch_of(step=0).lengths.unique()) == 3
    counts = lengths.bincount()[[5, 7, 9]]
    assert counts.sum() == len(lengths)
    assert (counts / len(lengths) - 1 / 3).abs().max() < 0.05


@pytest.mark.parametrize(("world", "accumulate"), [(1, 1), (2, 1), (1, 3), (2, 3), (4, 2)])
def test_ranks_and_micro_batches_share_out_the_batch(world, accumulate):
    whole = batch_of(size=24)
    shares = [list(micro_batches(whole, 0, rank=r, world=world, accumulate=accumulate)) for r in range(world)]
    in_order = [shares[rank][index].batch.tokens for index in range(accumulate) for rank in range(world)]
    assert torch.equal(torch.cat(in_order), whole.tokens)
    assert len({len(tokens) for tokens in in_order}) == 1
    counted = sum(int((micro.batch.targets != IGNORE).sum()) for share in shares for micro in share)
    assert {micro.answer_tokens for share in shares for micro in share} == {counted}
    assert [micro.last for micro in shares[0]] == [False] * (accumulate - 1) + [True]


def test_control_without_the_rank_the_shares_would_overlap():
    whole = batch_of(size=24)
    shares = [next(micro_batches(whole, 0, rank=0, world=2, accumulate=1)).batch.tokens for _ in range(2)]
    assert not torch.equal(torch.cat(shares), whole.tokens)


@pytest.mark.parametrize(("world", "accumulate"), [(5, 1), (1, 5), (3, 2)])
def test_a_batch_that_does_not_divide_is_refused(world, accumulate):
    with pytest.raises(ValueError, match=r"data\.batch_size=16 .*multiple of"):
        list(micro_batches(batch_of(size=16), 0, rank=0, world=world, accumulate=accumulate))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, r"data\.batch_size=0"),
        ({"lengths": []}, r"data\.lengths"),
        ({"lengths": [0]}, "length 0"),
        ({"validation_size": 0}, r"data\.validation_size=0"),
    ],
)
def test_impossible_data_is_refused_before_anything_starts(options, message):
    with pytest.raises(ValueError, match=message):
        tiny_data(**options)


def stream(data, *, step: int, rank: int = 0, world: int = 1, accumulate: int = 1):
    data.trainer = SimpleNamespace(
        global_step=step, global_rank=rank, world_size=world, accumulate_grad_batches=accumulate
    )
    return iter(TrainStream(data))


def test_the_stream_starts_at_the_step_the_trainer_stands_at():
    unbroken = [micro.batch.tokens for micro in islice(stream(tiny_data(), step=0, accumulate=2), 8)]
    resumed = [micro.batch.tokens for micro in islice(stream(tiny_data(), step=2, accumulate=2), 4)]
    assert all(torch.equal(a, b) for a, b in zip(unbroken[4:], resumed, strict=True))
    assert not torch.equal(unbroken[0], resumed[0])


def test_repeating_the_first_batch_still_counts_steps():
    first, second = islice(stream(tiny_data(repeat_batch=True), step=0), 2)
    assert same(first.batch, second.batch)
    assert (first.step, second.step) == (0, 1)


def sequences(batches) -> list[tuple[int, ...]]:
    """The scored sequences of some batches, without their padding."""
    found = []
    for batch in batches:
        scored = (batch.targets != IGNORE).any(1)
        for tokens, mask in zip(batch.tokens[scored], batch.key_mask[scored], strict=True):
            found.append(tuple(tokens[mask].tolist()))
    return found


@pytest.mark.parametrize("size", [33, 4, 2])
@pytest.mark.parametrize("world", [2, 3])
def test_validation_items_are_on_exactly_one_rank_each(size, world):
    data = tiny_data()
    arguments = {"task": data.task, "layout": data.layout, "lengths": data.lengths, "size": size}
    alone = validation_batches(**arguments)
    shares = [validation_batches(**arguments, rank=rank, world=world) for rank in range(world)]
    assert len(sequences(alone)) == size
    assert sorted(sequences(alone)) == sorted(item for share in shares for item in sequences(share))
    assert len({len(share) for share in shares}) == 1, (
        "a rank with fewer batches would leave the others waiting"
    )


def test_validation_covers_the_training_lengths_evenly_and_ignores_the_seed():
    first, second = (
        validation_batches(d.task, d.layout, lengths=d.lengths, size=33)
        for d in (tiny_data(data_seed=0), tiny_data(data_seed=1))
    )
    assert [len(batch) for batch in first] == [11, 11, 11]
    assert sequences(first) == sequences(second)
