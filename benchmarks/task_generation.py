"""Making a batch beside the training step on it: CPU milliseconds and their ratio, for every task.

The model is the default one (width 64, 2 layers, 4 heads) in the first shape that the task allows; batches of 32 at the
task's default lengths; batches and steps alternate, so that a busy machine slows both alike.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch

import lengthwise
from lengthwise.build import build, build_parts
from lengthwise.config import options
from lengthwise.errors import ConfigError
from lengthwise.training import global_batch
from lengthwise.training.metrics import summed_loss

ROUNDS = 32
SHAPES = ("decoder", "encoder")


def measure(task: str) -> tuple[str, float, float]:
    """(shape, milliseconds for a batch, milliseconds for a step): means, since several batches are made at once."""
    for shape in SHAPES:
        config = lengthwise.compose([f"task={task}", f"model={shape}", "evaluation.symmetry=false"])
        try:
            built, layout, model = build_parts(config)
            break
        except ConfigError:
            continue
    else:
        raise SystemExit(f"{task}: no shape is legal")
    optimizer = build("optimizer", config["optimizer"])(model)
    makes, steps = [], []
    for round_ in range(16 + ROUNDS):
        began = time.process_time()
        batch = global_batch(
            built,
            layout,
            lengths=config["data"]["lengths"],
            batch_size=32,
            data_seed=0,
            split="train",
            step=round_,
        )
        made = time.process_time()
        optimizer.zero_grad()
        (summed_loss(model(batch), batch.targets) / max(1, int((batch.targets >= 0).sum()))).backward()
        optimizer.step()
        makes.append(1000 * (made - began))
        steps.append(1000 * (time.process_time() - made))
    return shape, statistics.mean(makes[16:]), statistics.mean(steps[16:])


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    print(f"{'task':<28} {'model':<8} {'batch ms':>9} {'step ms':>9} {'ratio':>7}")
    for task in sys.argv[1:] or options("task"):
        shape, batch, step = measure(task)
        print(f"{task:<28} {shape:<8} {batch:>9.2f} {step:>9.2f} {batch / step:>7.1%}", flush=True)
