"""Ten properties of every legal combination of encoding, norm placement, attention, heads and direction.

float64, one layer, tiny sizes. `path_agreement` shows that train() with dropout 0 gives what eval() gives, to
the bit, so the properties of outputs hold in both modes; causality is probed in training mode with dropout,
padding with gradients. Each property is broken once on purpose at the end, and must then be seen to fail.

Exempt, beside what is refused: hard attention reads one key, so that the others may change without a trace,
and an encoding inside the attention (rotary, ALiBi, T5, …) may leave the best key the best.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from itertools import product

import pytest
import torch

from lengthwise import nn
from lengthwise.batch import Batch
from lengthwise.nn import stack
from lengthwise.nn.attention import kernel
from lengthwise.nn.layer import Layer
from lengthwise.nn.position.contract import Constant
from lengthwise.paths import conf_dir

V, N = 11, 6

ENCODINGS = {
    "none": nn.NoPosition,
    "sinusoidal": nn.Sinusoidal,
    "learned": partial(nn.Learned, max_length=64),
    "integer": nn.Integer,
    "unit_interval": nn.UnitInterval,
    "binary": partial(nn.Binary, range=64),
    "rotary": nn.Rotary,
    "alibi": nn.ALiBi,
    "t5": nn.T5Bias,
    "xpos": partial(nn.XPos, scale_base=8.0),
    "kerple": nn.Kerple,
    "kerple_power": partial(nn.Kerple, kernel="power"),
    "fire": partial(nn.FIRE, threshold=2.0),
    "sandwich": partial(nn.Sandwich, dim=16),
    "shaw": partial(nn.Shaw, max_distance=3),
    "transformer_xl": nn.TransformerXL,
    "cope": partial(nn.CoPE, max_position=4),
    "forgetting": partial(nn.Forgetting, gate_bias=1.0),
    "stack": partial(nn.PositionStack, parts={"a": nn.Sinusoidal, "b": nn.T5Bias}),
}
ATTENTIONS = {
    "scaled": nn.ScaledAttention,
    "unscaled": nn.UnscaledAttention,
    "shared": nn.SharedAttention,
    "parameter_free": nn.ParameterFreeAttention,
    "hard": nn.HardAttention,
    "merged": nn.MergedAttention,
    "fixed": partial(nn.FixedAttention, max_length=64),
}
PLACEMENTS = {"pre": nn.PreNorm, "post": nn.PostNorm, "sandwich": nn.SandwichNorm, "none": nn.NoNorm}
HEADS = (1, 4, 6)


def refused(encoding: str, attention: str, causal: bool) -> str | None:
    """Why this combination is refused when the model is built, or None."""
    if encoding == "unit_interval" and causal:
        return "n/N tells a causal model how long the whole sequence is"
    if encoding in ("xpos", "cope", "forgetting") and not causal:
        return "keys ahead have no place in it"
    if encoding in ("rotary", "xpos", "shaw", "transformer_xl", "cope") and attention == "fixed":
        return "fixed weights have no queries and keys to act on"
    if encoding == "shaw" and attention == "merged":
        return "merged attention has no values of its own"
    return None


def build(
    encoding: str, attention: str, placement: str, heads: int, causal: bool, layers: int = 1
) -> nn.Transformer:
    """Small embeddings, so that X Xᵀ does not drive a softmax to weights below rounding."""
    model = (nn.Decoder if causal else nn.Encoder)(
        V,
        width=24,
        layers=layers,
        heads=heads,
        mlp_ratio=1.0,
        position=ENCODINGS[encoding],
        attention=ATTENTIONS[attention],
        norm=PLACEMENTS[placement],
    ).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in ("stack.embedding.weight", "stack.position.table.weight"):
                parameter.mul_(0.5)
            elif "position" in name and not parameter.any():  # a table that starts at 0 would prove nothing
                parameter.normal_(generator=torch.Generator().manual_seed(0))
    return model


cached = lru_cache(maxsize=64)(build)


def make_batch(lengths: list[int], seed: int = 0, width: int | None = None) -> Batch:
    """Distinct tokens within a sequence, right pads with random ids."""
    generator = torch.Generator().manual_seed(seed)
    width = max(lengths) if width is None else width
    tokens = torch.stack([torch.randperm(V, generator=generator)[torch.arange(width) % V] for _ in lengths])
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    return Batch(tokens, mask, tokens, torch.tensor(lengths))


def test_every_option_is_here() -> None:
    shipped = {path.stem for path in (conf_dir() / "pe").glob("*.yaml")}
    assert shipped <= set(ENCODINGS)


def moved(batch: Batch, index: torch.Tensor) -> Batch:
    """Tokens reordered by `index` (B, N)."""
    return replace(batch, tokens=batch.tokens.gather(1, index))


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """max |a - b| relative to max |a|."""
    return float(((a - b).abs().max() / a.abs().max()).detach())


# --- the properties: each takes a model, raises AssertionError where it does not have the property ---


def batch_independence(model: nn.Transformer) -> None:
    batch = make_batch([N, 4])
    together = model(batch)
    for row, length in enumerate((N, 4)):
        tokens, mask = batch.tokens[row : row + 1, :length], batch.key_mask[row : row + 1, :length]
        alone = model(Batch(tokens, mask, tokens, batch.lengths[row : row + 1]))
        assert difference(alone, together[row : row + 1, :length]) < 1e-10


def pad_invariance(model: nn.Transformer) -> None:
    """Right and left pads, with other ids inside, change neither outputs nor gradients at real positions."""
    batch = make_batch([N, 4])
    cotangent = torch.randn(2, N, V, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def run(left: int, right: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
        tokens = torch.randint(V, (2, left + N + right))
        mask = torch.zeros_like(tokens, dtype=torch.bool)
        tokens[:, left : left + N], mask[:, left : left + N] = batch.tokens, batch.key_mask
        tokens = torch.where(mask, tokens, torch.randint(V, tokens.shape))
        model.zero_grad()
        real = batch.key_mask[..., None]
        logits = model(Batch(tokens, mask, tokens, batch.lengths))[:, left : left + N] * real
        (logits * cotangent).sum().backward()
        return logits, [p.grad.clone() for p in model.parameters()]

    training = model.training
    model.train()
    logits, gradients = run(0, 0)
    padded_logits, padded_gradients = run(2, 1)
    assert difference(logits, padded_logits) < 1e-10
    for one, other in zip(gradients, padded_gradients, strict=True):
        assert torch.allclose(one, other, rtol=1e-8, atol=1e-10)
    model.zero_grad()
    model.train(training)


def _set_dropout(model: nn.Transformer, p: float) -> None:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = p
        elif isinstance(module, nn.MultiHeadAttention):
            module.dropout = p


def causality(model: nn.Transformer) -> None:
    """A later token changes nothing before it, to the bit: in training with dropout, with maps, with and
    without pads."""
    if not model.stack.causal:
        return
    model.train()
    _set_dropout(model, 0.1)
    t = 3
    for lengths, with_maps in (([N, N], False), ([N, 4], True)):
        batch = make_batch(lengths)
        changed = batch.tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % V
        results = []
        for tokens in (batch.tokens, changed):
            torch.manual_seed(0)
            one = replace(batch, tokens=tokens)
            results.append(model.inspect(one).logits if with_maps else model(one))
        assert torch.equal(results[0][:, :t], results[1][:, :t])
        assert not torch.equal(results[0][:, t], results[1][:, t])
    _set_dropout(model, 0.0)
    model.eval()


def not_too_strict(model: nn.Transformer) -> None:
    """A token changes every output at or after it (every output at all, if not causal)."""
    tokens = make_batch([N]).tokens
    variants = tokens.repeat(N + 1, 1)
    for t in range(N):
        variants[t + 1, t] = (tokens[0, t] + 1) % V
    mask = torch.ones_like(variants, dtype=torch.bool)
    logits = model(Batch(variants, mask, variants, mask.sum(1)))
    changed = (logits[1:] != logits[:1]).any(dim=-1)  # (t, position)
    reached = (
        torch.ones(N, N, dtype=torch.bool).triu()
        if model.stack.causal
        else torch.ones(N, N, dtype=torch.bool)
    )
    if isinstance(model.stack.layers[0].attention, nn.HardAttention):
        reached = torch.eye(N, dtype=torch.bool)  # exempt, see above
    assert changed[reached].all()


def _follows(model: nn.Transformer, symmetry: str, error: float) -> None:
    """What is declared holds, and what is not declared fails."""
    if symmetry in model.symmetries:
        assert error < 1e-11, f"{symmetry} is declared, error {error}"
        return
    hard = isinstance(model.stack.layers[0].attention, nn.HardAttention)
    if hard and model.stack.layers[0].attention.position is not None:
        return  # exempt, see above
    assert error > 1e-9, f"{symmetry} is not declared, but holds"


def equivariance(model: nn.Transformer) -> None:
    """f(PX) = P f(X) for real tokens, beside pads."""
    batch = make_batch([N, 4])
    index = torch.tensor([[3, 0, 5, 1, 4, 2], [2, 3, 1, 0, 4, 5]])
    error = _move_error(model, batch, index)
    _follows(model, "permutation", error)


def reversal(model: nn.Transformer) -> None:
    batch = make_batch([N, 4])
    _follows(
        model, "reversal", _move_error(model, batch, torch.tensor([[5, 4, 3, 2, 1, 0], [3, 2, 1, 0, 4, 5]]))
    )


def _move_error(model: nn.Transformer, batch: Batch, index: torch.Tensor) -> float:
    before = model(batch).gather(1, index[..., None].expand(-1, -1, V))
    real = batch.key_mask[..., None]
    return difference(before * real, model(moved(batch, index)) * real)


def shift(model: nn.Transformer) -> None:
    """position numbers + 7."""
    batch = make_batch([N, 4])
    numbers = torch.arange(N).expand(2, -1)
    here, there = (model(replace(batch, positions=numbers + c)) for c in (0, 7))
    real = batch.key_mask[..., None]
    assert difference(model(batch) * real, here * real) < 1e-10
    _follows(model, "translation", difference(here * real, there * real))


def history_independence(model: nn.Transformer) -> None:
    """Equal to the bit before and after a longer input, in inference mode too; training goes on after
    that."""
    batch = make_batch([N, 4])
    before = model(batch)
    with torch.inference_mode():
        model(make_batch([40, 30], width=40))
    assert torch.equal(before, model(batch))
    before.sum().backward()
    model.zero_grad()


def naive(q, k, v, *, scale, bias, causal, allowed, dropout):
    """Softmax attention, a query at a time."""
    assert dropout == 0
    rows = []
    for i in range(q.shape[2]):
        score = scale * (q[:, :, i, None, :] * k).sum(-1) + (0 if bias is None else bias[:, :, i])
        may = (
            torch.ones(k.shape[2], dtype=torch.bool)
            if allowed is None
            else allowed[:, :, min(i, allowed.shape[2] - 1)]
        )
        if allowed is None and causal:
            may = torch.arange(k.shape[2]) <= i
        e = torch.where(may, (score - score.amax(-1, keepdim=True)).exp(), 0.0)
        rows.append(((e / e.sum(-1, keepdim=True))[..., None] * v).sum(2))
    return torch.stack(rows, dim=2)


def path_agreement(model: nn.Transformer) -> None:
    """Fused = naive attention; maps change no bit; train() without dropout = eval()."""
    for lengths in ([N, N], [N, 4]):
        batch = make_batch(lengths)
        logits = model(batch)
        inspected = model.inspect(batch)
        assert torch.equal(logits, inspected.logits)
        weights = inspected.attention_maps[0]
        assert (
            weights.min() >= 0 and (weights.sum(-1) - 1).abs().max() < 1e-12
        )  # a partition of unity (eqs 3-4)
        real_kernel = kernel.fused
        kernel.fused = naive
        try:
            assert difference(logits, model(batch)) < 1e-10
        finally:
            kernel.fused = real_kernel
    model.train()
    assert torch.equal(logits, model(batch))
    model.eval()


PROPERTIES = {
    f.__name__: f
    for f in (
        batch_independence,
        pad_invariance,
        causality,
        not_too_strict,
        equivariance,
        reversal,
        shift,
        history_independence,
        path_agreement,
    )
}


@pytest.mark.parametrize("name", PROPERTIES)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_property(encoding: str, attention: str, name: str) -> None:
    for placement, heads, causal in product(PLACEMENTS, HEADS, (False, True)):
        if refused(encoding, attention, causal):
            continue
        model = cached(encoding, attention, placement, heads, causal).eval()
        try:
            with torch.set_grad_enabled(name in ("pad_invariance", "history_independence")):
                PROPERTIES[name](model)
        except AssertionError as error:
            cached.cache_clear()
            raise AssertionError(
                f"{name}: norm={placement} heads={heads} causal={causal}: {error}"
            ) from error


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_what_is_refused_says_so(encoding: str, attention: str) -> None:
    for causal in (False, True):
        if refused(encoding, attention, causal):
            with pytest.raises(ValueError, match=r"use (an encod|a decoder)"):
                build(encoding, attention, "pre", 1, causal)


@pytest.mark.parametrize("name", PROPERTIES)
def test_property_of_three_layers(name: str) -> None:
    for encoding, causal in product(ENCODINGS, (False, True)):
        if not refused(encoding, "scaled", causal):
            PROPERTIES[name](build(encoding, "scaled", "pre", 4, causal, layers=3).eval())


# --- a number along (1, …, 1) is removed by a LayerNorm in front of every sublayer ---


@pytest.mark.parametrize("encoding", [nn.Integer, nn.UnitInterval])
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("norm_layer", [nn.LayerNorm, nn.RMSNorm])
def test_a_uniform_shift_is_invisible_behind_layernorm(encoding, placement, norm_layer) -> None:
    model = nn.Encoder(
        V,
        width=24,
        layers=2,
        heads=4,
        position=partial(encoding, direction="ones"),
        norm=PLACEMENTS[placement],
        norm_layer=norm_layer,
    ).double()
    declared = placement in ("pre", "sandwich") and norm_layer is nn.LayerNorm
    assert ("permutation" in model.symmetries) == declared
    for check in (equivariance, reversal, shift):
        check(model.eval())


# --- property 9: low precision ---

EMBEDDINGS = {
    "sinusoidal": nn.Sinusoidal,
    "learned": partial(nn.Learned, max_length=4096),
    "integer": nn.Integer,
    "unit_interval": nn.UnitInterval,
    "binary": partial(nn.Binary, range=4096),
}


def low_precision_table(encoding: nn.PositionEncoding, count: int) -> torch.Tensor:
    """The rows of 0…count-1 after a whole-module cast to bfloat16, under autocast."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = torch.zeros(1, count, 64, dtype=torch.bfloat16)
        return encoding.bfloat16().embed(x, nn.Context(count, count))[0].detach()


