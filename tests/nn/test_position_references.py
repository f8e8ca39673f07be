"""Each encoding in the attention against its formula, three positions or a closed form, written out in plain Python."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from lengthwise import nn
from lengthwise.nn.init import DefaultInit, initialise

N = 3


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def context(count: int = N, causal: bool = False, x: torch.Tensor | None = None, **options) -> nn.Context:
    x = torch.zeros(1, count, 1, dtype=torch.float64) if x is None else x
    return nn.Context(count, count, causal, queries_input=x, keys_input=x, **options)


def filled(encoding: nn.PositionEncoding, seed: int = 0) -> nn.PositionEncoding:
    """Every parameter drawn from N(0, 1)."""
    encoding = encoding.double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in encoding.parameters():
        parameter.data = torch.randn(parameter.shape, dtype=torch.float64, generator=generator)
    return encoding


def dot(a, b) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def bias_of(encoding: nn.PositionEncoding, count: int = N, **options) -> list:
    return encoding.bias(context(count, **options))[0].tolist()


# --- rotary: widths, layouts, rescalings ---


def turned(rotary: nn.PositionEncoding, x: torch.Tensor, numbers: list[int]) -> torch.Tensor:
    """x (N, K), one head."""
    positions = torch.tensor([numbers])
    given = nn.Context(len(numbers), len(numbers), query_positions=positions, key_positions=positions)
    return rotary.rotate(x[None, None], x[None, None], given)[0][0, 0]


def test_the_layouts_are_one_rotation_in_another_order_of_columns() -> None:
    x, order = randn(4, 8), [0, 2, 4, 6, 1, 3, 5, 7]
    pairs, halves = (nn.Rotary(nn.Sizes(8, 1), layout=layout) for layout in ("interleaved", "half"))
    numbers = [0, 1, 5, 40]
    assert torch.equal(turned(pairs, x, numbers)[:, order], turned(halves, x[:, order], numbers))
    assert not torch.allclose(turned(pairs, x, numbers), turned(halves, x, numbers), atol=0.1)
    for i in range(4):  # columns i and i + W/2 share a frequency
        angle = 5 * 10000 ** (-2 * i / 8)
        a, b = float(x[2, i]), float(x[2, i + 4])
        row = turned(halves, x, numbers)[2]
        assert float(row[i]) == pytest.approx(a * math.cos(angle) - b * math.sin(angle), abs=1e-12)
        assert float(row[i + 4]) == pytest.approx(a * math.sin(angle) + b * math.cos(angle), abs=1e-12)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_fraction_of_the_columns_is_a_narrower_rotation(layout: str) -> None:
    x = randn(4, 16)
    part = nn.Rotary(nn.Sizes(16, 1), fraction=0.25, layout=layout)
    narrow = nn.Rotary(nn.Sizes(4, 1), layout=layout)
    y = turned(part, x, [0, 1, 2, 9])
    assert torch.equal(y[:, 4:], x[:, 4:])
    assert torch.equal(y[:, :4], turned(narrow, x[:, :4], [0, 1, 2, 9]))


def angles(**options) -> list[float]:
    return list(nn.Rotary(nn.Sizes(16, 1, trained_length=100), **options).frequencies.values)


PLAIN = [10000 ** (-2 * i / 16) for i in range(8)]


def test_position_interpolation_divides_every_angle() -> None:
    assert angles(scaling="linear", factor=4) == pytest.approx([w / 4 for w in PLAIN], rel=1e-14)
    x = randn(3, 16)
    squeezed = nn.Rotary(nn.Sizes(16, 1), scaling="linear", factor=4)
    assert torch.allclose(
        turned(squeezed, x, [0, 4, 8]), turned(nn.Rotary(nn.Sizes(16, 1)), x, [0, 1, 2]), rtol=0, atol=1e-14
    )


def test_ntk_keeps_the_fastest_angle_and_divides_the_slowest() -> None:
    scaled = angles(scaling="ntk", factor=4)
    assert scaled[0] == 1
    assert scaled[-1] == pytest.approx(PLAIN[-1] / 4, rel=1e-12)
    base = 10000 * 4 ** (16 / 14)
    assert scaled == pytest.approx([base ** (-2 * i / 16) for i in range(8)], rel=1e-12)


@pytest.mark.parametrize(("scaling", "fast"), [("yarn", 32), ("llama3", 4)])
def test_interpolation_by_turns(scaling: str, fast: float) -> None:
    """Turns within 100 positions: 15.9, 5.0, 1.6, 0.5, …; with 4 and 1 as the limits the third is in between."""
    expected = []
    for w in PLAIN:
        turns = 100 / (2 * math.pi / w)
        kept = 0 if turns < 1 else 1 if turns > fast else (turns - 1) / (fast - 1)
        expected.append((1 - kept) * w / 4 + kept * w)
    assert angles(scaling=scaling, factor=4) == pytest.approx(expected, rel=1e-12)
    assert expected[-1] == PLAIN[-1] / 4
    assert (expected[0] == PLAIN[0]) == (scaling == "llama3")
    assert PLAIN[2] / 4 < expected[2] < PLAIN[2]
    q = randn(1, 1, 3, 16)
    rotary = nn.Rotary(nn.Sizes(16, 1, trained_length=100), scaling=scaling, factor=4)
    q2, k2 = rotary.rotate(q, q, nn.Context(3, 3))
    sharper = (0.1 * math.log(4) + 1) ** 2 if scaling == "yarn" else 1
    assert torch.allclose((q2 * k2).sum(-1), sharper * (q * q).sum(-1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("scaling", ["linear", "ntk", "yarn", "llama3"])
def test_a_rescaled_score_is_still_relative(scaling: str) -> None:
    rotary = nn.Rotary(nn.Sizes(16, 1, trained_length=64), scaling=scaling, factor=8)
    q, k = randn(1, 16).expand(60, -1), randn(1, 16, seed=1).expand(60, -1)
    given = nn.Context(60, 60)
    q2, k2 = (a[0, 0] for a in rotary.rotate(q[None, None], k[None, None], given))
    scores = q2 @ k2.T
    for offset in (0, 3, 40):
        assert scores.diagonal(offset).std() < 1e-12
    assert abs(scores[0, 0] - scores[0, 30]) > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"fraction": 0.3},
            "fraction=0.3 of 16 columns is not an even number of them: fraction=0.25 would do",
        ),
        ({"fraction": 1.5}, "fraction must be above 0 and at most 1"),
        ({"layout": "pairs"}, "layout must be"),
        ({"scaling": "dynamic"}, "scaling must be one of none, linear, ntk, yarn, llama3"),
        ({"factor": 2.0}, "factor=2.0 has no effect with scaling=none"),
        ({"scaling": "ntk"}, "scaling=ntk has no effect with factor=1"),
        ({"scaling": "linear", "factor": 0.5}, "factor must be at least 1"),
        (
            {"scaling": "linear", "factor": 2.0, "fast_turns": 8.0},
            "fast_turns=8.0 has no effect with scaling=linear",
        ),
        (
            {"scaling": "yarn", "factor": 2.0},
            "needs the length of the training sequences: set original_length",
        ),
        (
            {"scaling": "llama3", "factor": 2.0, "original_length": 50, "slow_turns": 9.0},
            "below fast_turns, got 9.0 and 4.0",
        ),
        ({"scaling": "ntk", "factor": 2.0, "fraction": 0.125}, "at least 4 turned columns"),
    ],
)
def test_impossible_rotations_are_named(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nn.Rotary(nn.Sizes(16, 1), **options)


# --- xPos ---


def test_xpos_is_rotary_times_a_decay_by_distance() -> None:
    """(R q)·(R k) of each pair times ζ_i^{(n-m)/512}, ζ_i = (2i/K + 0.4)/1.4."""
    q, k = randn(N, 8), randn(N, 8, seed=1)
    xpos, rotary = nn.XPos(nn.Sizes(8, 1, causal=True)), nn.Rotary(nn.Sizes(8, 1))
    given = context()
    q1, k1 = (a[0, 0] for a in rotary.rotate(q[None, None], k[None, None], given))
    q2, k2 = (a[0, 0] for a in xpos.rotate(q[None, None], k[None, None], given))
    for n in range(N):
        for m in range(n + 1):
            expected = 0.0
            for i in range(4):
                zeta = (2 * i / 8 + 0.4) / 1.4
                pair = slice(2 * i, 2 * i + 2)
                expected += dot(q1[n, pair], k1[m, pair]) * zeta ** ((n - m) / 512)
            assert dot(q2[n], k2[m]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_xpos_stays_finite_and_relative_far_out(dtype: torch.dtype) -> None:
    xpos = nn.XPos(nn.Sizes(8, 1, causal=True))
    count = 60000
    q = torch.ones(1, 1, count, 8, dtype=dtype)
    q2, k2 = xpos.rotate(q, q, nn.Context(count, count, queries_input=q[:, 0]))
    near = (q2[0, 0, 1:] * k2[0, 0, :-1]).sum(-1)
    assert near.isfinite().all()
    assert (near - near[0]).abs().max() < (2e-2 if dtype == torch.float32 else 1e-9)
    with pytest.raises(nn.LengthError, match="xpos defines at most"):
        xpos.rotate(q.half(), q.half(), nn.Context(count, count))


# --- biases by distance ---


def test_alibi_with_separate_sides() -> None:
    """Four heads: 1/4, 1/16, 1/64, 1/256 for the keys behind, and in reverse for those ahead."""
    bias = bias_of(nn.ALiBi(nn.Sizes(8, 4), sides="separate"))
    behind = [1 / 4, 1 / 16, 1 / 64, 1 / 256]
    for h in range(4):
        for n in range(N):
            for m in range(N):
                slope = behind[h] if m <= n else behind[3 - h]
                assert bias[h][n][m] == pytest.approx(-slope * abs(n - m), rel=1e-12)
    for sizes in (nn.Sizes(8, 4, causal=True), nn.Sizes(8, 1)):
        with pytest.raises(ValueError, match="changes nothing without"):
            nn.ALiBi(sizes, sides="separate")


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_kerple(kernel: str) -> None:
    encoding = nn.Kerple(nn.Sizes(8, 3), kernel=kernel).double()
    encoding.strength.data = torch.tensor([0.5, 1.5, -2.0], dtype=torch.float64)
    encoding.shape.data = torch.tensor([1.0, 0.25, 7.0], dtype=torch.float64)
    strength, shape = [0.5, 1.5, 0.01], [1.0, 0.25, 7.0 if kernel == "log" else 2.0]  # held in their range
    bias = bias_of(encoding, 5)
    for h in range(3):
        for n in range(5):
            for m in range(5):
                d = abs(n - m)
                value = math.log(1 + shape[h] * d) if kernel == "log" else d ** shape[h]
                assert bias[h][n][m] == pytest.approx(-strength[h] * value, abs=1e-12)


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_kerple_learns_even_outside_its_range(kernel: str) -> None:
    encoding = nn.Kerple(nn.Sizes(8, 2), kernel=kernel).double()
    encoding.strength.data.fill_(-1.0)
    encoding.bias(context(4)).sum().backward()
    assert encoding.strength.grad.abs().min() > 0 and encoding.shape.grad.isfinite().all()


def test_kerple_starts_in_the_authors_ranges() -> None:
    for kernel, twice in (("log", "strength"), ("power", "shape")):
        model = nn.Decoder(9, width=512, layers=1, heads=256, position=partial(nn.Kerple, kernel=kernel))
        encoding = model.stack.layers[0].attention.position
        for name in ("strength", "shape"):
            values, high = getattr(encoding, name), 2.0 if name == twice else 1.0
            assert values.min() >= 0 and 0.9 * high < values.max() <= high
            assert float(values.detach().mean()) == pytest.approx(high / 2, rel=0.15)


def test_sandwich() -> None:
    """⟨r_n, r_m⟩ of the sinusoidal encoding, divided by 8h/H."""
    bias = bias_of(nn.Sandwich(nn.Sizes(8, 4), dim=6), 5)
    table = nn.Sinusoidal(nn.Sizes(6, 1)).embed(torch.zeros(1, 5, 6, dtype=torch.float64), nn.Context(5, 5))[
        0
    ]
    for h in range(4):
        for n in range(5):
            for m in range(5):
                assert bias[h][n][m] == pytest.approx(dot(table[n], table[m]) / (8 * (h + 1) / 4), abs=1e-12)
    closed = sum(math.cos(2 * 10000 ** (-2 * i / 6)) for i in range(3))
    assert bias[3][4][2] == pytest.approx(closed / 8, abs=1e-12)


@pytest.mark.parametrize(
    "build",
    [nn.ALiBi, nn.Kerple, partial(nn.Kerple, kernel="power"), nn.Sandwich, partial(nn.Shaw, max_distance=9)],
)
def test_distances_told_apart_in_bfloat16_are_as_many_as_declared(build) -> None:
    encoding = build(nn.Sizes(8, 4, causal=True))
    vectors = encoding.by_distance(nn.Context(600, 600))
    if vectors is None:  # a row of a table a distance
        rows = encoding.rows(nn.Context(600, 600))
        vectors = rows[0, :, -1].flip(-1)
    else:
        vectors = vectors[:, :600].flip(-1).detach().bfloat16()  # distances 0, 1, 2, …
    limit = encoding.distinct_until
    assert all(len(vector[:limit].unique()) == limit for vector in vectors)
    assert any(len(vector[: limit + 2].unique()) < limit + 2 for vector in vectors)


@pytest.mark.parametrize("first", [0, 3])
def test_fire(first: int) -> None:
    """On both sides of its threshold, 1.5·2 = 3: queries 0, 1, 2, then 3, 4, 5."""
    encoding = filled(nn.FIRE(nn.Sizes(8, 2), hidden=4, threshold=2.0))
    encoding.c.data.fill_(-0.3)
    encoding.multiplier.data.fill_(1.5)
    numbers = torch.arange(first, first + N)[None]
    bias = bias_of(encoding, query_positions=numbers, key_positions=numbers)
    w1, b1 = encoding.hidden.weight[:, 0].tolist(), encoding.hidden.bias.tolist()
    w2, b2 = encoding.output.weight.tolist(), encoding.output.bias.tolist()
    for h in range(2):
        for n in range(first, first + N):
            for m in range(first, first + N):
                x = math.log(1 + 0.3 * abs(n - m)) / (math.log(1 + 0.3 * max(n, 3)) + 1e-6)
                units = [max(0.0, w * x + b) for w, b in zip(w1, b1, strict=True)]
                expected = dot(w2[h], units) + b2[h]
                assert bias[h][n - first][m - first] == pytest.approx(expected, abs=1e-12)


def test_fire_is_relative_before_its_threshold_alone() -> None:
    encoding = filled(nn.FIRE(nn.Sizes(8, 2), threshold=16.0))
    encoding.multiplier.data.fill_(1.0)
    bias = encoding.bias(context(40))[0, 0]
    diagonal = bias.diagonal(-3)
    assert (diagonal[:13] - diagonal[0]).abs().max() < 1e-12
    assert (diagonal[14:] - diagonal[0]).abs().min() > 1e-4


# --- encodings that read the content ---


def attend(encoding: nn.PositionEncoding, causal: bool, heads: int = 2, width: int = 4):
    """An attention layer of that encoding, its input, and what it gives with the weights."""
    torch.manual_seed(0)
    attention = nn.ScaledAttention(width, heads, position=encoding).double()
    x, maps = randn(1, N, width, seed=2), []
    y = attention(x, nn.Context(N, N, causal), maps=maps)
    parts = [a[0].tolist() for a in attention.project(x, x)]
    return attention, x[0], maps[0][0].tolist(), y[0], parts


def check_weights(weights, logits, causal: bool) -> None:
    """weights = Softmax[logits], h × n × m in plain Python."""
    for h, rows in enumerate(logits):
        for n, row in enumerate(rows):
            seen = row[: n + 1] if causal else row
            total = sum(math.exp(a) for a in seen)
            for m, a in enumerate(seen):
                assert weights[h][n][m] == pytest.approx(math.exp(a) / total, abs=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("values", [False, True])
def test_shaw(causal: bool, values: bool) -> None:
    """Distances beyond ±1 are clipped; keys and values get a vector a distance; the scale applies to both."""
    encoding = filled(nn.Shaw(nn.Sizes(4, 2, causal=causal), max_distance=1, values=values))
    attention, _, weights, y, (q, k, v) = attend(encoding, causal)
    rows = lambda n, m: max(-1, min(1, m - n)) + 1  # noqa: E731
    a_k = encoding.keys.weight.tolist()
    a_k += [[0.0, 0.0]] * (3 - len(a_k))  # a causal model has no row for what lies ahead
    logits = [
        [
            [
                dot(q[h][n], [c + a for c, a in zip(k[h][m], a_k[rows(n, m)], strict=True)]) / 2**0.5
                for m in range(N)
            ]
            for n in range(N)
        ]
        for h in range(2)
    ]
    check_weights(weights, logits, causal)
    a_v = encoding.values.weight.tolist() if values else [[0.0, 0.0]] * 3
    for n in range(N):
        joined = []
        for h in range(2):
            for c in range(2):
                joined.append(
                    sum(
                        weights[h][n][m] * (v[h][m][c] + a_v[rows(n, m)][c])
                        for m in range(n + 1 if causal else N)
                    )
                )
        expected = attention.output(torch.tensor(joined, dtype=torch.float64))
        assert torch.allclose(y[n], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_transformer_xl(causal: bool, given: bool) -> None:
    """(q+u)·k + (q+v)·W R_{n-m}, R in interleaved columns, distances of both signs."""
    encoding = filled(nn.TransformerXL(nn.Sizes(4, 2, causal=causal)))
    torch.manual_seed(0)
    attention = nn.ScaledAttention(4, 2, position=encoding).double()
    numbers = [5, 7, 11] if given else [0, 1, 2]
    positions = torch.tensor([numbers]) if given else None
    x, maps = randn(1, N, 4, seed=2), []
    attention(x, nn.Context(N, N, causal, query_positions=positions, key_positions=positions), maps=maps)
    q, k, _ = (a[0].tolist() for a in attention.project(x, x))
    w, u, v = encoding.distance.weight.tolist(), encoding.u.tolist(), encoding.v.tolist()

    def r(distance: int, h: int) -> list[float]:
        sinusoid = [
            math.sin(distance), math.cos(distance), math.sin(distance / 100), math.cos(distance / 100)
        ]  # fmt: skip
        return [dot(w[2 * h + c], sinusoid) for c in range(2)]

    plus = lambda a, b: [i + j for i, j in zip(a, b, strict=True)]  # noqa: E731
    logits = [
        [
            [
                (dot(plus(q[h][n], u[h]), k[h][m]) + dot(plus(q[h][n], v[h]), r(numbers[n] - numbers[m], h)))
                / 2**0.5
                for m in range(N)
            ]
            for n in range(N)
        ]
        for h in range(2)
    ]
    check_weights(maps[0][0].tolist(), logits, causal)


def test_cope() -> None:
    """p = Σ_{t=m…n} σ(logit_nt), clamped to 1; q·e mixed between whole numbers."""
    encoding = filled(nn.CoPE(nn.Sizes(4, 2, causal=True), max_position=2))
    _, _, weights, _, (q, k, _) = attend(encoding, causal=True)
    e, clamped, logits = encoding.table.weight.tolist(), 0, []
    for h in range(2):
        rows = []
        for n in range(N):
            plain = [dot(q[h][n], k[h][m]) / 2**0.5 for m in range(N)]
            row = []
            for m in range(n + 1):
                p = sum(1 / (1 + math.exp(-plain[t])) for t in range(m, n + 1))
                clamped += p > 1
                p = min(p, 1.0)
                row.append(plain[m] + (1 - p) * dot(q[h][n], e[0]) + p * dot(q[h][n], e[1]))
            rows.append(row)
        logits.append(rows)
    assert 0 < clamped < 12
    check_weights(weights, logits, causal=True)


def test_forgetting() -> None:
    """Σ_{l=m+1…n} ln σ(w·x_l + b)."""
    encoding = filled(nn.Forgetting(nn.Sizes(4, 2, causal=True)))
    _, x, weights, _, (q, k, _) = attend(encoding, causal=True)
    w, b = encoding.gate.weight.tolist(), encoding.gate.bias.tolist()
    logs = [[math.log(1 / (1 + math.exp(-dot(w[h], row) - b[h]))) for row in x] for h in range(2)]
    logits = [
        [
            [dot(q[h][n], k[h][m]) / 2**0.5 + sum(logs[h][m + 1 : n + 1]) for m in range(n + 1)]
            for n in range(N)
        ]
        for h in range(2)
    ]
    check_weights(weights, logits, causal=True)


def test_forgetting_with_a_constant_gate_is_alibi() -> None:
    encoding = nn.Forgetting(nn.Sizes(8, 4, causal=True)).double()
    encoding.gate.weight.data.zero_()
    slopes = torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256], dtype=torch.float64)
    encoding.gate.bias.data = -torch.log(torch.expm1(slopes))  # ln σ(b) = -slope
    bias = encoding.bias(context(6, causal=True, x=randn(1, 6, 8)))
    assert torch.allclose(bias.tril(), nn.ALiBi(nn.Sizes(8, 4)).bias(context(6)).tril(), rtol=0, atol=1e-12)


def test_forgetting_keeps_its_gates_in_float32() -> None:
    encoding = nn.Forgetting(nn.Sizes(8, 2, causal=True))
    x = torch.randn(1, 300, 8)
    exact = encoding.bias(context(300, x=x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = encoding.bias(context(300, x=x.bfloat16()))
    assert cast.dtype == torch.float32
    assert (cast - exact).abs().max() < 0.02 * exact.abs().max()


def test_gates_and_tables_start_as_said_under_every_scheme() -> None:
    for scheme in (DefaultInit(), nn.NormalInit(), nn.DepthScaledInit()):
        build = partial(nn.Decoder, 9, width=16, layers=1, heads=2, init=scheme)
        gate = build(position=partial(nn.Forgetting, gate_bias=2.0)).stack.layers[0].attention.position.gate
        assert (gate.bias == 2).all() and gate.weight.std() > 0
        assert (build(position=nn.CoPE).stack.layers[0].attention.position.table.weight == 0).all()
        xl = build(position=nn.TransformerXL, width=64).stack.layers[0].attention.position
        assert float(torch.cat((xl.u, xl.v)).detach().std()) == pytest.approx(0.02, rel=0.3)
        fire = build(position=partial(nn.FIRE, c=0.25)).stack.layers[0].attention.position
        assert fire.c.item() == 0.25 and fire.multiplier.item() == 1
        initialise(build(position=nn.FIRE), 0, scheme)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nn.XPos(nn.Sizes(8, 1), gamma=0.0), "scale_base and gamma must be above 0"),
        (lambda: nn.XPos(nn.Sizes(15, 1)), "even key width"),
        (lambda: nn.ALiBi(nn.Sizes(8, 2), sides="left"), "sides must be"),
        (lambda: nn.Kerple(nn.Sizes(8, 2), kernel="exp"), 'kernel must be "log" or "power"'),
        (lambda: nn.FIRE(nn.Sizes(8, 2), threshold=0.0), "threshold must be above 0"),
        (lambda: nn.Sandwich(nn.Sizes(8, 2), dim=5), "dim must be even"),
        (lambda: nn.Shaw(nn.Sizes(8, 2), max_distance=0), "max_distance must be at least 1"),
        (lambda: nn.TransformerXL(nn.Sizes(8, 2), base=1.0), "base must be greater than 1"),
        (lambda: nn.CoPE(nn.Sizes(8, 2), max_position=1), "max_position must be at least 2"),
        (
            lambda: nn.SharedAttention(8, 2, key_dim=6, position=nn.Shaw(nn.Sizes(8, 2, 6))),
            "adds vectors of width 4 to values of width 6: set value_dim to 6",
        ),
        (
            lambda: nn.Encoder(9, width=8, layers=1, heads=2, position=nn.CoPE),
            "needs a causal model: use a decoder",
        ),
    ],
)
def test_impossible_options_are_named(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
