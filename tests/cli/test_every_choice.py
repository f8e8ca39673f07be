"""Every choice that conf/ offers builds and trains; every row of the textbook's system has its override."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lengthwise.composing import compose
from lengthwise.config import options
from lengthwise.errors import ConfigError
from lengthwise.nn.transformer import Inspection
from lengthwise.paths import conf_dir
from support.commandline import QUICK, SMALL, Result
from support.configs import composed, one_step, parts

BASE = ["model.width=16", "model.layers=1", "model.heads=2", "data.batch_size=4"]
FILES = sorted(str(path.relative_to(conf_dir()).with_suffix("")) for path in conf_dir().glob("*/*.yaml"))
NEEDS = {
    "attention/fixed": ["pe=none"],  # no queries and keys for an encoding of the attention to act on
    **{
        f"pe/{name}": ["model=decoder"] for name in ("cope", "forgetting", "xpos")
    },  # these need a causal model
    "pe/abacus": ["positions=task", "task=copy", "model=decoder"],
    "positions/task": ["task=copy", "model=decoder"],
    "size/base": ["model.layers=1"],  # 85 million parameters are not needed to see that it trains
    "size/small": ["model.layers=1"],
    "task/text": ["model=decoder"],
    **{f"evaluation/{name}": ["task=copy"] for name in ("bins", "chomsky")},  # word_order has no length 1
}


@pytest.mark.parametrize("file", FILES)
def test_every_file_composes_builds_and_trains_one_step(file: str) -> None:
    group, name = file.split("/")
    sizes = [word for word in BASE if not (group == "size" and word.startswith("model"))]
    if (name, "encoder") in ILLEGAL:
        sizes.append("model=decoder")
    _, loss, changed = one_step(compose([*sizes, f"{group}={name}", *NEEDS.get(file, [])]))
    assert math.isfinite(loss)
    assert changed


TASKS = options("task")
SHAPES = {"encoder": "Encoder", "decoder": "Decoder", "encoder_decoder": "EncoderDecoder"}


ILLEGAL = {
    *(("text", shape) for shape in ("encoder", "encoder_decoder")),
    *((task, "encoder_decoder") for task in ("mqar", "mqar_lengths")),
}
"""Next symbols stand among later inputs; where some places only are scored, no answer can be decoded."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("task", TASKS)
def test_every_task_trains_with_every_shape_of_model(task: str, shape: str) -> None:
    config = composed(*BASE, "pe=none", f"task={task}")
    config["model"]["_target_"] = f"lengthwise.nn.transformer.{SHAPES[shape]}"
    if (task, shape) in ILLEGAL:
        with pytest.raises(
            ConfigError, match=f"task={task.removesuffix('_lengths')} model={shape} .* use shape"
        ):
            one_step(config)
        return
    model, loss, changed = one_step(config)
    assert type(model).__name__ == SHAPES[shape]
    assert math.isfinite(loss)
    assert changed


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_task_runs_from_the_command_line(run, tmp_path: Path) -> None:
    """Each with each legal shape of model, in one sweep; what is left out is what is illegal."""
    result = run(
        "train", "-m", f"task={','.join(TASKS)}", "model=encoder,decoder,encoder_decoder", "pe=none",
        "trainer.max_steps=20", "evaluation.count=8", "evaluation.symmetry_draws=1", "wandb=disabled",
        "sweep.on_illegal=skip", "model.width=16", "model.layers=1",
    )  # fmt: skip
    assert result.code == 0, result.err
    done = {path.name for path in (tmp_path / "outputs" / "runs").iterdir()}
    assert len(done) == len(TASKS) * len(SHAPES) - len(ILLEGAL)