def check_low_precision(encoding: nn.PositionEncoding) -> None:
    """Equal to the float32 rows to bfloat16's rounding, and as distinct as declared."""
    exact = encoding.float().embed(torch.zeros(1, 4096, 64), nn.Context(4096, 4096))[0]
    error = (low_precision_table(encoding, 4096).float() - exact).abs()
    assert (error <= 2**-8 * exact.abs()).all()
    limit = encoding.distinct_until or 4096
    assert len(torch.unique(low_precision_table(encoding, limit), dim=0)) == limit
    if limit < 4096:
        assert len(torch.unique(low_precision_table(encoding, 4096), dim=0)) < 4096


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_tables_in_bfloat16_are_the_float32_tables_rounded(name: str) -> None:
    check_low_precision(EMBEDDINGS[name](nn.Sizes(64, 4)))


@pytest.mark.parametrize("cast", [False, True])
def test_rotation_in_bfloat16(cast: bool) -> None:
    rotary = nn.Rotary(nn.Sizes(64, 1, 64))
    ones = torch.ones(1, 1, 4096, 64)
    exact = rotary.rotate(ones.double(), ones.double(), nn.Context(4096, 4096))[0]
    if cast:
        rotary.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rotated = rotary.rotate(ones.bfloat16(), ones.bfloat16(), nn.Context(4096, 4096))[0]
    assert rotated.dtype == torch.bfloat16
    assert (rotated.double() - exact).abs().max() < 0.01


