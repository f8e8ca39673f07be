"""Whether a configuration can be trained at all, and how large its model is, without computing anything.

The model is built on PyTorch's meta device: shapes without numbers, a few milliseconds each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from lengthwise.build import build_parts, refuse_training
from lengthwise.errors import LengthwiseError

_SEEDS = ("seed", "init_seed", "data_seed", "run")


def inspect(config: dict[str, Any]) -> dict[str, Any]:
    """``{"parameters": number}``, or ``{"error": why it cannot be}``. Says nothing of the machine it is asked on."""
    try:
        with torch.device("meta"):
            _, _, model = build_parts(config)
        refuse_training(config, model, hardware=False)
    except LengthwiseError as error:
        return {"error": str(error)}
    return {"parameters": sum(parameter.numel() for parameter in model.parameters())}


def run_file(path: str) -> int:
    """Inspect each configuration in the JSON file `path`; answers go to the file beside it, one a line."""
    configs = json.loads(Path(path).read_text(encoding="utf-8"))
    known: dict[str, str] = {}  # seeds make no difference
    with Path(path).with_suffix(".answers").open("w", encoding="utf-8", buffering=1) as answers:
        for config in configs:
            variant = json.dumps({key: value for key, value in config.items() if key not in _SEEDS})
            if variant not in known:
                known[variant] = json.dumps(inspect(config))
            print(known[variant], file=answers)
    return 0
