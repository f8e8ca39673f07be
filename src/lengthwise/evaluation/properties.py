"""Properties that every model must have, whatever stands in its slots: each a function of a model.

A property raises `PropertyError` that says what failed and by how much. They are meant for small models in float64 and
evaluation mode (`fill_tables` first: a table that is still zero proves nothing). `path_agreement` shows that train()
without dropout gives what eval() gives, to the bit, so what holds of outputs holds in both modes. The tenth property,
low precision, is one of an encoding: `lengthwise.evaluation.low_precision`.

Exempt is attention that reads one key (`reads_every_key` False): the others may change without a trace, and an encoding
inside it may leave the best key the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from lengthwise.batch import Batch
from lengthwise.nn import Decoder, Encoder, MultiHeadAttention
from lengthwise.nn.attention import kernel
from lengthwise.nn.position.contract import PERMUTATION, REVERSAL, TRANSLATION

Model = Encoder | Decoder
Property = Callable[[Model], None]

N = 6
"""Positions of the sequences that the properties look at."""

FAR = 400
"""From one position number to the next, and by how much they grow, where those near 0 hide something."""

ROUNDING = 1e-10
"""Relative: what is equal but for the order of sums differs by less, in float64."""

HOLDS, BREAKS = 1e-9, 1e-4
"""A declared symmetry's error is below, an undeclared one's above; relative, in float64."""


class PropertyError(AssertionError):
    """A property that does not hold."""


def batch_independence(model: Model) -> None:
    """A sequence's outputs are the same alone as beside others."""
    batch = make_batch(model, [N, 4])
    together = model(batch)
    for row, length in enumerate((N, 4)):
        tokens, mask = batch.tokens[row : row + 1, :length], batch.key_mask[row : row + 1, :length]
        alone = model(Batch(tokens, mask, tokens, batch.lengths[row : row + 1]))
        error = difference(alone, together[row : row + 1, :length])
        _below(error, ROUNDING, "outputs of a sequence alone and of the same beside another differ")


def pad_invariance(model: Model) -> None:
    """Right and left pads, with other ids inside, change neither outputs nor gradients at real positions."""
    batch, size = make_batch(model, [N, 4]), _vocabulary(model)
    generator = torch.Generator().manual_seed(1)
    cotangent = torch.randn(2, N, size, dtype=torch.float64, generator=generator)

    def run(left: int, right: int) -> tuple[Tensor, list[Tensor | None]]:
        tokens = torch.randint(size, (2, left + N + right), generator=generator)
        mask = torch.zeros_like(tokens, dtype=torch.bool)
        tokens[:, left : left + N], mask[:, left : left + N] = batch.tokens, batch.key_mask
        tokens = torch.where(mask, tokens, torch.randint(size, tokens.shape, generator=generator))
        model.zero_grad()
        real = batch.key_mask[..., None]
        with torch.enable_grad():
            logits = model(Batch(tokens, mask, tokens, batch.lengths))[:, left : left + N] * real
            (logits * cotangent).sum().backward()
        return logits, [None if p.grad is None else p.grad.clone() for p in model.parameters()]

    with _training(model):
        logits, gradients = run(0, 0)
        padded_logits, padded_gradients = run(2, 1)
        model.zero_grad()
    _below(difference(logits, padded_logits), ROUNDING, "outputs with and without pads differ")
    names = [name for name, _ in model.named_parameters()]
    for name, one, other in zip(names, gradients, padded_gradients, strict=True):
        if (one is None) != (other is None):
            raise PropertyError(f"{name} has a gradient only with or only without pads")
        if one is not None and other is not None and not torch.allclose(one, other, rtol=1e-8, atol=1e-10):
            _fail(
                difference(one, other), "at most 1e-08", f"gradients of {name} with and without pads differ"
            )


def causality(model: Model) -> None:
    """A later token changes nothing before it, to the bit: in training with dropout, with maps, with and without
    pads. Says nothing of a model that is not causal."""
    if not model.stack.causal:
        return
    t = 3
    with _training(model), _dropout(model, 0.1):
        for lengths, with_maps in (([N, N], False), ([N, 4], True)):
            batch = make_batch(model, lengths)
            changed = batch.tokens.clone()
            changed[:, t] = (changed[:, t] + 1) % _vocabulary(model)
            results = []
            for tokens in (batch.tokens, changed):
                one = replace(batch, tokens=tokens)
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(0)
                    results.append(model.inspect(one).logits if with_maps else model(one))
            if not torch.equal(results[0][:, :t], results[1][:, :t]):
                _fail(
                    difference(results[0][:, :t], results[1][:, :t]),
                    "0",
                    f"token {t} changes what is before it",
                )
            if torch.equal(results[0][:, t], results[1][:, t]):
                raise PropertyError(f"token {t} changes nothing at its own position")