@pytest.mark.parametrize("readout", ["front", "end", "mean"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_readout_trains_or_is_refused_with_its_reason(readout: str, shape: str) -> None:
    config = composed(*BASE, "pe=none", f"readout={readout}")
    config["model"]["_target_"] = f"lengthwise.nn.transformer.{SHAPES[shape]}"
    if shape == "encoder" or readout == "end":
        assert math.isfinite(one_step(config)[1])
    else:
        with pytest.raises(ConfigError, match=f"readout={readout}"):
            one_step(config)


def has(part: str) -> Callable[[nn.Module, Inspection], bool]:
    return lambda model, seen: any(part in name for name, _ in model.named_parameters())


def lacks(part: str) -> Callable[[nn.Module, Inspection], bool]:
    return lambda model, seen: not has(part)(model, seen)


def module(name: str) -> Callable[[nn.Module, Inspection], bool]:
    return lambda model, seen: any(type(part).__name__ == name for part in model.modules())


def shape(part: str, *size: int) -> Callable[[nn.Module, Inspection], bool]:
    def check(model: nn.Module, seen: Inspection) -> bool:
        found = [tuple(value.shape) for name, value in model.named_parameters() if name.endswith(part)]
        return bool(found) and all(one == size for one in found)

    return check


def rows_sum_to_one(model: nn.Module, seen: Inspection) -> bool:
    weights = seen.attention_maps[0]
    return bool((weights >= 0).all()) and torch.allclose(weights.sum(-1), torch.ones(1), atol=1e-6)


def n_by_d(model: nn.Module, seen: Inspection) -> bool:
    return len({hidden.shape for hidden in seen.hidden}) == 1


def one_hot(model: nn.Module, seen: Inspection) -> bool:
    return set(seen.attention_maps[0].unique().tolist()) == {0.0, 1.0}


def heads(count: int) -> Callable[[nn.Module, Inspection], bool]:
    return lambda model, seen: seen.attention_maps[0].shape[1] == count


Holds = Callable[[nn.Module, Inspection], bool]
TEXTBOOK: list[tuple[str, str, Holds]] = [
    # attention
    ("A1", "", n_by_d),
    ("A2", "", rows_sum_to_one),
    ("A3", "attention=parameter_free pe=none", lacks("attention.query")),
    ("A4", "attention=shared", has("attention.shared")),
    ("A5", "attention=unscaled", module("UnscaledAttention")),
    ("A6", "attention=scaled", module("ScaledAttention")),
    ("A7", "attention=hard", one_hot),
    ("A8", "model.heads=8", heads(8)),
    ("A9", "attention=merged", has("attention.merged")),
    ("A10", "model.bias=true", has("attention.query.bias")),
    ("A10", "model.bias=false", lacks("attention.query.bias")),
    ("A11", "model.key_dim=6 model.value_dim=7", shape("attention.output.weight", 16, 14)),
    ("A11", "model.key_dim=16", shape("attention.query.weight", 32, 16)),
    ("A11", "model.width=15 model.key_dim=4 model.value_dim=3", shape("attention.key.weight", 8, 15)),
    ("A11", "model.output_projection=false", lacks("attention.output")),
    ("A12", "model=encoder_decoder", has("cross_attention")),
    ("A12", "model=encoder_decoder pe=rotary pe.cross=true", has("cross_attention")),
    ("A13", "attention=fixed pe=none", lacks("attention.query")),
    # the layer
    ("L1", "norm=post", lacks("final_norm")),
    ("L2", "norm=pre", has("final_norm")),
    ("L3", "activation=relu", lacks("gate")),
    ("L3", "activation=gelu", module("GELU")),
    ("L3", "activation=swiglu", has("gate")),
    ("L4", "model.residual=false", n_by_d),
    ("L5", "norm=none", lacks("norm")),
    ("L5", "norm=sandwich", has("attention_norm.after")),
    ("L5", "norm_layer=rms", module("RMSNorm")),
    # position
    ("P1", "pe=none", lacks("position")),
    ("P2", "pe=sinusoidal pe.combine=add", shape("attention.query.weight", 16, 16)),
    ("P3", "pe=sinusoidal pe.combine=concat pe.dim=8", shape("attention.query.weight", 24, 24)),
    ("P3", "pe=learned pe.combine=concat", shape("attention.query.weight", 32, 32)),
    ("P4", "pe=integer pe.direction=orthogonal", module("Integer")),
    ("P4", "pe=integer pe.direction=ones", module("Integer")),
    ("P4", "pe=integer pe.combine=concat model.heads=1", shape("mlp.hidden.weight", 68, 17)),
    ("P5", "pe=unit_interval", module("UnitInterval")),
    ("P6", "pe=binary pe.range=64", module("Binary")),
    ("P7", "pe=sinusoidal pe.base=100 pe.origin=1", module("Sinusoidal")),
    ("P8", "pe=learned pe.beyond=untrained", has("position.table")),
    ("P8", "pe=learned pe.beyond=error", has("position.table")),
    ("P8", "pe=learned pe.beyond=clamp", has("position.table")),
    ("P8", "pe=learned pe.beyond=interpolate", has("position.table")),
    ("P8", "pe=learned pe.max_length=20", shape("position.table.weight", 20, 16)),
    ("P9", "pe=rotary pe.base=500", module("Rotary")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "overrides", "holds"), TEXTBOOK, ids=[f"{row[0]} {row[1]}" for row in TEXTBOOK]
)
def test_every_row_of_the_textbooks_system_has_its_override(row: str, overrides: str, holds: Holds) -> None:
    config = composed(*BASE, *overrides.split())
    model, loss, changed = one_step(config)
    assert math.isfinite(loss)
    assert changed
    assert holds(model, inspect(model, config)), row


def inspect(model: nn.Module, config: dict[str, Any]) -> Inspection:
    with torch.no_grad():
        return model.inspect(parts(config)[1].train_batch(0))


def test_no_row_is_left_out() -> None:
    wanted = (
        [f"A{n}" for n in range(1, 14)] + [f"L{n}" for n in range(1, 6)] + [f"P{n}" for n in range(1, 10)]
    )
    assert sorted({row[0] for row in TEXTBOOK}) == sorted(wanted)


def test_control_the_default_has_none_of_what_an_override_brings() -> None:
    config = composed(*BASE)
    model, _, _ = one_step(config)
    seen = inspect(model, config)
    default = {
        "",
        "attention=scaled",
        "model.bias=false",
        "norm=pre",
        "activation=relu",
        "model.residual=false",
    }
    default |= {"pe=none", "pe=sinusoidal pe.combine=add", "pe=rotary pe.base=500"}
    for row, overrides, holds in TEXTBOOK:
        if overrides not in default:
            assert not holds(model, seen), f"{row} {overrides}"


def test_without_residual_connections_the_layers_input_is_not_carried() -> None:
    """L4, seen in the function itself: with all of a layer's outputs at 0 nothing is left of its input."""
    found = {}
    for residual in ("true", "false"):
        config = composed(*BASE, "norm=none", f"model.residual={residual}")
        model, data = parts(config)
        for name, value in model.named_parameters():
            if name.endswith(("attention.output.weight", "mlp.output.weight", "mlp.output.bias")):
                nn.init.zeros_(value)
        found[residual] = model.eval().inspect(data.train_batch(0)).hidden[-1]
    assert found["false"].abs().max() == 0
    assert found["true"].abs().max() > 0


def last_row(outputs: Path, name: str = "train.csv") -> dict[str, str]:
    (path,) = (outputs / "runs").glob(f"*/{name}")
    with path.open() as stream:
        return list(csv.DictReader(stream))[-1]


def test_debug_fast_does_a_few_steps_of_everything(run: Callable[..., Result], tmp_path: Path) -> None:
    result = run("train", "debug=fast", "wandb=disabled", *SMALL)
    assert result.code == 0, result.err
    (path,) = (tmp_path / "outputs" / "runs").iterdir()
    assert "debug-fast" in path.name
    assert int(last_row(tmp_path / "outputs")["step"]) < 10
    for name in ("length.csv", "symmetry.csv", "checkpoints/best.ckpt", "status.json"):
        assert (path / name).is_file()
    assert last_row(tmp_path / "outputs")["val_loss"]


def test_debug_overfit_takes_one_batch_to_zero_loss(run: Callable[..., Result], tmp_path: Path) -> None:
    short = ["trainer.max_steps=120", "evaluation.symmetry=false", "evaluation.lengths=[4]", "wandb=disabled"]
    assert run("train", "debug=overfit", *short, "data.validation_size=32").code == 0
    overfitted = float(last_row(tmp_path / "outputs")["loss"])
    assert overfitted < 0.01
    # control: as many steps on fresh batches do not get there
    fresh = ["data.repeat_batch=false", "outputs=fresh", "pe=none"]
    assert run("train", "debug=overfit", *short, "data.validation_size=32", *fresh).code == 0
    assert float(last_row(tmp_path / "fresh")["loss"]) > 10 * overfitted


def test_debug_profile_writes_a_profile(run: Callable[..., Result], tmp_path: Path) -> None:
    result = run(
        "train", "debug=profile", *QUICK[2:], *SMALL, "trainer.max_steps=4", "evaluation.symmetry=false"
    )
    assert result.code == 0, result.err
    (path,) = (tmp_path / "outputs" / "runs").glob("*/profile.txt")
    assert "optimizer_step" in path.read_text()
    assert not (tmp_path / "profile.txt").exists()


def test_early_stopping_ends_a_run_that_is_then_done(run: Callable[..., Result], tmp_path: Path) -> None:
    command = [
        *QUICK, *SMALL, "trainer.max_steps=40", "callbacks=early_stopping", "callbacks.early_stopping.patience=2",
        "callbacks.early_stopping.min_delta=100", "evaluation.symmetry=false",
    ]  # fmt: skip
    assert run("train", *command).code == 0
    (path,) = (tmp_path / "outputs" / "runs").glob("*/status.json")
    status = json.loads(path.read_text())
    assert (status["state"], status["steps"]) == ("done", 6)
    assert int(last_row(tmp_path / "outputs", "length.csv")["step"]) <= 6
    assert "done already (6 steps)" in run("train", *command).out