@pytest.mark.parametrize("encoding", [nn.ALiBi, nn.T5Bias])
def test_biases_survive_a_cast(encoding) -> None:
    module = encoding(nn.Sizes(16, 4, 4))
    if isinstance(module, nn.T5Bias):
        torch.nn.init.normal_(module.table.weight)
    before = module.bias(nn.Context(64, 64))
    after = module.bfloat16().bias(nn.Context(64, 64)).float()
    assert ((after - before).abs() <= 2**-8 * before.abs()).all()


# --- negative controls: break the property, see it fail ---


def fails(check, model) -> None:
    with pytest.raises(AssertionError):
        check(model)


def test_control_batch_independence(monkeypatch) -> None:
    """Samples leak into each other."""
    model = build("none", "scaled", "pre", 4, False).eval()
    forward = Layer.forward
    monkeypatch.setattr(
        Layer, "forward", lambda self, x, *a: forward(self, x + 1e-3 * x.mean((0, 1), keepdim=True), *a)
    )
    fails(batch_independence, model)


def test_control_pad_invariance(monkeypatch) -> None:
    """Pads unmasked; then, with the mask in place, positions counted from the left edge."""
    model = build("none", "scaled", "pre", 4, False).eval()
    monkeypatch.setattr(stack, "allowed_keys", lambda *a: None)
    fails(pad_invariance, model)
    monkeypatch.undo()
    numbered = stack._numbered
    monkeypatch.setattr(stack, "_numbered", lambda batch: (numbered(batch)[0], batch.positions))
    fails(pad_invariance, build("learned", "scaled", "pre", 4, False).eval())


