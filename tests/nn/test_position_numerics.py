"""Position encodings against pure Python arithmetic: what the texts say of them, in numbers."""

from __future__ import annotations

import math

import pytest
import torch

from lengthwise import nn
from lengthwise.nn.position.alibi import slopes
from lengthwise.nn.position.t5 import bucket_starts


def table(encoding: nn.PositionEncoding, count: int) -> torch.Tensor:
    """The vectors of the first positions, float64."""
    x = torch.zeros(1, count, encoding.sizes.width, dtype=torch.float64)
    return encoding.double().embed(x, nn.Context(count, count))[0].detach()


def sinusoid(count: int, width: int, **options) -> torch.Tensor:
    return table(nn.Sinusoidal(nn.Sizes(width, 1), **options), count)


# --- the sinusoid ---


def position_encoding_of_the_note(seq_len: int, d: int, n: float = 10000) -> list[list[float]]:
    """getPositionEncoding: P[k, 2i] = sin(k/n^(2i/d)), P[k, 2i+1] = cos(k/n^(2i/d))."""
    rows = [[0.0] * d for _ in range(seq_len)]
    for k in range(seq_len):
        for i in range(d // 2):
            angle = k / n ** (2 * i / d)
            rows[k][2 * i], rows[k][2 * i + 1] = math.sin(angle), math.cos(angle)
    return rows


@pytest.mark.parametrize(("seq_len", "d", "n"), [(4, 4, 100), (100, 128, 10000), (100, 512, 10000)])
def test_the_notes_construction(seq_len: int, d: int, n: float) -> None:
    expected = torch.tensor(position_encoding_of_the_note(seq_len, d, n), dtype=torch.float64)
    assert torch.allclose(sinusoid(seq_len, d, base=n), expected, rtol=0, atol=1e-13)


def test_the_notes_printed_table() -> None:
    printed = [
        [0.0, 1.0, 0.0, 1.0],
        [0.84147098, 0.54030231, 0.09983342, 0.99500417],
        [0.90929743, -0.41614684, 0.19866933, 0.98006658],
        [0.14112001, -0.9899925, 0.29552021, 0.95533649],
    ]
    assert torch.allclose(sinusoid(4, 4, base=100), torch.tensor(printed, dtype=torch.float64), atol=5e-9)


def test_width_four_position_one() -> None:
    expected = torch.tensor([0.841471, 0.540302, 0.0099998, 0.99995], dtype=torch.float64)
    assert torch.allclose(sinusoid(2, 4)[1], expected, atol=5e-7)


@pytest.mark.parametrize("width", [1, 5, 15, 127])
def test_odd_width_ends_with_a_sine(width: int) -> None:
    """eq 25 exists for odd D: r_{n,D-1} = sin(n/L^{(D-1)/D})."""
    r = sinusoid(20, width)
    assert r.shape == (20, width)
    assert torch.allclose(
        r[:, -1], (torch.arange(20).double() * 10000.0 ** (-(width - 1) / width)).sin(), rtol=0, atol=1e-12
    )


def test_origin_one_counts_as_the_textbook() -> None:
    assert torch.equal(sinusoid(9, 16, origin=1), sinusoid(10, 16)[1:])


def frequencies(width: int, base: float = 10000.0) -> list[float]:
    return [base ** (-2 * i / width) for i in range(width // 2)]


def test_a_shift_is_one_rotation_for_all_positions() -> None:
    """r_{n+k} = M_k r_n with blocks [[cos ωk, sin ωk], [-sin ωk, cos ωk]] (XZ 12.7-12.8)."""
    width = 16
    r = sinusoid(200, width)
    for k in (1, 7, 50):
        blocks = [
            [[math.cos(w * k), math.sin(w * k)], [-math.sin(w * k), math.cos(w * k)]]
            for w in frequencies(width)
        ]
        m = torch.block_diag(*(torch.tensor(block, dtype=torch.float64) for block in blocks))
        assert torch.allclose(r[k:], r[:-k] @ m.T, rtol=0, atol=1e-12)


def shift_residual(r: torch.Tensor, k: int) -> float:
    """The best linear map from r_n to r_{n+k}, and how far it misses, relative."""
    solution = torch.linalg.lstsq(r[:-k], r[k:], driver="gelsd").solution
    return float((r[:-k] @ solution - r[k:]).norm() / r[k:].norm())


def test_a_shift_needs_sines_and_cosines() -> None:
    """n ≥ 1 and more positions than columns; with n = 0 or few rows the test would be trivial."""
    width = 8
    r = sinusoid(101, width)[1:]
    sines = torch.stack([r[:, 2 * i] for i in range(width // 2)], dim=1)
    assert shift_residual(r, 5) < 1e-10
    assert shift_residual(sines, 5) > 1e-3
    assert shift_residual(sines[:5], 1) < 1e-6  # trivial: no more rows than columns
    assert shift_residual(sinusoid(101, 7, base=10)[1:], 5) > 1e-3  # odd width: the last sine has no cosine


def test_the_dot_product_is_relative_and_falls_slowly() -> None:
    width = 128
    r = sinusoid(2100, width)
    dots = {k: (r[:-k] * r[k:]).sum(1) if k else (r * r).sum(1) for k in (0, 1, 10, 100, 1000)}
    for k, values in dots.items():
        expected = sum(math.cos(w * k) for w in frequencies(width))
        assert (values - expected).abs().max() < 1e-10  # the same for all n
    assert [round(float(dots[k][0]) / (width / 2), 2) for k in (10, 100, 1000)] == [0.67, 0.48, 0.16]
    curve = r[0] @ r.T
    assert (curve[1:] > curve[:-1]).any()  # not monotonic
    assert torch.allclose(r.norm(dim=1), torch.tensor(math.sqrt(width / 2), dtype=torch.float64))


def test_through_projections_the_score_is_not_relative() -> None:
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(128, 128, dtype=torch.float64, generator=generator) / 128**0.5
    r = sinusoid(300, 128)
    projected, plain = ((a * b).sum(1) for a, b in ((r[:-10] @ w, r[10:]), (r[:-10], r[10:])))
    assert plain.std() < 1e-10
    assert projected.std() > 1


def test_bounded_openly_from_one_and_closed_with_zero() -> None:
    r = sinusoid(5000, 64)
    assert r[0].max() == 1  # cos 0
    assert r[1:].abs().max() <= 1  # below 1 but for rounding
    assert sinusoid(100, 4, origin=1)[:, :2].abs().max() < 1


def test_wavelengths_are_geometric() -> None:
    """From 2π to 2π·L^{(D-2)/D}, read off row 1, whose phases are the frequencies."""
    for width in (16, 64, 512):
        r = sinusoid(2, width)[1]
        omega = torch.atan2(r[0::2], r[1::2])
        waves = 2 * math.pi / omega
        assert math.isclose(waves[0], 2 * math.pi, rel_tol=1e-12)
        assert math.isclose(waves[-1], 2 * math.pi * 10000 ** ((width - 2) / width), rel_tol=1e-9)
        ratios = waves[1:] / waves[:-1]
        assert torch.allclose(ratios, torch.full_like(ratios, 10000 ** (2 / width)), rtol=1e-9)


# --- the other encodings on the embedding ---


def test_row_t_goes_to_token_t() -> None:
    for build in (nn.Sinusoidal, nn.Learned, nn.Integer, nn.UnitInterval, nn.Binary):
        r = table(build(nn.Sizes(16, 2)), 12)
        assert len(torch.unique(r, dim=0)) == 12
        encoding = build(nn.Sizes(16, 2)).double()
        if isinstance(encoding, nn.Learned):
            continue
        x = torch.randn(3, 12, 16, dtype=torch.float64)
        assert torch.allclose(
            encoding.embed(x, nn.Context(12, 12)) - x, r.expand(3, -1, -1), rtol=0, atol=1e-12
        )


def test_integer_goes_along_one_direction() -> None:
    r = table(nn.Integer(nn.Sizes(32, 2)), 50)
    assert torch.allclose(r.norm(dim=1), torch.arange(50, dtype=torch.float64))
    assert r.sum(dim=1).abs().max() < 1e-12  # u ⟂ (1, …, 1)
    assert torch.allclose(r[1:] / torch.arange(1, 50)[:, None], r[1].expand(49, -1))
    ones = table(nn.Integer(nn.Sizes(32, 2), direction="ones"), 3)
    assert torch.allclose(ones[2], torch.full((32,), 2 / 32**0.5, dtype=torch.float64))


def test_unit_interval_uses_the_samples_own_length() -> None:
    encoding = nn.UnitInterval(nn.Sizes(8, 2), combine="concat").double()
    mask = torch.arange(6) < torch.tensor([6, 3])[:, None]
    x = torch.zeros(2, 6, 8, dtype=torch.float64)
    r = encoding.embed(x, nn.Context(6, 6, key_mask=mask))[..., 8]
    assert torch.allclose(r[0], torch.arange(6).double() / 6)
    assert torch.allclose(r[1, :3], torch.arange(3).double() / 3)


def test_binary_counts() -> None:
    r = table(nn.Binary(nn.Sizes(8, 1), range=10), 16)
    for n in range(16):
        assert r[n].tolist() == [2 * int(bit) - 1 for bit in f"{n:04b}"[::-1]] + [0] * 4
    with pytest.raises(nn.LengthError, match="from 0 to 15 with 4 bits, number 16"):
        table(nn.Binary(nn.Sizes(8, 1), range=10), 17)
    with pytest.raises(ValueError, match="range=1024 needs 10 columns, there are 8"):
        nn.Binary(nn.Sizes(8, 1))


def test_binary_has_no_code_for_a_negative_number() -> None:
    """-1 & (2^b - 1) is the code of the last number."""
    with pytest.raises(ValueError, match="origin must be at least 0, got -1"):
        nn.Binary(nn.Sizes(8, 1), range=10, origin=-1)
    encoding = nn.Binary(nn.Sizes(8, 1), range=10, origin=1)

    def embed(first: int) -> torch.Tensor:
        numbers = torch.tensor([[first, 3, 2]])
        context = nn.Context(3, 3, query_positions=numbers, key_positions=numbers)
        return encoding.embed(torch.zeros(1, 3, 8), context)

    assert embed(-1)[0, 0, :4].tolist() == [-1] * 4
    with pytest.raises(nn.LengthError, match="from 0 to 15 with 4 bits, number -1 was asked for"):
        embed(-2)


def test_concatenation_widens() -> None:
    x = torch.randn(2, 5, 8)
    for build, columns in ((nn.Sinusoidal, 8), (nn.Learned, 8), (nn.Integer, 1), (nn.UnitInterval, 1)):
        encoding = build(nn.Sizes(8, 2), combine="concat")
        assert encoding.output_width == 8 + columns
        y = encoding.embed(x, nn.Context(5, 5))
        assert y.shape == (2, 5, 8 + columns)
        assert torch.equal(y[..., :8], x)
    assert nn.Binary(nn.Sizes(8, 2), range=16, combine="concat", dim=4).output_width == 12
    assert torch.equal(
        nn.Integer(nn.Sizes(8, 2), combine="concat").embed(x, nn.Context(5, 5))[0, :, 8], torch.arange(5.0)
    )


@pytest.mark.parametrize("beyond", ["untrained", "error", "clamp", "interpolate"])
def test_learned_beyond_its_training(beyond: str) -> None:
    encoding = nn.Learned(nn.Sizes(4, 1, trained_length=6), max_length=10, beyond=beyond)
    rows = encoding.table.weight.double()
    assert torch.equal(table(encoding, 6), rows[:6])
    assert encoding.flags(6) == ()
    if beyond == "untrained":
        assert torch.equal(table(encoding, 10), rows)
        assert encoding.flags(7) == ("untrained_positions",)
        with pytest.raises(nn.LengthError, match="10 positions, position 10"):
            table(encoding, 11)
    elif beyond == "error":
        with pytest.raises(nn.LengthError, match="defines 6 positions, position 6"):
            table(encoding, 7)
    elif beyond == "clamp":
        assert torch.equal(table(encoding, 20)[5:], rows[5].expand(15, -1))
        assert encoding.flags(7) == ("clamped_positions",)
    else:
        r = table(encoding, 11)  # positions 0…10 at 0, ½, 1, …, 5
        assert torch.allclose(r[::2], rows[:6])
        assert torch.allclose(r[1::2], (rows[:5] + rows[1:6]) / 2)
        assert encoding.flags(7) == ("interpolated_positions",)
        assert not encoding.prefix_stable


# --- encodings in the attention ---


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (1, [2**-8]),
        (4, [1 / 4, 1 / 16, 1 / 64, 1 / 256]),
        (6, [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]),
        (8, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]),
        (12, [2**-h for h in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
    ],
)
def test_alibi_slopes(heads: int, expected: list[float]) -> None:
    assert slopes(heads) == pytest.approx(expected, rel=1e-15)
    nn.ALiBi(nn.Sizes(24, 4))  # another model in the same process leaves no trace
    bias = nn.ALiBi(nn.Sizes(24, heads)).bias(nn.Context(5, 5))[0]
    for h, m in enumerate(expected):
        for i in range(5):
            assert bias[h, i].tolist() == pytest.approx([-m * abs(i - j) for j in range(5)], rel=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_alibi_weights_fall_with_distance(causal: bool) -> None:
    attention = nn.ScaledAttention(8, 2, position=nn.ALiBi(nn.Sizes(8, 2, causal=causal)))
    torch.nn.init.zeros_(attention.query.weight)
    maps: list[torch.Tensor] = []
    attention(torch.randn(1, 9, 8), nn.Context(9, 9, causal), maps=maps)
    for query in range(9):
        row = maps[0][0, 0, query]
        assert (row[:query].diff() > 0).all()
        assert (row[query + 1 :] == 0).all() if causal else (row[query:].diff() < 0).all()


def t5_bucket(offset: int, causal: bool, num_buckets: int = 32, max_distance: int = 128) -> int:
    """The published rule, key minus query position -> bucket."""
    bucket = 0
    if not causal:
        num_buckets //= 2
        bucket = num_buckets if offset > 0 else 0
    distance = max(-offset, 0) if causal else abs(offset)
    exact = num_buckets // 2
    if distance < exact:
        return bucket + distance
    ratio = math.log(distance / exact) / math.log(max_distance / exact)
    return bucket + min(exact + int(ratio * (num_buckets - exact) + 1e-9), num_buckets - 1)


@pytest.mark.parametrize("causal", [False, True])
def test_t5_buckets(causal: bool) -> None:
    encoding = nn.T5Bias(nn.Sizes(8, 2, causal=causal))
    offsets = torch.arange(-300, 301)
    assert encoding.buckets(offsets).tolist() == [t5_bucket(int(o), causal) for o in offsets]
    assert len(bucket_starts(encoding.buckets_behind, 128)) == encoding.buckets_behind - 1
    bias = encoding.bias(nn.Context(4, 4))
    assert bias.shape == (1, 2, 4, 4)
    assert torch.equal(bias[0, :, 3, 1], encoding.table.weight[t5_bucket(-2, causal)])


def test_t5_buckets_of_few_and_odd_sizes() -> None:
    for buckets, distance in ((2, 3), (8, 20), (32, 64), (64, 1000)):
        encoding = nn.T5Bias(nn.Sizes(8, 2, causal=True), num_buckets=buckets, max_distance=distance)
        expected = [t5_bucket(-d, True, buckets, distance) for d in range(1200)]
        assert encoding.buckets(-torch.arange(1200)).tolist() == expected
    with pytest.raises(ValueError, match="num_buckets"):
        nn.T5Bias(nn.Sizes(8, 2), num_buckets=7)
    with pytest.raises(ValueError, match="max_distance=8 must exceed"):
        nn.T5Bias(nn.Sizes(8, 2), max_distance=8)


def test_rotary_score_is_relative_and_keeps_norms() -> None:
    rotary = nn.Rotary(nn.Sizes(16, 2, 8))
    generator = torch.Generator().manual_seed(0)
    q, k = (
        torch.randn(1, 2, 1, 8, dtype=torch.float64, generator=generator).expand(-1, -1, 80, -1)
        for _ in range(2)
    )
    turned_q, turned_k = rotary.rotate(q, k, nn.Context(80, 80))
    for p in (0, 5, 50):
        here = (turned_q[:, :, p + 3] * turned_k[:, :, p]).sum(-1)
        assert torch.allclose(here, (turned_q[:, :, 3] * turned_k[:, :, 0]).sum(-1), rtol=0, atol=1e-12)
        assert not torch.allclose(here, (turned_q[:, :, p] * turned_k[:, :, p + 3]).sum(-1), atol=1e-3)
    assert torch.allclose(turned_q.norm(dim=-1), q.norm(dim=-1), rtol=0, atol=1e-12)
    for n in (1, 79):  # the pair (0, 1) turns by n radians, the pair (2i, 2i+1) by n·10000^{-2i/K}
        for i in range(4):
            angle = n * 10000 ** (-2 * i / 8)
            a, b = q[0, 0, 0, 2 * i], q[0, 0, 0, 2 * i + 1]
            expected = torch.stack(
                (a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle))
            )
            assert torch.allclose(turned_q[0, 0, n, 2 * i : 2 * i + 2], expected, rtol=0, atol=1e-12)


def test_rotary_turns_by_position_not_by_head() -> None:
    rotary = nn.Rotary(nn.Sizes(24, 3, 8))
    q = torch.randn(2, 3, 7, 8)
    turned = rotary.rotate(q, q, nn.Context(7, 7))[0]
    assert torch.equal(rotary.rotate(q[:, [2, 0, 1]], q, nn.Context(7, 7))[0], turned[:, [2, 0, 1]])
    assert not torch.allclose(rotary.rotate(q.flip(2), q, nn.Context(7, 7))[0], turned.flip(2), atol=1e-3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nn.Rotary(nn.Sizes(30, 2)), "even key width a head, got 15 .width 30, 2 heads"),
        (lambda: nn.Rotary(nn.Sizes(30, 4)), "width 30 is not divisible by 4 heads"),
        (lambda: nn.Rotary(nn.Sizes(32, 4), base=1), "base must be greater than 1, got 1"),
        (lambda: nn.Sinusoidal(nn.Sizes(32, 4), base=0.5), "base must be greater than 1, got 0.5"),
        (lambda: nn.Sinusoidal(nn.Sizes(32, 4), combine="sum"), "combine must be"),
        (lambda: nn.Sinusoidal(nn.Sizes(32, 4), dim=8), 'dim=8 has no effect with combine="add"'),
        (lambda: nn.Learned(nn.Sizes(32, 4), max_length=0), "max_length must be at least 1"),
        (lambda: nn.Learned(nn.Sizes(32, 4, trained_length=50), max_length=20), "less than the 50 positions"),
        (lambda: nn.Learned(nn.Sizes(32, 4), beyond="wrap"), "beyond must be"),
        (lambda: nn.Integer(nn.Sizes(32, 4), direction="up"), "direction must be"),
    ],
)
def test_impossible_options_are_named(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