def not_too_strict(model: Model) -> None:
    """A token changes every output at or after it (every output at all, if not causal)."""
    tokens = make_batch(model, [N]).tokens
    variants = tokens.repeat(N + 1, 1)
    for t in range(N):
        variants[t + 1, t] = (tokens[0, t] + 1) % _vocabulary(model)
    mask = torch.ones_like(variants, dtype=torch.bool)
    logits = model(Batch(variants, mask, variants, mask.sum(1)))
    changed = (logits[1:] != logits[:1]).any(dim=-1)  # (t, position)
    reached = torch.ones(N, N, dtype=torch.bool)
    if model.stack.causal:
        reached = reached.triu()
    if not _reads_every_key(model):
        reached = torch.eye(N, dtype=torch.bool)
    if (missing := reached & ~changed).any():
        t, position = missing.nonzero()[0].tolist()
        raise PropertyError(
            f"token {t} does not change the output at {position} ({int(missing.sum())} of {int(reached.sum())} "
            "token-output pairs)"
        )


def equivariance(model: Model, *, holds: float = HOLDS, breaks: float = BREAKS) -> None:
    """f(PX) = P f(X) for real tokens beside pads, where it is declared; fails where it is not."""
    index = torch.tensor([[3, 0, 5, 1, 4, 2], [2, 3, 1, 0, 4, 5]])
    _follows(model, PERMUTATION, lambda far: _move_error(model, index, far), holds, breaks)


def reversal(model: Model, *, holds: float = HOLDS, breaks: float = BREAKS) -> None:
    """As `equivariance`, for the reversal of the real tokens alone."""
    index = torch.tensor([[5, 4, 3, 2, 1, 0], [3, 2, 1, 0, 4, 5]])
    _follows(model, REVERSAL, lambda far: _move_error(model, index, far), holds, breaks)


def shift(model: Model, *, holds: float = HOLDS, breaks: float = BREAKS) -> None:
    """Position numbers all larger by 7 change nothing, where that is declared; something, where it is not. Numbers
    0…N-1 are those of a batch that gives none."""
    batch = make_batch(model, [N, 4])
    numbers, real = torch.arange(N).expand(2, -1), batch.key_mask[..., None]
    here = model(replace(batch, positions=numbers)) * real
    _below(difference(model(batch) * real, here), ROUNDING, "numbers 0…N-1 given, or not, differ")

    room = N * FAR if model.max_length is None else model.max_length - N

    def error(far: bool) -> float:
        by = min(room, N * FAR if far else 7)
        return difference(here, model(replace(batch, positions=numbers + by)) * real)

    if room > 0:
        _follows(model, TRANSLATION, error, holds, breaks)


def history_independence(model: Model) -> None:
    """Equal to the bit before and after a longer input, in inference mode too; training goes on after that."""
    batch = make_batch(model, [N, 4])
    longest = 40 if model.max_length is None else min(40, model.max_length)
    with torch.enable_grad():
        before = model(batch)
        with torch.inference_mode():
            model(make_batch(model, [longest, max(1, longest - 10)], width=longest))
        after = model(batch)
        if not torch.equal(before, after):
            _fail(difference(before, after), "0", "outputs before and after a longer input differ")
        before.sum().backward()
    model.zero_grad()


def path_agreement(model: Model) -> None:
    """Fused = naive attention; maps change no bit, and each row of them is a partition of unity (eqs 3-4); train()
    without dropout = eval()."""
    for lengths in ([N, N], [N, 4]):
        batch = make_batch(model, lengths)
        logits = model(batch)
        inspected = model.inspect(batch)
        if not torch.equal(logits, inspected.logits):
            _fail(difference(logits, inspected.logits), "0", "outputs with and without maps differ")
        for weights in (maps.detach() for maps in inspected.attention_maps):
            _below(float(-weights.min()), 1e-300, "a weight is negative, -w")
            _below(float((weights.sum(-1) - 1).abs().max()), 1e-12, "the weights of a query do not sum to 1")
        with _naive_attention():
            _below(difference(logits, model(batch)), ROUNDING, "fused and naive attention differ")
    with _training(model), _dropout(model, 0.0):
        trained = model(batch)
    if not torch.equal(logits, trained):
        _fail(difference(logits, trained), "0", "outputs of train() without dropout and of eval() differ")


