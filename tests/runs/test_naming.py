"""Folder names, factors and lists of lengths."""

from __future__ import annotations

import re

import pytest

from lengthwise.errors import ConfigError
from lengthwise.runs import component_name, factors, format_lengths, parse_lengths, run_name

HOSTILE = [
    "</script><script>alert(1)</script>", "🦄🦄", "x" * 300, "../../etc/passwd", "..", ".", "con", "a/b\\c:d*?\"<>|",
    "new\nline\0nul", "-rf", "$(rm)", "ünï", "", " ", "\ud800", "A.B.", "%2e%2e",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("where", ["label", "pe", "seed", "lengths"])
def test_hostile_names_are_harmless(text: str, where: str) -> None:
    config = {
        "task": {"_target_": "lengthwise.tasks.sets.SetMax"},
        "pe": {"_target_": text if where == "pe" else "lengthwise.nn.position.rotary.Rotary"},
        "run": {"label": text if where == "label" else None},
        "data": {"lengths": text if where == "lengths" else "4-10"},
        "seed": text if where == "seed" else 0,
    }
    name = run_name(config, "0123456789")
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*-0123456789", name)
    assert len(name.encode()) <= 120


def test_a_long_name_keeps_seed_and_hash() -> None:
    config = {"task": {"_target_": "x." + "Y" * 300}, "run": {"label": "z" * 300}, "seed": 12}
    name = run_name(config, "0123456789")
    assert name.endswith("-s12-0123456789")
    assert len(name) == 120


def test_readable_name() -> None:
    config = {
        "task": {"_target_": "lengthwise.tasks.sets.SetMax"},
        "pe": {"_target_": "lengthwise.nn.position.t5.T5Bias"},
        "norm": {"_target_": "lengthwise.nn.norm.NoNorm"},
        "model": {
            "_target_": "lengthwise.nn.transformer.EncoderDecoder",
            "width": 64,
            "heads": 8,
            "dropout": 0.1,
        },
        "optimizer": {"_target_": "torch.optim.AdamW", "lr": 3e-3},
        "init_seed": 1,
        "data_seed": 2,
    }
    assert run_name(config, "0123456789") == "set_max-t5-none-encoder_decoder-h8-drop0p1-s1-2-0123456789"
    assert run_name({}, "0123456789") == "run-0123456789"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("lengthwise.nn.position.none.NoPosition", "none"), ("lengthwise.nn.position.alibi.ALiBi", "alibi"),
        ("lengthwise.nn.attention.parameter_free.ParameterFreeAttention", "parameter_free"),
        ("lengthwise.nn.norm.SandwichNorm", "sandwich"), ("lengthwise.nn.norm.RMSNorm", "rms"),
        ("lengthwise.nn.norm.LayerNorm", "layer"), ("lengthwise.nn.feedforward.ReLU", "relu"),
        ("lengthwise.nn.feedforward.SwiGLU", "swiglu"), ("lengthwise.nn.init.DepthScaledInit", "depth_scaled"),
        ("lengthwise.tasks.strings.UniqueCopy", "unique_copy"), ("lengthwise.training.schedules.cosine", "cosine"),
        ("torch.optim.AdamW", "adamw"), ("mine.MyRotary", "my_rotary"),
    ],
)  # fmt: skip
def test_component_names(target: str, name: str) -> None:
    assert component_name({"_target_": target}) == name


def test_factors() -> None:
    flat = factors(
        {
            "pe": None,
            "model": {"heads": 4},
            "seed": 3,
            "init_seed": 3,
            "data_seed": 3,
            "data": {"lengths": [6, 4, 5]},
        }
    )
    assert flat == {
        "pe": "none",
        "model": "none",
        "heads": 4,
        "lengths": "4-6",
        "seed": 3,
        "init_seed": 3,
        "data_seed": 3,
    }
    assert factors({"init_seed": 1, "data_seed": 2})["seed"] == "1+2"


@pytest.mark.parametrize(
    ("value", "lengths"),
    [
        ("4-6", [4, 5, 6]), ([6, 4, 5, 4], [4, 5, 6]), ("[4, 5,6]", [4, 5, 6]), (["4-6", 9.0], [4, 5, 6, 9]), (7, [7]),
        ("10-30:10,12", [10, 12, 20, 30]), ((1, 1e2), [1, 100]), ("4 - 6", [4, 5, 6]), (range(2, 4), [2, 3]),
    ],
)  # fmt: skip
def test_lengths(value: object, lengths: list[int]) -> None:
    assert parse_lengths(value) == lengths
    assert parse_lengths(format_lengths(lengths)) == lengths


@pytest.mark.parametrize(
    "value",
    [
        [1, "x"],
        "",
        [],
        None,
        0,
        [-3],
        "-3",
        "10-4",
        "4-10:0",
        4.5,
        True,
        [True],
        {"a": 1},
        [[1]],
        "1e999",
        "nan",
        "1-999999999",
    ],
)
def test_bad_lengths(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^data\.lengths="):
        parse_lengths(value)


def test_bad_lengths_show_the_option() -> None:
    with pytest.raises(ConfigError, match=r"^evaluation\.lengths=\[1,x\]: x is not a length"):
        parse_lengths([1, "x"], "evaluation.lengths")
