"""Weight decay by module type: a swapped component never changes what is decayed."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from lengthwise import nn as lw
from lengthwise.nn.position.contract import PositionEncoding
from lengthwise.training.optim import adamw, owners, sgd


def model_with(position):
    shape = lw.Decoder if getattr(position, "needs_causal", False) else lw.Encoder
    return shape(11, width=16, layers=2, heads=2, position=position, bias=True, trained_length=8)


def classes() -> dict[str, type]:
    found: dict[str, type] = {}
    todo = [PositionEncoding]
    while todo:
        for cls in todo.pop().__subclasses__():
            todo.append(cls)
            if not cls.__subclasses__() and cls.__module__.startswith("lengthwise."):
                found[cls.__name__] = cls
    return found


def encodings():
    parts = {"a": lw.Sinusoidal, "b": lw.TransformerXL}
    for name, cls in sorted(classes().items()):
        yield pytest.param(partial(cls, parts=parts) if cls is lw.PositionStack else cls, id=name)
    yield pytest.param(partial(lw.position.Sinusoidal, combine="concat"), id="Sinusoidal-concat")


def groups_by_name(model: nn.Module) -> dict[str, bool]:
    """name -> decayed, through the optimizer that training really uses."""
    optimizer = adamw(model, lr=1e-3, weight_decay=0.1)
    decayed = {id(p): group["weight_decay"] > 0 for group in optimizer.param_groups for p in group["params"]}
    assert len(decayed) == sum(len(group["params"]) for group in optimizer.param_groups)
    return {name: decayed.pop(id(parameter)) for name, parameter in model.named_parameters()} | dict.fromkeys(
        decayed
    )


@pytest.mark.parametrize("position", list(encodings()))
def test_each_parameter_is_in_one_group_and_only_matrices_of_maps_are_decayed(position):
    model = model_with(position)
    decayed = groups_by_name(model)
    assert set(decayed) == {name for name, *_ in owners(model)}
    for name, parameter, owner, in_position in owners(model):
        kept = in_position or parameter.ndim < 2 or isinstance(owner, nn.Embedding)
        assert decayed[name] == (not kept), name


@pytest.mark.parametrize("position", list(encodings()))
def test_outside_the_encoding_the_groups_are_those_without_one(position):
    plain, other = groups_by_name(model_with(lw.position.NoPosition)), groups_by_name(model_with(position))
    assert {name: other[name] for name in plain} == plain


class Foreign(PositionEncoding):
    """An encoding that holds a linear map and a bare matrix."""

    acts_on = "embedding"

    def __init__(self, sizes: lw.Sizes) -> None:
        super().__init__(sizes)
        self.map = nn.Linear(sizes.width, sizes.width)
        self.rows = nn.Parameter(torch.randn(8, sizes.width))


def test_tables_outside_embeddings_and_whatever_an_encoding_holds_are_not_decayed():
    foreign = groups_by_name(model_with(Foreign))
    inside = {name: decayed for name, decayed in foreign.items() if name.startswith("stack.position.")}
    assert len(inside) == 3 and not any(inside.values())
    assert foreign["stack.layers.0.attention.query.weight"]
    fixed = groups_by_name(lw.Encoder(11, width=16, layers=1, heads=2, attention=lw.FixedAttention))
    assert not fixed["stack.layers.0.attention.table"]
    assert fixed["stack.layers.0.attention.value.weight"]


def test_there_are_decayed_and_undecayed_parameters_at_all():
    assert set(groups_by_name(model_with(lw.position.Learned)).values()) == {True, False}


def test_control_decay_really_shrinks_the_one_kind_and_spares_the_other():
    model = model_with(lw.position.Learned)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = adamw(model, lr=0.1, weight_decay=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    decayed = groups_by_name(model)
    for name, parameter in model.named_parameters():
        factor = 1 - 0.1 * 0.5 if decayed[name] else 1.0
        torch.testing.assert_close(parameter.detach(), before[name] * factor)


@pytest.mark.parametrize("factory", [adamw, sgd])
def test_every_optimizer_covers_every_trainable_parameter(factory):
    model = model_with(lw.position.NoPosition)
    next(model.parameters()).requires_grad_(False)
    optimizer = factory(model, lr=0.1)
    covered = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert covered == {id(p) for p in model.parameters() if p.requires_grad}


def test_defaults_are_those_the_quick_studies_were_calibrated_with():
    (group,) = {g["weight_decay"]: g for g in adamw(model_with(lw.position.NoPosition)).param_groups}.values()
    assert (group["lr"], group["betas"], group["weight_decay"]) == (3e-3, (0.9, 0.98), 0.0)
