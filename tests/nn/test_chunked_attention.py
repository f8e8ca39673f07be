"""Attention in chunks of queries equals attention with the whole mask, in outputs and gradients."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from lengthwise import nn
from lengthwise.batch import Batch
from lengthwise.nn.attention import chunked, kernel

ENCODINGS = {
    "alibi": nn.ALiBi,
    "t5": partial(nn.T5Bias, num_buckets=8, max_distance=10),
    "kerple": nn.Kerple,
    "sandwich": partial(nn.Sandwich, dim=16),
    "stack": partial(nn.PositionStack, parts={"a": nn.Rotary, "b": nn.ALiBi, "c": nn.T5Bias}),
}


def reference(q, k, v, vector, *, scale, causal, allowed):
    """Every pair's bias looked up in the vector, then plain softmax attention."""
    offsets = torch.arange(k.shape[2]) - torch.arange(q.shape[2])[:, None]
    bias = vector[:, offsets + q.shape[2] - 1]
    logits = kernel.masked(kernel.logits(q, k, scale, bias), causal=causal, allowed=allowed)
    return logits.softmax(-1) @ v


def inputs(
    queries: int, keys: int, batch: int = 2, heads: int = 3, dtype=torch.float64
) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (
        (batch, heads, queries, 4),
        (batch, heads, keys, 4),
        (batch, heads, keys, 6),
        (heads, queries + keys - 1),
    )
    drawn = [torch.randn(shape, dtype=torch.float64, generator=generator).to(dtype) for shape in shapes]
    return [x.requires_grad_() for x in drawn]


def gradients(function, given: list[torch.Tensor], **options) -> list[torch.Tensor]:
    y = function(*given, scale=0.5, **options)
    cotangent = torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(
        y.dtype
    )
    wanted = [x for x in given if x.requires_grad]
    return [y.detach(), *torch.autograd.grad(y, wanted, cotangent)]


@pytest.mark.parametrize("size", [1, 3, 4, 7, 100])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize(("queries", "keys", "causal", "padded"), [
    (7, 7, True, False), (7, 7, True, True), (7, 7, False, False), (7, 7, False, True), (5, 8, False, False),
    (8, 5, False, True),
])  # fmt: skip
def test_equal_to_the_whole_mask(
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    learned: bool,
    queries: int,
    keys: int,
    causal: bool,
    padded: bool,
) -> None:
    given = inputs(queries, keys)
    given[3].requires_grad_(learned)
    allowed = None
    if padded:
        allowed = kernel.allowed_keys(
            queries, keys, causal, torch.arange(keys) < torch.tensor([[keys], [keys - 2]])
        )
    monkeypatch.setattr(chunked, "CHUNK", size * 2 * 3 * keys)
    monkeypatch.setattr(chunked, "STAIRS", -(-queries // size))
    mine, plain = (gradients(f, given, causal=causal, allowed=allowed) for f in (chunked.attend, reference))
    assert len(mine) == 4 + learned
    for one, other in zip(mine, plain, strict=True):
        assert (one - other).abs().max() < 1e-13


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_model_with_a_bias_by_distance(monkeypatch: pytest.MonkeyPatch, name: str, causal: bool) -> None:
    """Outputs, all gradients, and maps, beside pads and without; the chunks are really used."""
    attend, used = chunked.attend, []
    monkeypatch.setattr(chunked, "attend", lambda *a, **k: used.append(1) or attend(*a, **k))
    monkeypatch.setattr(chunked, "CHUNK", 5 * 2 * 2 * 12)
    model = (nn.Decoder if causal else nn.Encoder)(
        9, width=16, layers=2, heads=2, position=ENCODINGS[name]
    ).double()
    tokens = torch.randint(9, (2, 12), generator=torch.Generator().manual_seed(0))
    for lengths in ((12, 12), (12, 9)):
        mask = torch.arange(12) < torch.tensor(lengths)[:, None]
        batch = Batch(tokens, mask, tokens, torch.tensor(lengths))
        results = []
        for long in (1 << 62, 1):
            monkeypatch.setattr(chunked, "LONG", long)
            model.zero_grad()
            logits = model(batch)
            (logits * mask[..., None]).pow(2).sum().backward()
            maps = model.inspect(batch)
            assert len(used) == (0 if long > 1 else 4)  # two layers, twice
            used.clear()
            assert torch.equal(maps.logits, logits)
            results.append(
                [logits * mask[..., None], *maps.attention_maps, *(p.grad for p in model.parameters())]
            )
        for one, other in zip(*results, strict=True):
            assert (one - other).abs().max() < 1e-11


def test_given_positions_and_dropout_take_the_whole_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "LONG", 1)
    monkeypatch.setattr(chunked, "attend", lambda *a, **k: pytest.fail("chunks were used"))
    tokens = torch.randint(9, (1, 12))
    without = Batch(tokens, torch.ones(1, 12, dtype=torch.bool), tokens, torch.tensor([12]))
    numbered = replace(without, positions=torch.arange(12)[None])
    nn.Encoder(9, width=16, layers=1, heads=2, position=nn.ALiBi)(numbered)
    nn.Encoder(9, width=16, layers=1, heads=2, position=nn.ALiBi, dropout=0.1).train()(without)
    nn.Encoder(9, width=16, layers=1, heads=2, position=nn.FIRE)(without)
    with pytest.raises(pytest.fail.Exception):
        nn.Encoder(9, width=16, layers=1, heads=2, position=nn.ALiBi)(without)


def test_bfloat16_is_the_whole_mask_in_bfloat16() -> None:
    given = inputs(40, 40, dtype=torch.bfloat16)
    options = {"causal": True, "allowed": None}
    exact = gradients(reference, [x.detach().double().requires_grad_() for x in given], **options)
    for one, other in zip(gradients(chunked.attend, given, **options), exact, strict=True):
        assert one.dtype == torch.bfloat16
        assert (one.double() - other).abs().max() < 0.03 * other.abs().max()