@pytest.mark.parametrize("attention", ["scaled", "hard", "fixed"])
def test_control_causality(monkeypatch, attention: str) -> None:
    """The mask is off by one."""
    model = build("none", attention, "pre", 4, True).eval()
    monkeypatch.setattr(
        kernel, "lower_triangle", lambda n, m, device: torch.ones(n, m, dtype=torch.bool).tril(1)
    )
    fails(causality, model)


def test_control_causality_without_a_mask(monkeypatch) -> None:
    """The causal flag is dropped where there are no pads."""
    model = build("none", "scaled", "pre", 4, True).eval()
    fused = kernel.fused
    monkeypatch.setattr(kernel, "fused", lambda *a, causal, **k: fused(*a, causal=False, **k))
    fails(causality, model)


def test_control_not_too_strict(monkeypatch) -> None:
    """A query sees only the last two keys."""
    model = build("alibi", "scaled", "pre", 4, True).eval()
    window = lambda n, m, device: torch.ones(n, m, dtype=torch.bool).tril().triu(-1)  # noqa: E731
    monkeypatch.setattr(kernel, "lower_triangle", window)
    fails(not_too_strict, model)


def test_control_equivariance(monkeypatch) -> None:
    """An encoding that secretly adds positions; one that secretly adds none."""
    model = build("none", "scaled", "pre", 4, False).eval()
    ramp = torch.linspace(0, 1e-3, 24)
    monkeypatch.setattr(nn.NoPosition, "embed", lambda self, x, c: x + c.query_numbers()[..., None] * ramp)
    monkeypatch.setattr(nn.Sinusoidal, "embed", lambda self, x, c: x)
    fails(equivariance, model)
    fails(equivariance, build("sinusoidal", "scaled", "pre", 4, False).eval())


