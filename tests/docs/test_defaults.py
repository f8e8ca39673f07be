"""docs/defaults.md is what the configuration and the model say."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lengthwise.build import build_parts
from lengthwise.composing import compose

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "defaults.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([\w.]+)` \| (.+?) \|", TEXT, flags=re.M)


def value_of(config: dict[str, Any], key: str) -> Any:
    found: Any = config
    for part in key.split("."):
        found = found[part]
    return found["_target_"].rpartition(".")[2] if isinstance(found, dict) else found


def test_the_table_is_long() -> None:
    assert len(ROWS) > 25


@pytest.mark.parametrize(("key", "shown"), ROWS)
def test_a_default_is_the_configuration_s(key: str, shown: str) -> None:
    assert value_of(compose(), key) == yaml.safe_load(shown)


def test_initial_values_are_distributed_as_said() -> None:
    config = compose(["model.width=256", "pe=learned", "model.bias=true"])
    _, _, model = build_parts(config)
    seen = set()
    for name, parameter in model.named_parameters():
        values = parameter.detach()
        if "norm" in name:
            assert values.unique().tolist() == [1.0 if name.endswith(("weight", "scale")) else 0.0], name
            seen.add("norm")
        elif "embedding" in name or "position" in name or "table" in name:
            assert abs(values.std().item() - 1) < 0.05, name
            seen.add("table")
        elif name.endswith("weight"):
            bound = 1 / math.sqrt(values.shape[1])
            assert values.abs().max().item() <= bound and values.abs().max().item() > 0.98 * bound, name
            assert abs(values.std().item() / (bound / math.sqrt(3)) - 1) < 0.05, name
            seen.add("linear")
    assert seen == {"norm", "table", "linear"}
