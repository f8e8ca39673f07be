"""Every encoding that a package of other people has, against what that package computes.

references/*.json hold their inputs and outputs, and which package of which version they come from; references/make.py
made them. Ours is computed in float64; most packages compute in float32, hence the tolerances. The power kernel of
KERPLE and FIRE are in no package: for these there are the calculations in test_position_references.py.
"""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lengthwise import nn
from lengthwise.nn.position.alibi import slopes

FOLDER = Path(__file__).parent / "references"
N = 12
FLOAT32, FLOAT64 = 2e-6, 1e-8  # what a package computes in; nine digits are written down


def reference(name: str) -> dict:
    return json.loads((FOLDER / f"{name}.json").read_text())


def tensor(values: list) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def agree(ours: Tensor, theirs: list | Tensor, tolerance: float) -> None:
    theirs = torch.as_tensor(theirs, dtype=torch.float64)
    assert ours.dtype == torch.float64
    assert ours.shape == theirs.shape
    assert (ours.detach() - theirs).abs().max() <= tolerance * max(1.0, float(theirs.abs().max()))


def context(causal: bool = False, x: Tensor | None = None, **options) -> nn.Context:
    x = torch.zeros(1, N, 1, dtype=torch.float64) if x is None else x
    return nn.Context(N, N, causal, queries_input=x, keys_input=x, **options)


def test_every_file_says_where_it_comes_from_and_is_used_here() -> None:
    """make.py names the same versions, and each file is read by a test."""
    tree = ast.parse((FOLDER / "make.py").read_text())
    (pins,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "VERSIONS"
    )
    here, used = Path(__file__).read_text(), set()
    for path in sorted(FOLDER.glob("*.json")):
        for package, version in reference(path.stem)["packages"].items():
            assert pins[package] == version, path.name
            used.add(package)
        assert f'reference("{path.stem}")' in here, path.name
    assert used == set(pins)


def test_sinusoidal() -> None:
    theirs = reference("sinusoidal")["table"]
    x = torch.zeros(1, 50, 8, dtype=torch.float64)
    agree(nn.Sinusoidal(nn.Sizes(8, 2)).embed(x, nn.Context(50, 50))[0], theirs, FLOAT32)


# --- rotary ---


def rotary(**options) -> nn.Rotary:
    return nn.Rotary(nn.Sizes(32, 2, trained_length=100), **options)


ROTATIONS = [
    ("half", "none", {}),
    ("half", "linear", {"scaling": "linear", "factor": 4.0}),
    ("half", "llama3", {"scaling": "llama3", "factor": 4.0}),
    ("interleaved", "none", {}),
    ("interleaved", "linear", {"scaling": "linear", "factor": 4.0}),
    ("interleaved", "ntk", {"scaling": "ntk", "factor": 4.0}),
]


