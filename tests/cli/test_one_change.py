"""One change is one change: what an override does not name stays equal to the bit."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
import torch

from lengthwise.batch import Batch
from lengthwise.build import build_task
from lengthwise.config import options
from lengthwise.errors import ConfigError
from lengthwise.keyed import philox, seed63
from lengthwise.tasks.items import test_items as items
from lengthwise.tasks.items import validation_items
from lengthwise.training import LengthData
from support.configs import composed, parts, with_option

OWN = {
    "pe": r"\bposition\.",
    "norm": r"norm\.",
    "norm_layer": r"norm\.",
    "attention": r"attention\.(?!position)",
    "activation": r"\bmlp\.",
}
"""Slot -> the parameters that are its own."""

BASE = ["model.width=16", "model.layers=2", "model.heads=2", "data.batch_size=8", "pe=none"]
MODELS = ["encoder", "decoder", "encoder_decoder"]
IMPOSSIBLE = {
    *(("pe", "abacus", model) for model in MODELS),  # without numbers from the task
    ("pe", "unit_interval", "decoder"),
    ("pe", "unit_interval", "encoder_decoder"),
    ("attention", "fixed", "encoder_decoder"),
    *(
        ("pe", name, model)
        for name in ("cope", "forgetting", "xpos")
        for model in ("encoder", "encoder_decoder")
    ),
}


def build(*overrides: str) -> tuple[dict[str, torch.Tensor], LengthData]:
    return built(composed(*BASE, *overrides))


def built(config: dict[str, Any]) -> tuple[dict[str, torch.Tensor], LengthData]:
    model, data = parts(config)
    return model.state_dict(), data


def outside(slot: str, parameters: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in parameters.items() if not re.search(OWN[slot], name)}


def same(a: Batch | None, b: Batch | None) -> bool:
    for field in dataclasses.fields(Batch):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, Batch) or isinstance(y, Batch):
            if not same(x, y):
                return False
        elif (x is None) != (y is None) or (x is not None and not torch.equal(x, y)):
            return False
    return True


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("slot", OWN)
def test_two_models_that_differ_in_one_slot(slot: str, model: str) -> None:
    reference, data = build(f"model={model}")
    batches = [data.train_batch(step) for step in range(3)]
    compared = 0
    for option in options(slot):
        try:
            parameters, other = built(with_option(composed(*BASE, f"model={model}"), slot, option))
        except ConfigError as error:
            assert (slot, option, model) in IMPOSSIBLE, error
            continue
        kept, expected = outside(slot, parameters), outside(slot, reference)
        assert kept.keys() == expected.keys(), option
        assert all(torch.equal(kept[name], expected[name]) for name in expected), option
        assert all(same(other.train_batch(step), batch) for step, batch in enumerate(batches))
        assert not same(batches[0], batches[1])
        compared += 1
    assert compared >= 2


def test_control_another_seed_changes_every_matrix_and_every_batch() -> None:
    reference, data = build()
    parameters, same_data = build("init_seed=1")
    matrices = [name for name, value in reference.items() if value.ndim > 1]
    assert not any(torch.equal(parameters[name], reference[name]) for name in matrices)
    assert same(same_data.train_batch(0), data.train_batch(0))
    parameters, other_data = build("data_seed=1")
    assert all(torch.equal(parameters[name], reference[name]) for name in reference)
    assert not same(other_data.train_batch(0), data.train_batch(0))


@pytest.mark.parametrize("slot", OWN)
def test_control_the_slots_own_parameters_do_change(slot: str) -> None:
    """… so that the comparison above is not one of a model with itself."""
    shapes = set()
    for option in options(slot):
        if (slot, option, "encoder") in IMPOSSIBLE:
            continue
        parameters, _ = built(with_option(composed(*BASE), slot, option))
        shapes.add(
            tuple(sorted((n, tuple(v.shape)) for n, v in parameters.items() if re.search(OWN[slot], n)))
        )
    assert len(shapes) > 1


@pytest.mark.parametrize("combine", ["add", "concat"])
def test_a_longer_table_begins_with_the_shorter_one(combine: str) -> None:
    name = "stack.position.table.weight"
    learned = ["pe=learned", f"pe.combine={combine}"]
    short = build(*learned, "pe.max_length=128")[0][name]
    long = build(*learned, "pe.max_length=4096")[0][name]
    assert (len(short), len(long)) == (128, 4096)
    assert torch.equal(long[:128], short)
    assert not torch.equal(long[128:256], short)


def test_a_longer_test_changes_nothing_in_the_model_or_the_batches() -> None:
    reference, data = build("pe=learned")
    parameters, other = build("pe=learned", "evaluation.lengths=[4,100,900]", "evaluation.count=7")
    assert all(torch.equal(parameters[name], reference[name]) for name in reference)
    assert same(other.train_batch(5), data.train_batch(5))


def test_keys_that_differ_by_two_to_the_32() -> None:
    far = 2**32
    reference, data = build("data_seed=1", "init_seed=1")
    parameters, other = build(f"data_seed={1 + far}", f"init_seed={1 + far}")
    assert not same(other.train_batch(0), data.train_batch(0))
    assert not torch.equal(parameters["stack.embedding.weight"], reference["stack.embedding.weight"])
    assert not np.array_equal(philox("x", 1).random(4), philox("x", 1 + far).random(4))
    # dropout goes through torch's generator, which keeps 32 bits of its seed
    assert (seed63("dropout", 1, 0, 0, 0) - seed63("dropout", 1 + far, 0, 0, 0)) % far
    draws = [torch.rand(4, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1 + far)]
    assert torch.equal(*draws), "control: seeds as they are would have collided"


@pytest.mark.parametrize("task", ["word_order", "majority", "reverse"])
def test_test_items_are_the_same_for_every_seed_and_list_of_lengths(task: str) -> None:
    length = 9
    found = []
    for overrides in (
        [],
        ["seed=7"],
        [f"evaluation.lengths=[{length}]"],
        ["data.lengths=[5,9]", "data_seed=3"],
    ):
        chosen = build_task(composed(f"task={task}", *overrides))
        found.append(items(chosen, length, 300))
    for other in found[1:]:
        assert np.array_equal(other.inputs, found[0].inputs)
        assert np.array_equal(other.answers, found[0].answers)
    fewer = items(chosen, length, 40)
    assert np.array_equal(fewer.inputs, found[0].inputs[:40])
    assert not np.array_equal(validation_items(chosen, length, 300).inputs, found[0].inputs)
    assert len(np.unique(found[0].inputs[:256], axis=0)) > 1
