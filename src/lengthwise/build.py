"""From a checked configuration to objects: the one place that calls Hydra's `instantiate`."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import hydra.utils
from pytorch_lightning import Callback
from pytorch_lightning.utilities.exceptions import MisconfigurationException
from torch import nn
from torch.optim import Optimizer

from lengthwise.components import check_components
from lengthwise.config import short
from lengthwise.errors import ConfigError
from lengthwise.nn import PositionEncoding, Transformer
from lengthwise.nn.norm import Placement
from lengthwise.positions import Positions, Sequential
from lengthwise.runs import component_name, format_lengths
from lengthwise.tasks import Layout, Task, bin_lengths
from lengthwise.tasks.items import is_legal
from lengthwise.training.data import check_divides
from lengthwise.training.fit import TrainerOptions, refuse
from lengthwise.training.hardware import device_of
from lengthwise.training.schedules import Schedule

_ANY_MACHINE = {"accelerator": "cpu", "precision": "32-true"}
_SHAPES = {"Encoder": "encoder", "Decoder": "decoder", "EncoderDecoder": "encoder_decoder"}
_MODEL_SLOTS = {
    "position": "pe",
    "norm": "norm",
    "norm_layer": "norm_layer",
    "attention": "attention",
    "activation": "activation",
    "init": "init",
}

_KINDS: dict[str, type] = {
    "task": Task,
    "positions": Positions,
    "schedule": Schedule,
    "init": Callable,  # type: ignore[dict-item]
    "norm": Placement,
    "norm_layer": nn.Module,
    "activation": nn.Module,
}
"""What the component of a slot must be. The Transformer sees to its encoding and attention itself."""


def build(slot: str, node: dict[str, Any], **supplied: Any) -> Any:
    """The component that `node` names, or a factory for it when the node says ``_partial_``.

    Raises ConfigError naming the slot, the class and the reason.
    """
    try:
        made = hydra.utils.instantiate(node, _convert_="all", **supplied)
    except (Exception, SystemExit) as error:
        reason = error.__cause__ or error
        raise ConfigError(f"slot {slot}, option {option_of(node)}: {reason}") from error
    kind, factory = _KINDS.get(slot, object), getattr(made, "func", None)
    right = issubclass(factory, kind) if inspect.isclass(factory) else factory or isinstance(made, kind)
    if not right:  # what a function returns is seen where it is called
        raise ConfigError(
            f"{slot}._target_={node['_target_']}: that is no {kind.__name__} ({kind.__module__})"
        )
    return made


def build_task(config: dict[str, Any]) -> Task:
    """The task, with every training and test length checked against what it can generate.

    Raises ConfigError.
    """
    task = build("task", config["task"])
    for part in ("data", "evaluation"):
        for n in config[part]["lengths"]:
            try:
                task.check_length(n)
            except ValueError as error:
                asked = config[part]["lengths"]
                legal = [length for length in asked if is_legal(task, length)]
                among = f", such as {part}.lengths={short(_written(legal))}" if legal else ""
                raise ConfigError(f"{part}.lengths={short(_written(asked))}: {error}{among}") from error
    for low, high in config["evaluation"]["bins"]:
        try:
            bin_lengths(task, low, high, 1)
        except ValueError as error:
            raise ConfigError(f"evaluation.bins: [{low},{high}]: {error}") from error
    if config["evaluation"]["symmetry"]:
        _check_symmetry_length(config, task)
    return task


def _written(lengths: Sequence[int]) -> str:
    """As `parse_lengths` reads them; evenly spaced ones as a range with a step."""
    steps = {b - a for a, b in itertools.pairwise(lengths)}
    if len(lengths) > 3 and len(steps) == 1 and steps != {1}:
        return f"{lengths[0]}-{lengths[-1]}:{steps.pop()}"
    return format_lengths(lengths)


def _check_symmetry_length(config: dict[str, Any], task: Task) -> None:
    asked = config["evaluation"]["symmetry_length"]
    length = asked or max(config["data"]["lengths"])
    try:
        if length < 2:
            raise ValueError("permutations are measured on sequences of at least two symbols")
        task.check_length(length)
    except ValueError as error:
        shown = asked if asked is not None else f"null (the longest training length, {length})"
        raise ConfigError(
            f"evaluation.symmetry_length={shown}: {error}. Set another, or evaluation.symmetry=false"
        ) from error


def shape_of(config: dict[str, Any]) -> str:
    """``encoder``, ``decoder`` or ``encoder_decoder``."""
    name = config["model"]["_target_"].rpartition(".")[2]
    if name not in _SHAPES:
        raise ConfigError(
            f"model._target_={config['model']['_target_']}: must be one of {', '.join(_SHAPES)}"
        )
    return _SHAPES[name]


def build_layout(config: dict[str, Any], task: Task) -> Layout:
    """How the task's examples are laid out for this model shape.

    Raises ConfigError where task, model and readout do not go together.
    """
    shape = shape_of(config)
    rule = build("positions", config["positions"])
    other = config["evaluation"]["positions"]
    try:
        layout = Layout(task, shape, config["readout"], rule, build("positions", other) if other else None)
    except ValueError as error:
        raise ConfigError(f"task={task.name} model={shape} readout={config['readout']}: {error}") from error
    for part, training in (("data", True), ("evaluation", False)):
        longest = [high for _, high in config["evaluation"]["bins"]] if part == "evaluation" else []
        for length in [*config[part]["lengths"], *longest]:
            try:
                layout.check_numbers(length, training=training)
            except ValueError as error:
                listed = config[part]["lengths"]
                upto = f"{part}.lengths up to {max(listed)}"
                if length not in listed:
                    upto = f"evaluation.bins up to {max(longest)}"
                chosen = config["positions"] if training or not other else other
                raise ConfigError(f"positions={component_name(chosen)}: {error} ({upto})") from error
    return layout


def build_model(config: dict[str, Any], layout: Layout) -> Transformer:
    """The Transformer, with initial values drawn from `init_seed`.

    Raises ConfigError naming the combination that is impossible.
    """
    parts = {name: build(slot, config[slot]) for name, slot in _MODEL_SLOTS.items()}
    sizes = {key: value for key, value in config["model"].items() if key != "_target_"}
    factory = hydra.utils.get_class(config["model"]["_target_"])
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Initializing zero-element tensors")
            model: Transformer = factory(
                len(layout.vocabulary),
                **sizes,
                **parts,
                feature_dim=layout.task.feature_dim,
                readout="mean" if layout.readout == "mean" else "token",
                trained_length=_longest(layout.spans(n, training=True) for n in config["data"]["lengths"]),
                seed=config["init_seed"],
            )
    except (ValueError, TypeError) as error:
        slots = ("pe", "attention", "norm") if isinstance(layout.rule, Sequential) else ("pe", "positions")
        chosen = ", ".join(f"{slot}={option_of(config[slot])}" for slot in slots)
        raise ConfigError(f"model={shape_of(config)} ({chosen}): {error}") from error
    _check_numbers(config, layout, model)
    return model


def _check_numbers(config: dict[str, Any], layout: Layout, model: Transformer) -> None:
    """Refuse position numbers that the model has no use for, or not enough of."""
    chosen = f"pe={component_name(config['pe'])} positions={component_name(config['positions'])}"
    needed = max(_longest(layout.spans(n, training=True) for n in config["data"]["lengths"]))
    if model.max_length is not None and needed > model.max_length:
        raise ConfigError(
            f"{chosen} attention={component_name(config['attention'])}: the model has {model.max_length} positions, "
            f"and training needs {needed} of them (data.lengths up to {max(config['data']['lengths'])}, numbered by "
            f"positions={component_name(config['positions'])})"
        )
    encodings = [module for module in model.modules() if isinstance(module, PositionEncoding)]
    for rule in (layout.rule, layout.test_rule):
        if reason := _clash(rule, encodings):
            raise ConfigError(f"{chosen}: {reason}")


def _clash(rule: Positions, encodings: Sequence[PositionEncoding]) -> str | None:
    """Why `rule` and the model's encodings make no sense together, or None."""
    counted = isinstance(rule, Sequential)
    if not counted and not any(e.reads_positions for e in encodings):
        return "this encoding reads no position numbers; use positions=sequential"
    if not counted and any(e.needs_counted for e in encodings):
        return "this encoding is defined for positions that are counted, 0…N-1; use positions=sequential"
    if not rule.whole and any(e.whole_numbers for e in encodings):
        return "this encoding is defined for whole numbers only; use positions=randomized, or another pe"
    if not rule.supplied and any(e.needs_supplied for e in encodings):
        return "this encoding is meant for the task's own numbers; use positions=task"
    return None


