"""The gradient does not depend on how a batch is split: accumulation and ranks weigh every answer token alike."""

from __future__ import annotations

import pytest
import torch

from lengthwise.batch import IGNORE
from lengthwise.training import fit
from lengthwise.training.data import micro_batches
from lengthwise.training.metrics import summed_loss
from support.tiny_training import tiny_module, tiny_options


def logits_with_loss(loss: float, tokens: int) -> torch.Tensor:
    """(1, tokens, 2) logits whose cross-entropy against target 0 is `loss` at every place."""
    other = torch.log(torch.expm1(torch.tensor(loss, dtype=torch.float64)))
    return torch.stack([torch.zeros(tokens, dtype=torch.float64), other.expand(tokens)], -1).unsqueeze(0)


def test_two_tokens_at_loss_1_and_a_hundred_at_loss_3_are_2_961():
    parts = [(1.0, 2), (3.0, 100)]
    sums = [
        summed_loss(logits_with_loss(*part), torch.zeros(1, part[1], dtype=torch.int64)) for part in parts
    ]
    assert float(sum(sums)) / 102 == pytest.approx(2.961, abs=5e-4)
    means = [float(total) / part[1] for total, part in zip(sums, parts, strict=True)]
    assert sum(means) / 2 == pytest.approx(2.0), "control: what averaging means would give"


def gradient(parts, data, world: int) -> torch.Tensor:
    """Gradient after one optimizer step's micro-batches, as Lightning (÷ accumulate) and DDP (÷ world) combine it."""
    module = tiny_module(data).double()
    total = 0.0
    for micro in parts:
        loss = summed_loss(module.model(micro.batch), micro.batch.targets) / micro.answer_tokens
        scaled = loss * (micro.count * world)
        total = total + scaled / micro.count / world
    total.backward()
    return torch.cat([parameter.grad.flatten() for parameter in module.model.parameters()])


def offsets():
    from lengthwise.tasks.layout import Layout
    from lengthwise.tasks.offsets import Offsets
    from lengthwise.training import LengthData

    task = Offsets()
    return LengthData(task, Layout(task, "encoder", "end"), lengths=[6, 12, 30], batch_size=12)


@pytest.mark.parametrize(("world", "accumulate"), [(1, 2), (2, 1), (2, 3)])
def test_ranks_and_accumulation_give_the_gradient_of_one_process(world, accumulate):
    data = offsets()
    whole = data.train_batch(0)
    assert len(whole.lengths.unique()) > 1
    alone = gradient(list(micro_batches(whole, 0, rank=0, world=1, accumulate=1)), data, 1)
    split = [
        micro
        for rank in range(world)
        for micro in micro_batches(whole, 0, rank=rank, world=world, accumulate=accumulate)
    ]
    torch.testing.assert_close(gradient(split, data, world), alone, rtol=1e-10, atol=1e-12)


def test_control_means_of_micro_batches_would_give_another_gradient():
    data = offsets()
    whole = data.train_batch(0)
    alone = gradient(list(micro_batches(whole, 0, rank=0, world=1, accumulate=1)), data, 1)
    own = list(micro_batches(whole, 0, rank=0, world=1, accumulate=2))
    for micro in own:
        micro.answer_tokens = 2 * int((micro.batch.targets != IGNORE).sum())
    assert (gradient(own, data, 1) - alone).abs().max() > 1e-4


def test_training_with_accumulation_reaches_the_same_weights():
    weights = []
    for accumulate in (1, 4):
        data = offsets()
        module = tiny_module(data)
        # float64, so that the order of sums does not show
        fit(module, data, tiny_options(max_steps=5, accumulate=accumulate, precision="64-true"))
        weights.append(torch.nn.utils.parameters_to_vector(module.model.parameters()).double())
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-7, atol=1e-9)