@pytest.mark.parametrize(
    ("layout", "name", "options"), ROTATIONS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_rotary(layout: str, name: str, options: dict) -> None:
    given = reference("rotary")
    turned = rotary(layout=layout, **options).rotate(tensor(given["q"]), tensor(given["k"]), context())
    for ours, theirs in zip(turned, given[layout][name], strict=True):
        agree(ours, theirs, FLOAT32)


def test_yarn() -> None:
    """Fast and slow pairs and the sharper logits are transformers'. In between, it ramps over the numbers of the pairs,
    as the authors' code does, ours over turns, as their paper: which is Llama 3's rule with its upper border at 32."""
    given = reference("rotary")
    encoding = rotary(scaling="yarn", factor=4.0, layout="half")
    frequencies = tensor(list(encoding.frequencies.values))
    agree(frequencies, given["frequencies"]["llama3, 32"], FLOAT32)
    theirs = tensor(given["frequencies"]["yarn"])
    turns = 100 * frequencies / math.tau
    same = (frequencies - theirs).abs() <= 1e-6 * theirs
    assert same[-5:].all() and (turns[-5:] < 1).all()  # less than one turn: divided by the factor
    assert not same.all()

    q, k = tensor(given["q"]), tensor(given["k"])
    ours, theirs = encoding.rotate(q, k, context()), [tensor(x) for x in given["half"]["yarn"]]
    diagonal = [(x[0] * x[1]).sum(-1) for x in (ours, theirs)]  # no angle is left in these
    agree(*diagonal, FLOAT32)
    assert (diagonal[1] / (q * k).sum(-1) - (0.1 * math.log(4) + 1) ** 2).abs().max() < 1e-5


def test_xpos() -> None:
    given = reference("xpos")
    sizes = nn.Sizes(8, 1, causal=True)
    q, k = nn.XPos(sizes).rotate(tensor(given["q"])[None], tensor(given["k"])[None], context())
    agree((q @ k.transpose(-2, -1))[0], given["scores"], FLOAT32)


# --- biases by distance ---


@pytest.mark.parametrize("package", ["bloom", "mpt"])
def test_alibi_slopes(package: str) -> None:
    """For 1 to 16 heads, whether a power of two or not."""
    theirs = reference("alibi")[package]
    for heads in range(1, 17):
        agree(tensor(slopes(heads)), theirs[str(heads)], FLOAT32)
    written = [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]
    assert theirs["6"] == pytest.approx(written) and slopes(6) == written


def test_alibi_in_both_directions() -> None:
    agree(nn.ALiBi(nn.Sizes(48, 6)).bias(context())[0], reference("alibi")["bidirectional"], FLOAT32)


@pytest.mark.parametrize("causal", [False, True])
def test_t5(causal: bool) -> None:
    given = reference("t5")
    theirs = given["causal" if causal else "bidirectional"]
    offsets = torch.arange(-200, 201)
    encoding = nn.T5Bias(nn.Sizes(8, 2, causal=causal)).double()
    assert encoding.buckets(offsets).tolist() == theirs["buckets"]
    narrow = nn.T5Bias(nn.Sizes(8, 2, causal=causal), num_buckets=12, max_distance=50)
    assert narrow.buckets(offsets).tolist() == theirs["narrow buckets"]
    encoding.table.weight.data = tensor(given["table"])
    agree(encoding.bias(context())[0], theirs["bias"], FLOAT64)


def test_kerple() -> None:
    given = reference("kerple")
    encoding = nn.Kerple(nn.Sizes(48, 3)).double()
    encoding.strength.data, encoding.shape.data = tensor(given["strength"]), tensor(given["shape"])
    agree(encoding.bias(context())[0], given["bias"], FLOAT32)


def test_sandwich() -> None:
    """NeMo counts the frequencies from i = 1, and takes away W/2, which no softmax sees. Ours are those of the
    sinusoidal encoding, from i = 0: its first, ω = 1, instead of a last, ω = 1/10000."""
    given = reference("sandwich")
    ours = nn.Sandwich(nn.Sizes(48, 4), dim=16).bias(context())[0]
    r = (torch.arange(N)[:, None] - torch.arange(N)).double()
    ratio = 2.0 * torch.arange(1, 5)[:, None, None]  # 8h/H
    agree(ours + ((r / 10000).cos() - r.cos() - 8) / ratio, given["bias"], FLOAT32)


# --- encodings that read the content ---


@pytest.mark.parametrize("causal", [False, True])
def test_shaw(causal: bool) -> None:
    """OpenNMT has one table for keys and values."""
    given = reference("shaw")
    rows = tensor(given["table"])[: 3 if causal else 5]
    encoding = nn.Shaw(nn.Sizes(8, 2, causal=causal), max_distance=2)
    attention = nn.ScaledAttention(8, 2, position=encoding).double()
    encoding.keys.weight.data = encoding.values.weight.data = rows
    for ours, theirs in (
        (attention.query, "linear_query"),
        (attention.key, "linear_keys"),
        (attention.value, "linear_values"),
        (attention.output, "final_linear"),
    ):
        ours.weight.data = tensor(given["weights"][theirs])
    y = attention(tensor(given["x"]), nn.Context(N, N, causal))
    agree(y, given["causal" if causal else "bidirectional"], 2 * FLOAT32)


def weights(
    encoding: nn.PositionEncoding, q: Tensor, k: Tensor, causal: bool, x: Tensor | None = None
) -> Tensor:
    """Softmax of the scaled logits with what an encoding does to them; q and k (1, H, N, K)."""
    given = context(causal, x, scale=q.shape[-1] ** -0.5)
    logits = given.scale * q @ k.transpose(-2, -1)
    if (bias := encoding.bias(given)) is not None:
        logits = logits + bias
    logits = encoding.score(logits, q, k, given)
    if causal:
        logits = logits.masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), float("-inf"))
    return logits.softmax(-1)


@pytest.mark.parametrize("causal", [False, True])
def test_transformer_xl(causal: bool) -> None:
    """XLNet's sinusoid has all sines first: the columns of W are in another order."""
    given = reference("transformer_xl")
    encoding = nn.TransformerXL(nn.Sizes(8, 2, causal=causal)).double()
    encoding.u.data, encoding.v.data = tensor(given["u"]), tensor(given["v"])
    by_pair = tensor(given["r"])[[0, 4, 1, 5, 2, 6, 3, 7]]  # (D, H, K)
    encoding.distance.weight.data = by_pair.flatten(1).T
    q, k = (tensor(given[name]).transpose(0, 1)[None] for name in ("q", "k"))
    found = weights(encoding, q, k, causal)[0]
    agree(found, given["causal" if causal else "bidirectional"], FLOAT32)


def test_cope() -> None:
    """With the positions clamped at 4, and between whole numbers."""
    given = reference("cope")
    encoding = nn.CoPE(nn.Sizes(8, 2, causal=True), max_position=5).double()
    encoding.table.weight.data = tensor(given["table"])
    q, k = tensor(given["q"]), tensor(given["k"])
    logits = q @ k.transpose(-2, -1) / 2
    added = encoding.score(logits, q, k, context(causal=True, scale=0.5)) - logits
    agree(added.tril(), given["added"], FLOAT64)
    p = encoding.positions(logits, context(causal=True))
    assert (p == 4).any() and (p.tril() % 1 > 0).any()


def test_forgetting() -> None:
    """The bias of x-transformers, which has it as data-dependent ALiBi, and the output of fla's plain form."""
    given = reference("forgetting")
    encoding = nn.Forgetting(nn.Sizes(8, 2, causal=True)).double()
    encoding.gate.weight.data, encoding.gate.bias.data = tensor(given["weight"]), tensor(given["bias"])
    x = tensor(given["x"])
    agree(encoding.bias(context(True, x)).tril(), tensor(given["added"]).tril(), FLOAT64)
    q, k, v = (tensor(given[name]).transpose(1, 2) for name in ("q", "k", "v"))
    y = weights(encoding, q, k, True, x) @ v
    agree(y.transpose(1, 2), given["output"], FLOAT32)
    gate = (
        nn.Decoder(9, width=8, layers=1, heads=2, position=nn.Forgetting)
        .stack.layers[0]
        .attention.position.gate
    )
    agree(gate.bias.double(), given["start"], FLOAT32)