def _longest(positions: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The longest of each side."""
    return tuple(max(side) for side in zip(*positions, strict=True))


def build_parts(config: dict[str, Any]) -> tuple[Task, Layout, Transformer]:
    """Task, layout and model of a checked configuration.

    Raises ConfigError before anything has been written or trained.
    """
    check_components(config)
    task = build_task(config)
    layout = build_layout(config, task)
    return task, layout, build_model(config, layout)


def refuse_training(config: dict[str, Any], model: Transformer, *, hardware: bool = True) -> None:
    """Refuse what would only fail once training starts: an optimizer, a schedule or a device that is not to be had.

    hardware: False asks nothing of this machine, which may not be the one that trains.

    Raises ConfigError; nothing has been written or deleted by then.
    """
    if other := config["evaluation"]["positions"]:
        raise ConfigError(
            f"evaluation.positions={component_name(other)}: a finished run is tested with other numbers by evaluate.py;"
            " in training, positions.at_test says what the run's own test has"
        )
    build("schedule", config["schedule"])
    trainer = config["trainer"]
    options = TrainerOptions(**(trainer if hardware else trainer | _ANY_MACHINE))
    try:
        check_divides(config["data"]["batch_size"], options.world, options.accumulate)
    except ValueError as error:
        asked = f"trainer.devices={options.devices}" + (
            f" trainer.nodes={options.nodes}" if options.nodes > 1 else ""
        )
        raise ConfigError(f"{asked}: {error}") from error
    if hardware and trainer["precision"] == "16-mixed" and device_of(trainer["accelerator"]).type == "cpu":
        raise ConfigError("trainer.precision=16-mixed needs a GPU; on a CPU use 32-true or bf16-mixed")
    try:
        optimizer = build("optimizer", config["optimizer"])(model)
    except Exception as error:  # torch's own checks raise what they like
        raise ConfigError(f"slot optimizer, option {option_of(config['optimizer'])}: {error}") from error
    if not isinstance(optimizer, Optimizer):
        raise ConfigError(
            f"optimizer._target_={config['optimizer']['_target_']}: that makes no torch optimizer of a model"
        )
    callbacks: list[Any] = [build(f"callbacks.{name}", node) for name, node in config["callbacks"].items()]
    for name, callback in zip(config["callbacks"], callbacks, strict=True):
        if not isinstance(callback, Callback):
            target = config["callbacks"][name]["_target_"]
            raise ConfigError(f"callbacks.{name}._target_={target}: that is no Lightning callback")
    try:
        refuse(options, callbacks)
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        chosen = f"trainer.accelerator={trainer['accelerator']} trainer.precision={trainer['precision']}"
        raise ConfigError(f"{chosen}: {error}") from error


def option_of(node: Any) -> str:
    """The name of the class that a component's node chooses."""
    return str(node["_target_"]).rpartition(".")[2]