def test_control_reversal(monkeypatch) -> None:
    """One-row ALiBi, right only under a causal mask; a T5 table that forgets the sign."""
    one_row = lambda self, c: (self.slopes.like(c.device, c.precision)[:, None, None] * c.key_numbers())[None]  # noqa: E731
    model = build("alibi", "scaled", "pre", 4, False).eval()
    monkeypatch.setattr(nn.ALiBi, "bias", one_row)
    fails(reversal, model)
    buckets = nn.T5Bias.buckets
    monkeypatch.setattr(nn.T5Bias, "buckets", lambda self, offsets: buckets(self, -offsets.abs()))
    fails(reversal, build("t5", "scaled", "pre", 4, False).eval())


def test_control_shift(monkeypatch) -> None:
    """Rotary phases that grow with the square of the position."""
    turn = nn.Rotary._turn
    monkeypatch.setattr(nn.Rotary, "_turn", lambda self, x, numbers: turn(self, x, numbers**2))
    fails(shift, build("rotary", "scaled", "pre", 4, False).eval())


def test_control_history(monkeypatch) -> None:
    """A table scaled by the longest input seen so far."""
    longest = [0]

    def embed(self, x, context):
        longest[0] = max(longest[0], context.num_queries)
        return x + longest[0] * context.query_numbers()[..., None]

    monkeypatch.setattr(nn.NoPosition, "embed", embed)
    fails(history_independence, build("none", "scaled", "pre", 4, False).eval())


def test_control_low_precision(monkeypatch) -> None:
    """Frequencies that are rounded to bfloat16, as a buffer would be, when the module is cast."""
    encoding = nn.Sinusoidal(nn.Sizes(64, 4))

    def rounded(self, device, dtype):
        return torch.tensor(self.values).to(encoding.marker.dtype).to(dtype)

    encoding.register_buffer("marker", torch.zeros(()))
    monkeypatch.setattr(Constant, "like", rounded)
    fails(check_low_precision, encoding)


@pytest.mark.parametrize("encoding", ["rotary", "alibi"])
def test_control_path_agreement(monkeypatch, encoding: str) -> None:
    """The scale of the whole width; then maps that disturb the output."""
    model = build(encoding, "scaled", "pre", 4, True).eval()
    fused = kernel.fused
    monkeypatch.setattr(kernel, "fused", lambda *a, scale, **k: fused(*a, scale=24**-0.5, **k))
    fails(path_agreement, model)
    monkeypatch.undo()
    inspect = nn.Transformer.inspect
    disturbed = lambda self, batch: replace(inspect(self, batch), logits=self(batch) + 1e-9)  # noqa: E731
    monkeypatch.setattr(nn.Transformer, "inspect", disturbed)
    fails(path_agreement, model)
