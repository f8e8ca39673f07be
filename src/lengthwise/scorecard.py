"""``lengthwise scorecard``: encodings side by side, untrained, composed as a run would compose them."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from lengthwise import __version__
from lengthwise.build import build, build_layout, build_task
from lengthwise.components import check_components
from lengthwise.composing import Composer
from lengthwise.console import say
from lengthwise.errors import ConfigError
from lengthwise.evaluation import scorecard as measures
from lengthwise.evaluation.card import MEASURES, distinct_mismatch
from lengthwise.evaluation.pictures import pictures
from lengthwise.evaluation.position_codes import LAST, Subject, fill_empty_tables
from lengthwise.nn import Decoder, Encoder, NoPosition, Transformer
from lengthwise.pipeline import prepare
from lengthwise.report.scorecard_page import write_page
from lengthwise.report.scorecard_table import print_cards
from lengthwise.runs.atomic import check_target, write_atomic
from lengthwise.sweeping import composer_of, hydra_words, parse

DEFAULT_WIDTH = "model.width=128"
"""The width of the textbooks' pictures, unless the command line names one."""

PAGE = "scorecard.html"
"""Written into the folder of ``outputs=`` unless ``path=`` says otherwise."""

NO_EFFECT = ("optimizer", "schedule", "trainer", "evaluation", "callbacks", "wandb", "debug", "sweep", "run")
"""Of training: a scorecard is of what is untrained."""

NOT_ALONE = ("stack",)
"""Options of the slot that are made of others, and shown when they are asked for."""

_SHAPES = {"encoder": Encoder, "decoder": Decoder}
_MODEL_PARTS = {
    "attention": "attention",
    "norm": "norm",
    "norm_layer": "norm_layer",
    "activation": "activation",
    "init": "init",
}


class Cell(NamedTuple):
    """One encoding with its options and sizes, as the command line asks for it."""

    label: str
    overrides: list[str]
    config: dict[str, Any]


def scorecard(arguments: Sequence[str]) -> int:
    """Print the table, or with ``--json`` everything; write the page and what else is asked for.

    Raises ConfigError for what is no encoding, no option or no size, for a file that cannot be written (all that before
    anything is measured), and where no encoding at all is possible; RunError where writing a file fails.
    """
    own, words = _own(arguments)
    for name in ("csv", "path"):
        if own[name] and name in own["named"]:  # the default page's folder is made
            check_target(Path(own[name]), f"{name}={own[name]}")
    cells = cells_of(words)
    prepare(cells[0].config)
    found = list(_cards(cells, shape_given=any(word.startswith("model=") for word in words)))
    if all(card["error"] for card in found):
        raise ConfigError(f"{found[0]['encoding']}: {found[0]['error']}")
    shown = {
        "version": __version__,
        "positions": LAST + 1,
        "sizes": _sizes(cells),
        "page": own["path"] or None,
    }
    if own["path"]:
        write_page(Path(own["path"]), found, shown)
    cards = [{name: value for name, value in card.items() if name != "pictures"} for card in found]
    if own["csv"]:
        write_atomic(Path(own["csv"]), _csv(cards).encode())
    if own["json"]:
        say(json.dumps({**shown, "encodings": cards}, indent=1, ensure_ascii=False))
        return 0
    print_cards(cards, shown)
    for name in ("csv", "path"):
        if own[name]:
            say(f"{'page' if name == 'path' else 'table'}: {own[name]}")
    return 0


