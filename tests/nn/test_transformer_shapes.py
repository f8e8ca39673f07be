"""Encoder, decoder, encoder-decoder: what goes in, what comes out, what is refused."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

import pytest
import torch

from lengthwise import nn
from lengthwise.batch import Batch

V = 9
POSITIONS = {
    "none": nn.NoPosition,
    "sinusoidal": nn.Sinusoidal,
    "learned": nn.Learned,
    "integer": nn.Integer,
    "unit_interval": nn.UnitInterval,
    "binary": nn.Binary,
    "rotary": nn.Rotary,
    "alibi": nn.ALiBi,
    "t5": nn.T5Bias,
    "shared t5": partial(nn.T5Bias, share=True),
    "cross t5": partial(nn.T5Bias, cross=True),
    "shared cross rotary": partial(nn.Rotary, share=True, cross=True),
    "concatenated": partial(nn.Sinusoidal, combine="concat", dim=4),
}


def make_batch(n: int = 6, source: int | None = None, features: int | None = None) -> Batch:
    tokens = torch.randint(V, (2, n), generator=torch.Generator().manual_seed(n))
    mask = torch.arange(n) < torch.tensor([n, n - 1])[:, None]
    return Batch(
        tokens,
        mask,
        tokens,
        mask.sum(1),
        features=None if features is None else torch.randn(2, n, features),
        source=None if source is None else make_batch(source),
    )


def model(shape, **options) -> nn.Transformer:
    return shape(V, **{"width": 16, "layers": 2, "heads": 2, **options})


@pytest.mark.parametrize("shape", [nn.Encoder, nn.Decoder, nn.EncoderDecoder])
@pytest.mark.parametrize("position", POSITIONS)
def test_every_parameter_gets_a_gradient(shape, position: str) -> None:
    if position == "unit_interval" and shape is not nn.Encoder:
        with pytest.raises(ValueError, match="UnitInterval depends on the whole sequence's length"):
            model(shape, position=POSITIONS[position])
        return
    for attention, norm, bias in (
        (nn.ScaledAttention, nn.PreNorm, True),
        (nn.SharedAttention, nn.PostNorm, False),
        (nn.MergedAttention, nn.SandwichNorm, True),
        (nn.HardAttention, nn.NoNorm, False),
    ):
        built = model(
            shape,
            position=POSITIONS[position],
            attention=attention,
            norm=norm,
            bias=bias,
            activation=nn.SwiGLU,
        )
        logits = built(make_batch(6, source=8 if shape is nn.EncoderDecoder else None))
        assert logits.shape == (2, 6, V)
        logits.logsumexp(-1).sum().backward()
        assert [n for n, p in built.named_parameters() if p.grad is None] == []


def test_inspection() -> None:
    built = model(nn.EncoderDecoder)
    seen = built.inspect(make_batch(6, source=8))
    assert torch.equal(seen.logits, built(make_batch(6, source=8)))
    assert [m.shape for m in seen.attention_maps] == [(2, 2, 6, 6)] * 2
    assert [m.shape for m in seen.cross_maps] == [(2, 2, 6, 8)] * 2
    assert [m.shape for m in seen.source_attention_maps] == [(2, 2, 8, 8)] * 2
    assert [h.shape for h in seen.hidden] == [(2, 6, 16)] * 3
    assert [h.shape for h in seen.source_hidden] == [(2, 8, 16)] * 3
    assert torch.equal(built.head(built.decoder.final_norm(seen.hidden[-1])), seen.logits)
    single = model(nn.Encoder).inspect(make_batch())
    assert single.cross_maps == [] and single.source_hidden == []


def test_no_relative_term_across_by_default() -> None:
    assert model(nn.EncoderDecoder, position=nn.ALiBi).decoder.layers[0].cross_attention.position is None
    across = (
        model(nn.EncoderDecoder, position=partial(nn.ALiBi, cross=True)).decoder.layers[0].cross_attention
    )
    assert isinstance(across.position, nn.ALiBi) and not across.position.sizes.causal
    both = model(nn.EncoderDecoder, position=nn.Learned)
    assert isinstance(both.encoder.position, nn.Learned) and isinstance(both.decoder.position, nn.Learned)


def test_one_encoding_a_layer_unless_shared() -> None:
    assert len(model(nn.Encoder, position=nn.T5Bias).stack.encodings()) == 2
    assert len(model(nn.Encoder, position=partial(nn.T5Bias, share=True)).stack.encodings()) == 1


def test_float_features_join_the_tokens() -> None:
    built = model(nn.Encoder, feature_dim=5)
    batch = make_batch(features=5)
    expected = built.stack.embedding(batch.tokens) + batch.features @ built.stack.features.weight.T
    assert torch.allclose(built.inspect(batch).hidden[0], expected, atol=1e-6)
    with pytest.raises(ValueError, match="the batch has no features"):
        built(make_batch())
    with pytest.raises(ValueError, match="features of width 5: build with feature_dim"):
        model(nn.Encoder)(batch)


def test_embedding_scale() -> None:
    hidden = [model(nn.Encoder, embedding_scale=s).inspect(make_batch()).hidden[0] for s in (1.0, 4.0)]
    assert torch.equal(4 * hidden[0], hidden[1])


def test_concatenation_widens_all_layers() -> None:
    built = model(nn.Encoder, position=partial(nn.Sinusoidal, combine="concat", dim=4))
    assert built.stack.width == built.head.in_features == built.stack.layers[1].attention.width == 20
    with pytest.raises(ValueError, match="combine=concat has grown the width from 16 to 17"):
        model(nn.Encoder, position=partial(nn.Integer, combine="concat"))
    model(nn.Encoder, position=partial(nn.Integer, combine="concat"), key_dim=8, value_dim=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 0}, "heads must be at least 1, got 0"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"width": 33, "heads": 4}, "width 33 is not divisible by 4 heads: use a width of 32 or 36"),
        ({"width": 30, "heads": 4, "position": nn.Rotary}, "width 30 is not divisible by 4 heads"),
        ({"width": 30, "heads": 2, "position": nn.Rotary}, "even key width a head, got 15"),
        ({"dropout": 1.0}, "dropout must be at least 0 and less than 1, got 1.0"),
        ({"readout": "front"}, "readout must be"),
        ({"position": nn.Rotary, "attention": nn.FixedAttention}, "no queries and keys for Rotary"),
    ],
)
def test_impossible_models_are_named(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(nn.Encoder, **options)


def test_an_encoding_that_needs_a_causal_model() -> None:
    class Causal(nn.NoPosition):
        needs_causal = True

    with pytest.raises(ValueError, match="Causal needs a causal model"):
        model(nn.Encoder, position=Causal)
    model(nn.Decoder, position=Causal)


def test_fixed_weights_cannot_stand_across() -> None:
    with pytest.raises(ValueError, match="FixedAttention reads no queries"):
        model(nn.EncoderDecoder, attention=nn.FixedAttention)


def test_an_encoder_decoder_needs_a_source() -> None:
    with pytest.raises(ValueError, match="needs a batch with a source"):
        model(nn.EncoderDecoder)(make_batch())


def test_prefix_stability() -> None:
    """Declared for causal models: outputs of a prefix are those of the whole. Interpolation breaks it."""
    for position in ("none", "sinusoidal", "learned", "rotary", "alibi", "t5"):
        built = model(nn.Decoder, position=POSITIONS[position]).double().eval()
        assert built.prefix_stable
        whole = make_batch()
        prefix = replace(whole, tokens=whole.tokens[:, :4], key_mask=whole.key_mask[:, :4])
        assert torch.allclose(built(whole)[:, :4], built(prefix), atol=1e-12)
    squeezed = model(
        nn.Decoder, position=partial(nn.Learned, beyond="interpolate"), trained_length=3
    ).double()
    assert not squeezed.prefix_stable
    assert not torch.allclose(squeezed(whole)[:, :4], squeezed(prefix), atol=1e-3)
    assert not model(nn.Encoder).prefix_stable
    assert model(nn.EncoderDecoder).prefix_stable


def test_lengths_and_flags() -> None:
    learned = model(nn.Encoder, position=partial(nn.Learned, max_length=20), trained_length=8)
    assert learned.max_length == 20
    assert learned.position_flags(8) == () and learned.position_flags(9) == ("untrained_positions",)
    with pytest.raises(nn.LengthError, match="20 positions, position 20"):
        learned(make_batch(21))
    fixed = model(nn.Encoder, attention=partial(nn.FixedAttention, max_length=12), trained_length=8)
    assert fixed.max_length == 12 and fixed.position_flags(9) == ("untrained_positions",)
    assert model(nn.Encoder, position=nn.Rotary, trained_length=8).position_flags(1000) == ()
    assert model(nn.Encoder).max_length is None
    both = model(nn.EncoderDecoder, position=nn.Learned, trained_length=(30, 8))
    assert both.position_flags(30, 8) == ()
    assert both.position_flags(31, 8) == both.position_flags(30, 9) == ("untrained_positions",)
    one = model(nn.EncoderDecoder, position=nn.Learned, trained_length=8)
    assert one.position_flags(8) == () and one.position_flags(8, 9) == ("untrained_positions",)


def test_positions_from_the_batch_are_used() -> None:
    built = model(nn.Encoder, position=nn.Sinusoidal).double()
    batch = make_batch()
    numbers = torch.tensor([[3, 1, 4, 1, 5, 9]] * 2)
    hidden = built.inspect(replace(batch, positions=numbers)).hidden[0] - built.stack.embedding(batch.tokens)
    table = built.stack.position.embed(torch.zeros(1, 10, 16).double(), nn.Context(10, 10))[0]
    assert torch.allclose(hidden, table[numbers], atol=1e-12)
    with pytest.raises(ValueError, match="one number a token, got positions of shape"):
        built(replace(batch, positions=numbers[..., None].expand(-1, -1, 2)))


@pytest.mark.parametrize("position", POSITIONS)
def test_half_precision_runs(position: str) -> None:
    """Whole-module cast and autocast stay near float32; so does a deep copy in float64."""
    built = model(nn.Encoder, position=POSITIONS[position]).eval()
    exact = built(make_batch(40)).detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = built(make_batch(40))
    cast = copy.deepcopy(built).bfloat16()(make_batch(40))
    double = copy.deepcopy(built).double()(make_batch(40))
    assert (double - exact).abs().max() < 1e-4
    for low in (mixed, cast):
        assert (low.float() - exact).abs().max() / exact.abs().max() < 0.1


@pytest.mark.parametrize("position", POSITIONS)
def test_training_goes_on_after_inference_mode(position: str) -> None:
    """No tensor that was first made in inference mode is kept."""
    built = model(nn.Encoder, position=POSITIONS[position])
    with torch.inference_mode():
        before = built(make_batch())
    after = built(make_batch())
    assert torch.allclose(before, after, atol=1e-5)  # a learned bias takes another kernel when it trains
    after.sum().backward()


@pytest.mark.parametrize("position", POSITIONS)
def test_saved_and_loaded(position: str, tmp_path) -> None:
    built = model(nn.Encoder, position=POSITIONS[position], seed=1)
    torch.save(built.state_dict(), tmp_path / "state.pt")
    other = model(nn.Encoder, position=POSITIONS[position], seed=2)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(built(make_batch()), other(make_batch()))


def test_parameters_can_be_counted_without_memory() -> None:
    with torch.device("meta"):
        empty = model(nn.Encoder, position=nn.T5Bias)
    assert all(p.is_meta for p in empty.parameters())
    real = model(nn.Encoder, position=nn.T5Bias)
    assert [(n, p.shape) for n, p in empty.named_parameters()] == [
        (n, p.shape) for n, p in real.named_parameters()
    ]
