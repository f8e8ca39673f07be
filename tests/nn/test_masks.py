"""Masks at their edges: nothing real to read, pads in front, causality in every kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch

from lengthwise import nn
from lengthwise.batch import Batch
from lengthwise.nn.attention.kernel import allowed_keys

V, N = 7, 6
ATTENTIONS = [
    nn.ScaledAttention,
    nn.UnscaledAttention,
    nn.SharedAttention,
    nn.ParameterFreeAttention,
    nn.HardAttention,
    nn.MergedAttention,
    nn.FixedAttention,
]


def batch(lengths: list[int]) -> Batch:
    tokens = torch.randint(V, (len(lengths), N), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(N) < torch.tensor(lengths)[:, None]
    return Batch(tokens, mask, tokens, torch.tensor(lengths))


def model(shape, **options) -> nn.Transformer:
    return shape(V, **{"width": 16, "layers": 2, "heads": 2, **options})


@pytest.mark.parametrize("shape", [nn.Encoder, nn.Decoder, nn.EncoderDecoder])
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_sample_without_a_real_token(shape, attention, dtype) -> None:
    """Finite outputs and gradients; the other samples do not notice."""
    if attention is nn.FixedAttention and shape is nn.EncoderDecoder:
        pytest.skip("refused: fixed weights read no queries")
    for position in (nn.NoPosition, nn.ALiBi, nn.T5Bias, nn.Sinusoidal):
        built = model(shape, attention=attention, position=position).to(dtype)
        with_empty, alone = batch([N, 0, 3]), batch([N, 0, 3]).rows(torch.tensor([0, 2]))
        if shape is nn.EncoderDecoder:
            with_empty, alone = replace(with_empty, source=with_empty), replace(alone, source=alone)
        logits = built(with_empty)
        assert logits.isfinite().all()
        logits.logsumexp(-1).mean().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in built.parameters())
        if dtype == torch.float64:
            assert torch.allclose(logits[[0, 2]], built(alone), atol=1e-12)


def test_a_query_without_keys_reads_itself() -> None:
    mask = torch.tensor([[False, False, True, True]])
    allowed = allowed_keys(4, 4, True, mask)[0, 0].int().tolist()
    assert allowed == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert allowed_keys(4, 4, False, mask)[0, 0].int().tolist() == [[0, 0, 1, 1]]
    assert allowed_keys(4, 4, True, None) is None


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("position", [nn.NoPosition, nn.Rotary, nn.ALiBi, nn.T5Bias, nn.Learned])
def test_attention_never_reads_a_hidden_key(attention, position) -> None:
    """The weights themselves, in training with dropout, with left and right pads."""
    if attention is nn.FixedAttention and position is nn.Rotary:
        pytest.skip("refused: fixed weights have nothing to rotate")
    built = model(nn.Decoder, attention=attention, position=position, dropout=0.2).train()
    mask = torch.ones(3, N, dtype=torch.bool)
    mask[0, 4:], mask[1, :2] = False, False
    inspection = built.inspect(replace(batch([N, N, N]), key_mask=mask))
    for weights, i, j in product(inspection.attention_maps, range(N), range(N)):
        for b in range(3):
            if j > i or (not mask[b, j] and mask[b, i]):
                assert (weights[b, :, i, j] == 0).all()
        assert torch.allclose(weights[:, :, i].sum(-1), torch.ones(3, 2))


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_dropout_ends_with_training(attention) -> None:
    built = model(nn.Encoder, attention=attention, dropout=0.5)
    built.train()
    assert not torch.equal(built(batch([N, 3])), built(batch([N, 3])))
    built.eval()
    assert torch.equal(built(batch([N, 3])), built(batch([N, 3])))


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_maps_do_not_disturb_dropout(attention) -> None:
    built = model(nn.Decoder, attention=attention, dropout=0.3).train()
    torch.manual_seed(0)
    plain = built(batch([N, 3]))
    torch.manual_seed(0)
    assert torch.equal(built.inspect(batch([N, 3])).logits, plain)


@pytest.mark.parametrize(
    "position", [nn.NoPosition, nn.Rotary, nn.Sinusoidal, partial(nn.Learned, beyond="interpolate")]
)
def test_the_mean_readout_ignores_pads(position) -> None:
    built = model(nn.Encoder, readout="mean", position=position).double().eval()
    padded, short = batch([N, 3]), batch([N, 3]).rows(slice(1, 2))
    short = replace(short, tokens=short.tokens[:, :3], key_mask=short.key_mask[:, :3])
    assert built(padded).shape == (2, 1, V)
    assert torch.allclose(built(padded)[1:], built(short), atol=1e-12)


def test_a_pooled_encoder_without_positions_is_invariant() -> None:
    built = model(nn.Encoder, readout="mean").double().eval()
    whole = batch([N])
    assert torch.allclose(built(whole), built(replace(whole, tokens=whole.tokens.flip(1))), atol=1e-12)


def test_cross_attention_hides_the_sources_pads() -> None:
    built = model(nn.EncoderDecoder).double().eval()
    source = batch([3, 4])
    target = replace(batch([N, 4]), source=source)
    other = torch.where(source.key_mask, source.tokens, (source.tokens + 1) % V)
    assert torch.equal(built(target), built(replace(target, source=replace(source, tokens=other))))
    maps = built.inspect(target).cross_maps
    assert len(maps) == 2 and all((m[0, :, :, 3:] == 0).all() for m in maps)
    changed = replace(source, tokens=torch.where(source.key_mask, (source.tokens + 1) % V, source.tokens))
    assert not torch.allclose(built(target), built(replace(target, source=changed)))
