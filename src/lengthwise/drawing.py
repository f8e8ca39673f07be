"""Pictures of a trained run, on request: where its heads look, and what its position encoding says."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from lengthwise.console import say
from lengthwise.evaluation import pictures as arrays
from lengthwise.evaluation.modes import evaluation_mode
from lengthwise.evaluation.position_codes import Subject, reach
from lengthwise.nn import Transformer
from lengthwise.nn.position import LengthError
from lengthwise.runs import RunFolder, component_name
from lengthwise.runs.atomic import write_atomic
from lengthwise.runs.tested import has_picture
from lengthwise.tasks import Layout, Task, test_items
from lengthwise.training.callbacks.checkpoints import load_weights

INPUTS = 2
"""Test sequences of each length whose attention is drawn."""

LONGEST = 64
"""Input symbols of the longest sequence drawn: beyond, a map has no room for its positions."""

NAMED = 32
"""The most positions whose symbols are written beside a map."""

_MAPS = {
    "attention_maps": ("attention", "own", "own"),
    "cross_maps": ("attention-cross", "own", "source"),
    "source_attention_maps": ("attention-source", "source", "source"),
}
"""What `Transformer.inspect` tells; its name; which side of an encoder-decoder queries and keys are of."""


def draw_pictures(
    folder: RunFolder, config: dict[str, Any], task: Task, layout: Layout, model: Transformer, *, anew: bool
) -> list[Path]:
    """The files ``pictures/*.png`` that `config` asks for, of the first checkpoint; those that are there are drawn
    `anew`, or kept.

    Raises RunError for a checkpoint that is missing or damaged, or a disk that is full. The model is left on the CPU,
    with its weights.
    """
    asked = config["evaluation"]["pictures"]
    missing = [kind for kind in asked if anew or not has_picture(folder, kind)]
    if missing:
        folder.pictures.mkdir(exist_ok=True)
        checkpoint = config["evaluation"]["checkpoints"][0]
        load_weights(model.cpu(), folder.checkpoints / f"{checkpoint}.ckpt")
        with evaluation_mode(model):
            for kind in missing:
                try:
                    drawn = {name: _png(f) for name, f in _KINDS[kind](config, task, layout, model).items()}
                except (
                    Exception
                ) as error:  # somebody's own encoding may do anything; the figures are what counts
                    say(f"warning: no picture of {kind} ({type(error).__name__}: {error})")
                    continue
                for name, content in drawn.items():
                    write_atomic(folder.pictures / f"{name}.png", content)
        say(f"pictures: {folder.pictures}")
    return sorted(path for kind in asked for path in folder.pictures.glob(f"{kind}*.png"))


def _png(figure: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, dpi=110, format="png")
    return content.getvalue()


def _attention(config: dict[str, Any], task: Task, layout: Layout, model: Transformer) -> dict[str, Any]:
    """One figure a sequence: a row a layer, a column a head; brighter is more weight, up to the figure's largest."""
    figures = {}
    for length in drawn_lengths(config):
        examples = test_items(task, length, INPUTS)
        batch = layout(examples, "test", length)
        try:
            found = model.inspect(batch)
        except LengthError:
            continue  # the encoding ends before
        for index in range(len(examples)):
            for maps, (name, *sides) in _MAPS.items():
                layers = [layer[index].float() for layer in getattr(found, maps)]
                if not layers:
                    continue
                symbols = [
                    _symbols(layout, batch if side == "own" else batch.source, index) for side in sides
                ]
                title = f"{name}, {length} input symbols, test sequence {index + 1}"
                figures[f"{name}-n{length}-{index + 1}"] = _grid(layers, symbols, title)
    return figures


def drawn_lengths(config: dict[str, Any]) -> list[int]:
    """The longest trained and the longest tested beyond it, of those with room; where there is none the shortest
    trained."""
    trained, tested = config["data"]["lengths"], config["evaluation"]["lengths"]
    inside = [n for n in trained if n <= LONGEST]
    beyond = [n for n in tested if max(trained) < n <= LONGEST]
    return [max(some) for some in (inside, beyond) if some] or [min(trained)]


def _symbols(layout: Layout, side: Any, index: int) -> list[str]:
    """Of the real positions."""
    return [layout.vocabulary.decode([i]) for i in side.tokens[index][side.key_mask[index]]]


def _grid(layers: Sequence[Tensor], symbols: Sequence[Sequence[str]], title: str) -> Any:
    from matplotlib.figure import Figure

    queries, keys = symbols
    heads = max(layer.shape[0] for layer in layers)
    most = max(float(layer.max()) for layer in layers)  # spread evenly over many keys, no weight comes near 1
    figure = Figure(figsize=(1.0 + 2.6 * heads, 1.0 + 2.7 * len(layers)), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(len(layers), heads, squeeze=False)
    for number, (row, layer) in enumerate(zip(axes, layers, strict=True), start=1):
        row[0].set_ylabel(f"layer {number}\nquery", fontsize=8)
        for head, (axis, weights) in enumerate(zip(row, layer, strict=False), start=1):
            image = axis.imshow(weights[: len(queries), : len(keys)].numpy(), vmin=0, vmax=most, cmap="magma")
            axis.set_title(f"head {head}", fontsize=8)
            axis.set_xlabel("key", fontsize=7)
            if len(keys) <= NAMED:
                axis.set_xticks(range(len(keys)), keys, fontsize=5, rotation=90)
            if len(queries) <= NAMED:
                axis.set_yticks(range(len(queries)), queries, fontsize=5)
    figure.colorbar(image, ax=axes, shrink=0.6)
    return figure


def _positions(config: dict[str, Any], task: Task, layout: Layout, model: Transformer) -> dict[str, Any]:
    """The trained encoding's vectors, their similarity, and its scores by distance; what applies to it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    encoding = component_name(config["pe"])
    try:
        subject = Subject.of(model)
        drawn = arrays.pictures(subject, reach(subject)[0], movable=model.prefix_stable)
    except (ValueError, AttributeError):
        figure.suptitle(
            f"{encoding}: an encoder-decoder, or a model without queries and keys, has no such picture"
        )
        return {"positions": figure}
    figure.suptitle(f"{encoding}, trained on up to {max(config['data']['lengths'])} input symbols")
    maps = [np.array(one, dtype=float) for one in drawn.get("maps", ())]
    panels: list[tuple[str, Any]] = [
        (name, drawn[name]) for name in ("vectors", "similarity", "scores") if name in drawn
    ]
    panels += [("map", maps[0])] if maps else []
    for axis, (name, values) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _PANELS[name](axis, np.array(values, dtype=float))
    return {"positions": figure}


def _vectors(axis: Any, values: np.ndarray) -> None:
    largest = np.abs(values).max()
    _image(axis, values, aspect="auto", cmap="RdBu", vmin=-largest, vmax=largest)
    axis.set(title="vectors", xlabel="column", ylabel="position")


def _similarity(axis: Any, values: np.ndarray) -> None:
    _image(axis, values, cmap="RdBu", vmin=-1, vmax=1)
    axis.set(title="cosine of two vectors", xlabel="position", ylabel="position")


def _scores(axis: Any, values: np.ndarray) -> None:
    for head, curve in enumerate(values):
        axis.plot(curve, label=f"head {head + 1}")
    axis.set(
        title="mean score against that at distance 0", xlabel="distance behind the query", ylabel="logits"
    )
    if len(values) <= 8:
        axis.legend(fontsize=7)


def _map(axis: Any, values: np.ndarray) -> None:
    _image(axis, values, cmap="viridis")
    axis.set(title="scores of head 1", xlabel="key", ylabel="query")


def _image(axis: Any, values: np.ndarray, **how: Any) -> None:
    axis.figure.colorbar(axis.imshow(values, **how), ax=axis, shrink=0.7)


_PANELS = {"vectors": _vectors, "similarity": _similarity, "scores": _scores, "map": _map}
_KINDS = {"attention": _attention, "positions": _positions}
