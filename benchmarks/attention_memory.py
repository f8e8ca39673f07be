"""Peak memory and time of attention over a long sequence, forward and backward, beside the dense form.

    python benchmarks/attention_memory.py [positions=8192] [heads=4] [head_width=64] [batch=1] [check=1]

Each row runs in a process of its own, in float32 on one CPU thread. Lean is what a model does; dense makes an array of
all queries by all keys, for the mask, or for the logits where there is no mask. The memory is what one pass adds to the
process at its peak, beyond queries, keys, values and what was loaded before: outputs and gradients included. The error
is that of the outputs against the dense form in float64, relative to the largest entry; of every query with
``check=1``, of every sixteenth with ``check=16``, of none with ``check=0``. The dense rows need about 6 GB.
Linux alone counts a process's peak afresh; elsewhere memory is not shown.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from lengthwise import nn
from lengthwise.nn.attention import ScaledAttention, chunked

ENCODINGS: dict[str, tuple[Callable[..., nn.PositionEncoding], bool]] = {
    "none": (nn.NoPosition, True),
    "rotary": (nn.Rotary, True),
    "alibi, causal": (nn.ALiBi, True),
    "alibi, bidirectional": (nn.ALiBi, False),
    "kerple, causal": (nn.Kerple, True),
    "kerple power, causal": (partial(nn.Kerple, kernel="power"), True),
    "sandwich, causal": (nn.Sandwich, True),
    "t5, causal": (nn.T5Bias, True),
    "t5, bidirectional": (nn.T5Bias, False),
}
WITHOUT_MASK = ("none", "rotary")
DEFAULTS = {"positions": 8192, "heads": 4, "head_width": 64, "batch": 1}


class Bare(ScaledAttention):
    """Attention on given queries, keys and values."""

    def project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.given

    def combine(self, heads: Tensor) -> Tensor:
        return heads


def attention(
    name: str, sizes: dict[str, int], dtype: torch.dtype, positions: int
) -> tuple[Bare, nn.Context, Tensor]:
    build, causal = ENCODINGS[name]
    heads, width = sizes["heads"], sizes["head_width"]
    torch.manual_seed(0)
    bare = Bare(heads * width, heads, position=build(nn.Sizes(heads * width, heads, causal=causal))).to(dtype)
    for linear in (bare.query, bare.key, bare.value, bare.output):
        linear.weight.data = torch.empty(0)
    shape = (sizes["batch"], heads, positions, width)
    bare.given = tuple(torch.randn(shape, dtype=torch.float32).to(dtype).requires_grad_() for _ in range(3))
    x = torch.zeros(sizes["batch"], positions, 1, dtype=dtype)
    return bare, nn.Context(positions, positions, causal), x


def one_pass(bare: Bare, context: nn.Context, x: Tensor) -> list[Tensor]:
    """The output and every gradient, for a loss that is linear in the output."""
    y = bare(x, context)
    y.backward(torch.ones_like(y))
    learned = [] if bare.position is None else [p.grad for p in bare.position.parameters()]
    return [y.detach(), *(g.grad for g in bare.given), *(g for g in learned if g is not None)]


def memory(key: str) -> int:
    """Bytes: VmRSS (now) or VmHWM (at most, since `forget_peak`)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise OSError(key)


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def exact(name: str, sizes: dict[str, int], every: int) -> Tensor:
    """The outputs of the dense form in float64 for every so manyth query, a head at a time so that it fits."""
    bare, context, _ = attention(name, sizes, torch.float64, sizes["positions"])
    q, k, v = (t.detach() for t in bare.given)
    q, k = bare.position.rotate(q, k, context)
    vector = bare.position.by_distance(context)
    count, results = sizes["positions"], []
    offsets = torch.arange(count) - torch.arange(count)[::every, None]
    for h in range(sizes["heads"]):
        logits = bare.scale * (q[0, h, ::every] @ k[0, h].T)
        if vector is not None:
            logits += vector[h].detach()[offsets + count - 1]
        if context.causal:
            logits.masked_fill_(offsets > 0, float("-inf"))
        results.append(logits.softmax(-1) @ v[0, h])
    return torch.stack(results)


def row(name: str, form: str, sizes: dict[str, int], every: int) -> None:
    """Measure one line of the table, in this process, and print it."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    kernel = nullcontext()
    if form == "dense":
        chunked.LONG = 1 << 62
        kernel = sdpa_kernel(SDPBackend.MATH) if name in WITHOUT_MASK else kernel
    one_pass(*attention(name, sizes, torch.float32, 256))
    given = attention(name, sizes, torch.float32, sizes["positions"])
    before, added = 0, float("nan")
    try:
        forget_peak()
        before = memory("VmRSS")
    except OSError:
        pass
    start = time.perf_counter()
    with kernel:
        results = one_pass(*given)
    seconds = time.perf_counter() - start
    if before:
        added = (memory("VmHWM") - before) / 1e6
    error = ""
    if every and form != "dense":
        reference = exact(name, sizes, every)
        off = results[0][0, :, ::every].double() - reference
        error = f"{float(off.abs().max() / reference.abs().max()):.1e}"
    print(f"{name:22} {form:6} {added:9.0f} {seconds:8.1f}   {error}", flush=True)


def main(arguments: list[str]) -> None:
    given = dict(text.split("=", 1) for text in arguments if "=" in text)
    every = int(given.pop("check", 1))
    only = given.pop("row", None)
    sizes = {key: int(given.get(key, value)) for key, value in DEFAULTS.items()}
    if only is not None:
        row(*only.split("/"), sizes, every)
        return
    print(f"{sizes}\n{'encoding':22} {'form':6} {'peak, MB':>9} {'s':>8}   error")
    # A fixed threshold, so that freed arrays go back to the system and the peak is that of live ones.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    for name in ENCODINGS:
        for form in ("lean", "dense"):
            subprocess.run(
                [sys.executable, __file__, f"row={name}/{form}", *arguments], env=environment, check=False
            )


if __name__ == "__main__":
    main(sys.argv[1:])