PROPERTIES: dict[str, Property] = {
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
"""Those of a model, by name."""


def make_batch(model: Model, lengths: list[int], seed: int = 0, width: int | None = None) -> Batch:
    """Tokens (B, width) distinct within a sequence as far as the vocabulary goes, right pads with random ids."""
    generator = torch.Generator().manual_seed(seed)
    width, size = max(lengths) if width is None else width, _vocabulary(model)
    tokens = torch.stack(
        [torch.randperm(size, generator=generator)[torch.arange(width) % size] for _ in lengths]
    )
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    return Batch(tokens, mask, tokens, torch.tensor(lengths))


@torch.no_grad()
def fill_tables(model: Model) -> Model:
    """Every parameter of an encoding that is still zero gets values from N(0, 1); returns the model."""
    for name, parameter in model.named_parameters():
        if "position" in name and not parameter.any():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    return model


def difference(a: Tensor, b: Tensor) -> float:
    """max |a - b| relative to max |a|; infinite where either is not finite."""
    if not (a.isfinite().all() and b.isfinite().all()):
        return float("inf")
    most = (a - b).abs().max()
    return float(((most / a.abs().max()) if most else most).detach())


def _vocabulary(model: Model) -> int:
    return model.stack.embedding.num_embeddings


def _reads_every_key(model: Model) -> bool:
    return all(attention.reads_every_key for attention in model.stack.attentions())


def _move_error(model: Model, index: Tensor, far: bool) -> float:
    """How far f(X moved) is from f(X) moved, by `index` (B, N); far: with numbers far from each other."""
    batch = make_batch(model, [N, 4])
    if far:
        step = FAR if model.max_length is None else min(FAR, max(1, (model.max_length - 1) // N))
        batch = replace(batch, positions=(step * torch.arange(N)).expand(2, -1))
    moved = replace(batch, tokens=batch.tokens.gather(1, index))
    before = model(batch).gather(1, index[..., None].expand(-1, -1, _vocabulary(model)))
    real = batch.key_mask[..., None]
    return difference(before * real, model(moved) * real)


def _follows(
    model: Model, symmetry: str, error: Callable[[bool], float], holds: float, breaks: float
) -> None:
    """What is declared holds, and what is not declared fails, near position 0 or far from it."""
    near = error(False)
    if symmetry in model.symmetries:
        _below(near, holds, f"{symmetry} is declared, but does not hold")
        return
    positioned = any(attention.position is not None for attention in model.stack.attentions())
    if positioned and not _reads_every_key(model):
        return  # exempt, see above
    if not near > breaks and not (far := error(True)) > breaks:
        _fail(max(near, far), f"above {breaks:.0e}", f"{symmetry} is not declared, but holds")


def _below(error: float, limit: float, what: str) -> None:
    if not error <= limit:
        _fail(error, f"at most {limit:.0e}", what)


def _fail(error: float, legal: str, what: str) -> None:
    raise PropertyError(f"{what}: {error:.1e}, must be {legal}")


@contextmanager
def _training(model: Model) -> Iterator[None]:
    """In training mode; afterwards as it was."""
    was = model.training
    model.train()
    try:
        yield
    finally:
        model.train(was)


@contextmanager
def _dropout(model: Model, p: float) -> Iterator[None]:
    """Every dropout at `p`; afterwards as it was."""
    owners = [
        (module, "p" if isinstance(module, torch.nn.Dropout) else "dropout")
        for module in model.modules()
        if isinstance(module, torch.nn.Dropout | MultiHeadAttention)
    ]
    before = [getattr(module, name) for module, name in owners]
    for module, name in owners:
        setattr(module, name, p)
    try:
        yield
    finally:
        for (module, name), value in zip(owners, before, strict=True):
            setattr(module, name, value)


@contextmanager
def _naive_attention() -> Iterator[None]:
    """Softmax attention a query at a time, in place of the fused kernel."""
    fused = kernel.fused
    kernel.fused = _naive
    try:
        yield
    finally:
        kernel.fused = fused


def _naive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    bias: Tensor | None,
    causal: bool,
    allowed: Tensor | None,
    dropout: float,
) -> Tensor:
    """What `kernel.fused` computes, (B, H, Nq, Dv), by the definition."""
    assert dropout == 0
    rows = []
    for i in range(q.shape[2]):
        score = scale * (q[:, :, i, None, :] * k).sum(-1) + (0 if bias is None else bias[:, :, i])
        may = torch.ones(k.shape[2], dtype=torch.bool)
        if allowed is not None:
            may = allowed[:, :, min(i, allowed.shape[2] - 1)]
        elif causal:
            may = torch.arange(k.shape[2]) <= i
        e = torch.where(may, (score - score.amax(-1, keepdim=True)).exp(), 0.0)
        rows.append(((e / e.sum(-1, keepdim=True))[..., None] * v).sum(2))
    return torch.stack(rows, dim=2)