def _own(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """What is the command's own, and the words that compose.  ``path=null`` and ``csv=null`` write nothing."""
    own: dict[str, Any] = {"path": None, "csv": None, "json": False, "named": []}
    outputs, words = "outputs", []
    for word in arguments:
        key, equals, value = word.partition("=")
        if word == "--json":
            own["json"] = True
        elif equals and key == "outputs":
            outputs = value
        elif key.lstrip("+~").partition(".")[0] in NO_EFFECT:
            raise ConfigError(
                f"{word}: has no effect on a scorecard, which is of what is untrained; leave it out"
            )
        elif equals and key in ("path", "csv"):
            if not value:
                raise ConfigError(
                    f"{key}=: name a file, such as {key}=scorecard.{'html' if key == 'path' else 'csv'}"
                )
            own[key] = None if value == "null" else value
            own["named"].append(key)
        else:
            words.append(word)
    if "path" not in own["named"]:
        own["path"] = str(Path(outputs) / PAGE)
    return own, words


# --- which encodings ---


def cells_of(words: Sequence[str]) -> list[Cell]:
    """Every combination of what `words` name, each composed and checked.  Raises ConfigError for what is wrong."""
    options = parse(list(words))
    if options.multirun:
        raise ConfigError("-m: not needed here; several encodings are written pe=rotary,alibi")
    composer, (_, words) = composer_of(options), hydra_words(options.overrides)
    axes = _axes(composer, words)
    varied = [list(values) for values in axes.values()]
    cells = []
    for combination in itertools.product(*varied):
        overrides = (
            [] if any(word.startswith(("model.width=", "size=")) for word in words) else [DEFAULT_WIDTH]
        )
        overrides += combination
        config = composer(overrides)
        check_components(config)
        several = [text for text, values in zip(combination, varied, strict=True) if len(values) > 1]
        cells.append(Cell(_label(combination, several), list(combination), config))
    return cells


def _axes(composer: Composer, words: Sequence[str]) -> dict[str, list[str]]:
    """Each word with the overrides that it stands for; without one that chooses, every encoding there is."""
    axes = {text: values or [text] for text, values in composer.axes(words).items()}
    if any(text.startswith("pe=") for text in axes):
        return axes
    for text in axes:
        if text.lstrip("+~").startswith(("pe.", "pe@")):
            raise ConfigError(f"{text}: say whose option that is, such as pe=rotary {text}")
    everything = composer.axes(["pe=glob(*)"])["pe=glob(*)"] or []
    return {"pe": [text for text in everything if text.partition("=")[2] not in NOT_ALONE], **axes}


def _label(combination: Sequence[str], several: Sequence[str]) -> str:
    """The encoding's name, its options, and whatever else tells it from the others."""
    name = next(text.partition("=")[2] for text in combination if text.startswith("pe="))
    rest = [
        text
        for text in combination
        if not text.startswith("pe=") and (text in several or text.lstrip("+~").startswith(("pe.", "pe@")))
    ]
    return " ".join([name, *rest])


# --- measuring ---


def _cards(cells: Sequence[Cell], *, shape_given: bool) -> Iterator[dict[str, Any]]:
    with Console(stderr=True).status("") as status:
        for number, cell in enumerate(cells, start=1):
            status.update(f"{cell.label}, {number} of {len(cells)}")
            yield _card(cell, shape_given)


def _card(cell: Cell, shape_given: bool) -> dict[str, Any]:
    """What is known of one encoding, in plain containers; `error` says why it is not possible at these sizes."""
    target = cell.config["pe"]["_target_"]
    head = {
        "encoding": cell.label,
        "overrides": cell.overrides,
        "class": target,
        "error": None,
        "model": None,
    }
    empty: dict[str, Any] = {
        "figures": {},
        "reasons": {},
        "declared": {},
        "symmetries": {},
        "mismatches": [],
        "notes": [],
    }
    try:
        shape, model, baseline = _models(cell.config, shape_given)
        filled = fill_empty_tables(model)
        subject = Subject.of(model)
    except ValueError as error:
        return {**head, **empty, "error": str(error), "pictures": {}}
    try:
        card = measures.measure(subject)
        measures.measure_cost(card, subject, Subject.of(baseline))
    except Exception as error:  # somebody's own encoding may do anything
        said = str(error).split("\n")[0]
        return {
            **head,
            **empty,
            "error": f"cannot be measured ({type(error).__name__}: {said})",
            "pictures": {},
        }
    card.figures["parameters"] = _count(model) - _count(baseline)
    if filled:
        card.notes.append(f"{', '.join(filled)}: starts at zero, and was filled from N(0, 1) to be measured")
    drawn = pictures(
        subject, card.figures["positions_defined"], movable=card.figures["prefix_stable"] is not False
    )
    return {**head, "model": shape, **vars(card), "pictures": drawn}


def wrong_distinct_until(node: dict[str, Any]) -> str | None:
    """What the card of the encoding of the slot's `node` would say against its `distinct_until`; None where that holds,
    or there is no card of it."""
    config = {**Composer()([DEFAULT_WIDTH]), "pe": node}
    try:
        _, model, _ = _models(config, shape_given=False)
        fill_empty_tables(model)
        subject = Subject.of(model)
    except ValueError:
        return None
    return distinct_mismatch(measures.measure_distinct(subject))


def _models(config: dict[str, Any], shape_given: bool) -> tuple[str, Transformer, Transformer]:
    """Encoder or, where the encoding needs it, decoder; the model and the same without an encoding.

    Raises ValueError where it is possible in neither.
    """
    asked = config["model"]["_target_"].rpartition(".")[2]
    names = [name for name, shape in _SHAPES.items() if not shape_given or shape.__name__ == asked]
    if not names:
        raise ConfigError(
            f"model._target_={config['model']['_target_']}: a scorecard is of an encoder or a decoder"
        )
    reasons = []
    for name in names:
        try:
            model, baseline = (_model(config, name, p) for p in (_position(config), NoPosition))
            return name, model, baseline
        except ValueError as error:
            reasons.append(str(error))
    # What the encoder refused says more, unless it only asked for a decoder.
    raise ValueError(reasons[-1] if "causal" in reasons[0] else reasons[0])


def _model(config: dict[str, Any], shape: str, position: Any) -> Transformer:
    """Raises ValueError where the parts or sizes do not go together."""
    sizes = {key: value for key, value in config["model"].items() if key != "_target_"}
    parts = {name: build(slot, config[slot]) for name, slot in _MODEL_PARTS.items()}
    return _SHAPES[shape](
        8,
        **sizes,
        **parts,
        position=position,
        trained_length=_trained(config, shape),
        seed=config["init_seed"],
    )


def _position(config: dict[str, Any]) -> Any:
    return build("pe", config["pe"])


def _trained(config: dict[str, Any], shape: str) -> int:
    """The number of positions that training sequences have."""
    config = {**config, "model": {**config["model"], "_target_": _class(shape)}}
    layout = build_layout(config, build_task(config))
    return max(max(layout.spans(n, training=True)) for n in config["data"]["lengths"])


def _class(shape: str) -> str:
    return f"{_SHAPES[shape].__module__}.{_SHAPES[shape].__name__}"


def _count(model: Transformer) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _sizes(cells: Sequence[Cell]) -> dict[str, Any]:
    """Those that all cells share."""
    first = cells[0].config
    trained = [max(cell.config["data"]["lengths"]) for cell in cells]
    shared: Mapping[str, Any] = {key: first["model"][key] for key in ("width", "heads", "layers")}
    return {
        key: value for key, value in shared.items() if all(c.config["model"][key] == value for c in cells)
    } | ({"trained_length": trained[0]} if len(set(trained)) == 1 else {})


def _csv(cards: Sequence[Mapping[str, Any]]) -> str:
    """One row an encoding; a cell without a figure has its reason in the last columns."""
    facts = ("symmetries", "prefix_stable", "max_length", "distinct_until", "paper")
    head = ["encoding", "model", "class", *MEASURES, "symmetries"]
    head += [f"declared_{name}" for name in facts]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*head, "mismatches", "notes", "not_applicable", "error"])
    for card in cards:
        kept = [name for name, holds in card["symmetries"].items() if holds]
        declared = {**card["declared"], "symmetries": " ".join(card["declared"].get("symmetries", []))}
        writer.writerow(
            [
                *(card[name] for name in ("encoding", "model", "class")),
                *(card["figures"].get(name) for name in MEASURES),
                " ".join(kept),
                *(declared.get(name) for name in facts),
                *("; ".join(card[name]) for name in ("mismatches", "notes")),
                "; ".join(f"{name}: {reason}" for name, reason in card["reasons"].items()),
                card["error"],
            ]
        )
    return text.getvalue()
