"""Long sequences need no array of all queries by all keys, and lose no precision by it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lengthwise import nn
from lengthwise.nn.attention import chunked, kernel

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "attention_memory.py"


def measured(name: str, *options: str) -> list[str]:
    """The columns of one row of the benchmark: form, MB, seconds, error."""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, str(BENCHMARK), f"row={name}/lean", *options]
    line = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return line.removeprefix(name).split()


def memory_and_error(name: str) -> tuple[float, float]:
    """MB at the peak, and the error of every 64th query against the dense form in float64."""
    _, mb, _, error = measured(name, "check=64")
    if mb == "nan":
        pytest.skip("this system does not tell a process's peak")
    return float(mb), float(error)


@pytest.mark.parametrize(
    ("name", "limit"), [("none", 60), ("rotary", 100), ("alibi, causal", 120), ("t5, causal", 600)]
)
def test_peak_memory_and_precision_at_8192_positions(name: str, limit: float) -> None:
    """4 heads of 64, forward and backward, float32. A dense mask alone would be 1074 MB."""
    mb, error = memory_and_error(name)
    assert 30 < mb <= limit
    assert 0 < error <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "alibi, bidirectional",
        "kerple, causal",
        "kerple power, causal",
        "sandwich, causal",
        "t5, bidirectional",
    ],
)
def test_the_other_biases_by_distance_are_as_lean(name: str) -> None:
    mb, error = memory_and_error(name)
    assert 30 < mb <= 200
    assert 0 < error <= 1e-5


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("build", [nn.ALiBi, nn.T5Bias])
def test_float32_outputs_and_gradients_at_2048_positions(build, causal: bool) -> None:
    count, encoding = 2048, build(nn.Sizes(8, 2, causal=causal))
    context = nn.Context(count, count, causal)
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(1, 2, count, 8, generator=generator) for _ in range(4)]

    def run(dtype: torch.dtype, lean: bool) -> list[torch.Tensor]:
        module = encoding.to(dtype)
        module.zero_grad()
        *given, cotangent = (x.to(dtype, copy=True).requires_grad_() for x in drawn)
        options = {"scale": 0.5, "causal": causal, "allowed": None}
        if lean:
            assert chunked.worthwhile(given[0], given[1])
            y = chunked.attend(*given, module.by_distance(context), **options)
        else:
            bias = module.bias(nn.Context(count, count, causal, queries_input=given[0][:, 0]))
            y = kernel.fused(*given, bias=bias, dropout=0.0, **options)
        y.backward(cotangent.detach())
        return [y.detach(), *(x.grad for x in given), *(p.grad.clone() for p in module.parameters())]

    for one, exact in zip(run(torch.float32, True), run(torch.float64, False), strict=True):
        assert (one.double() - exact).abs().max() <= 1e-5 * exact.abs().max()
