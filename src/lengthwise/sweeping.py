"""From a command line to its sweep: which cells, carried out by which launcher. Nothing is written, nothing starts."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hydra._internal.utils import get_args_parser
from hydra.utils import get_class

from lengthwise.composing import Composer
from lengthwise.config import options as names
from lengthwise.config import refuse_lists
from lengthwise.errors import ConfigError
from lengthwise.sweeps.cells import Cell
from lengthwise.sweeps.grid import expand, keys_of
from lengthwise.sweeps.launcher import Launcher
from lengthwise.sweeps.preflight import refuse_illegal
from lengthwise.sweeps.sweep import Sweep
from lengthwise.sweeps.warm import WarmStart

_HYDRA = re.compile(r"[+~]*hydra([./](launcher|sweeper)\b|\.searchpath\b)")


def parse(arguments: list[str]) -> Any:
    """By Hydra's own parser, so that flags and overrides are told apart as Hydra will; in any order.

    Raises ConfigError for what cannot be parsed, and for keys of Hydra's own that would be ignored.
    """
    options = get_args_parser().parse_intermixed_args(arguments, namespace=Namespace(arguments=arguments))
    refuse_lists(options.overrides)
    for text in hydra_words(options.overrides)[0]:
        if not _HYDRA.match(text):
            raise ConfigError(
                f"{text}: not used here. Runs go to outputs=FOLDER; of Hydra's own keys there are hydra/launcher, "
                "hydra.launcher.…, hydra/sweeper, hydra.sweeper.… and hydra.searchpath"
            )
    return options


def may_be_many(options: Any) -> bool:
    """Whether this is a multirun or a study, which has grids as a rule."""
    return options.multirun or any(text.startswith("study=") for text in options.overrides)


def sweep_of(options: Any) -> Sweep | None:
    """The sweep of a multirun or of a study; None for a study without grids. `options.study` becomes the study's.

    Raises ConfigError for a cell that is wrong.
    """
    return _grid(options) if options.multirun else _study(options)


def _grid(options: Any) -> Sweep:
    """Every combination of the axes on the command line."""
    composer, (_, words) = composer_of(options), hydra_words(options.overrides)
    given, rest = _split(composer.axes(words), set())
    sweep = _sweep(
        "-".join(key.rpartition(".")[2] for key in given) or "sweep",
        composer,
        [(cell, rest) for cell in expand([{}], given)],
        command=options.arguments,
    )
    if (study := sweep.entries[0].cell.config["study"]).get("grids"):
        raise ConfigError(
            f"study={study.get('name')} brings its own axes: run it without -m, or add study.grids=null"
        )
    return sweep


def _study(options: Any) -> Sweep | None:
    """Every cell of the study's grids; what the command line sets, one value or several, replaces an axis.

    None where the study has no grids. Raises ConfigError for a cell that is wrong, before the first one starts.
    """
    composer, (_, words) = composer_of(options), hydra_words(options.overrides)
    axes = composer.axes(words)
    if several := next((t for t, values in axes.items() if t.startswith("study=") and values), None):
        raise ConfigError(f"{several}: one study at a time")
    # Several values of a key are an axis of the study; its first is enough to compose what all cells share.
    study = options.study = composer.study([values[0] if values else text for text, values in axes.items()])
    if not study.get("grids"):
        for text, values in axes.items():
            if values is not None:
                raise ConfigError(f"{text}: several values are a sweep, with -m; this study has no grids")
        return None
    given, rest = _split(axes, keys_of(study["grids"]))
    sweep = _sweep(
        study["name"],
        composer,
        [(cell, [*rest, "study.grids=null"]) for cell in expand(study["grids"], given)],
        study=study["name"],
        command=options.arguments,
    )
    _refuse_unanswerable(options, study, [entry.cell.config for entry in sweep.entries])
    print(f"study {study['name']}: {study.get('question', '')}", flush=True)
    return sweep


def _refuse_unanswerable(options: Any, study: Mapping[str, Any], configs: Sequence[dict[str, Any]]) -> None:
    """Raises ConfigError for a contrast that the study cannot answer, whatever part of it this command runs."""
    if not study.get("contrasts"):
        return
    from lengthwise.report.answerable import unanswerable

    wrong = unanswerable(study, configs)
    if not wrong:
        return
    composer, (_, words) = composer_of(options), hydra_words(options.overrides)
    own = [text for text in words if _key(text).partition(".")[0] == "study"]
    whole = [composer([*own, *axes, "study.grids=null"]) for axes in expand(study["grids"], {})]
    wrong = {number: why for number, why in unanswerable(study, whole).items() if number in wrong}
    if wrong:
        raise ConfigError("\n".join(wrong.values()))


def _split(axes: Mapping[str, list[str] | None], keys: set[str]) -> tuple[dict[str, list[str]], list[str]]:
    """What the command line gives for axes (those with values, and those of `keys`), and the overrides that all share.

    Raises ConfigError for a key that is an axis and is given once more, or a value that is given twice.
    """
    named = Counter(_key(text) for text in axes)
    given: dict[str, list[str]] = {}
    for text, values in axes.items():
        if values is not None or _key(text) in keys:
            if named[_key(text)] > 1:
                raise ConfigError(
                    f"{text}: {_key(text)} is given more than once; name all its values together"
                )
            given[_key(text)] = [text] if values is None else values
            for value, count in Counter(given[_key(text)]).items():
                if count > 1:
                    raise ConfigError(f"{text}: {value.partition('=')[2]} is listed more than once")
    return given, [text for text in axes if _key(text) not in given]


def _key(text: str) -> str:
    return text.partition("=")[0].lstrip("+")


def _sweep(
    label: str, composer: Composer, words: Sequence[tuple[list[str], list[str]]], **about: Any
) -> Sweep:
    """A sweep of cells (axes, what all share), each composed and checked.

    Raises ConfigError naming those that are wrong, unless they are to be left out and others remain.
    """
    cells: list[Cell] = []
    illegal: list[dict[str, Any]] = []
    for axes, fixed in words:
        try:
            cells.append(Cell([*fixed, *axes], composer([*fixed, *axes]), axes))
        except ConfigError as error:
            illegal.append({"overrides": axes, "reason": str(error)})
    skip = bool(cells) and cells[0].config["sweep"]["on_illegal"] == "skip"
    refuse_illegal([(" ".join(cell["overrides"]), cell["reason"]) for cell in illegal], len(words), skip=skip)
    for key in ("sweep", "outputs"):
        if len({json.dumps(cell.config[key], sort_keys=True) for cell in cells}) > 1:
            raise ConfigError(f"{key}: must be the same for all cells of a sweep")
    return Sweep(label, cells, illegal=illegal, **about)


def search_of(options: Any) -> Any:
    """The search that ``hydra/sweeper`` names, over the space that the command line spans; None where it names none.

    Raises ConfigError where it is none of ours.
    """
    ours, words = hydra_words(options.overrides)
    if not any(text.lstrip("+").startswith("hydra/sweeper=") for text in ours):
        return None
    composer = composer_of(options)
    node = composer.hydra_node(ours, "sweeper")
    target = node.pop("_target_")
    if not target.startswith("lengthwise."):
        raise ConfigError(f"hydra/sweeper: {target} is none of ours; leave it out, or use optuna")
    try:
        return get_class(target)(words, composer, command=options.arguments, **node)
    except TypeError as error:
        raise ConfigError(f"hydra.sweeper: {error}") from error


def launcher_of(sweep: Any, options: Any, warm_start: WarmStart) -> Launcher:
    """The one that ``hydra/launcher`` names.

    Raises ConfigError where it is none of ours.
    """
    ours, _ = hydra_words(options.overrides)
    node = composer_of(options).hydra_node(ours, "launcher")
    target = node.pop("_target_")
    if not target.startswith("lengthwise."):
        raise ConfigError(
            f"hydra/launcher: {target} is none of ours; use one of {', '.join(names('hydra/launcher'))}"
        )
    try:
        return get_class(target)(sweep.options, sweep.outputs / "sweeps" / sweep.name, warm_start, **node)
    except TypeError as error:
        raise ConfigError(f"hydra.launcher: {error}") from error


def composer_of(options: Any) -> Composer:
    """For the folder and the search path that the flags name."""
    search = [options.config_dir] if options.config_dir else []
    return Composer(options.config_path, options.config_name, search)


def hydra_words(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is for Hydra's own node, and the rest."""
    ours = [text for text in overrides if re.match(r"[+~]*hydra[./]", text)]
    return ours, [text for text in overrides if text not in ours]
