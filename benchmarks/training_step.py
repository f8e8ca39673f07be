"""One optimizer step of the default cell beside PyTorch's own encoder of the same sizes: CPU milliseconds and ratio.

Both embed the same batch, run two post-norm ReLU layers, read logits and take a fused AdamW step; runs alternate, so
that a busy machine slows both alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import lengthwise
from lengthwise.batch import IGNORE, Batch
from lengthwise.build import build_parts
from lengthwise.training import global_batch

ROUNDS, STEPS = 15, 10


class Torch(nn.Module):
    """nn.TransformerEncoder with an embedding and a head."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, batch: Batch) -> Tensor:
        return self.head(self.body(self.embedding(batch.tokens), src_key_padding_mask=~batch.key_mask))


def step_of(model: nn.Module, batch: Batch) -> Callable[[], None]:
    """A function that takes one step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(batch).flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE).backward()
        optimizer.step()

    return step


def milliseconds(step: Callable[[], None]) -> float:
    """CPU time of one step."""
    began = time.process_time()
    for _ in range(STEPS):
        step()
    return 1000 * (time.process_time() - began) / STEPS


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    print(f"{'':28}{'ours':>9}{'torch':>9}{'ratio':>9}   (CPU ms a step, medians of {ROUNDS})")
    for name in ("none", "sinusoidal", "learned", "rotary", "alibi", "t5"):
        config = lengthwise.compose([f"pe={name}", "norm=post", "model.bias=true"])
        task, layout, model = build_parts(config)
        which = {
            "lengths": config["data"]["lengths"],
            "batch_size": 32,
            "data_seed": 0,
            "split": "train",
            "step": 0,
        }
        batch = global_batch(task, layout, **which)
        steps = step_of(model, batch), step_of(Torch(len(layout.vocabulary), 64, 4, 2), batch)
        times = [[milliseconds(step) for step in steps] for _ in range(ROUNDS)]
        ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = statistics.median(a / b for a, b in times)
        print(f"{f'post-norm encoder, pe={name}':28}{ours:9.2f}{theirs:9.2f}{ratio:9.2f}")
