"""Testing a finished run again: other lengths, other options of its encoding; never a step of training."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import OverrideParseException
from omegaconf import OmegaConf

from lengthwise.build import build_parts
from lengthwise.config import check, hint
from lengthwise.console import say
from lengthwise.errors import ConfigError, RunError
from lengthwise.evaluation.length import evaluation_id
from lengthwise.measure import headline, measure, note
from lengthwise.pipeline import prepare, start_of
from lengthwise.runs import RunFolder, find_run, record_start
from lengthwise.runs.identity import INTRODUCED, canonical
from lengthwise.runs.tested import TRAINED

_ALLOWED = ("evaluation", "pe")
_LATER = {"nodes": 1, "strategy": "auto"}


class Tested(NamedTuple):
    """What was tested: the run, the id of the options it was tested with, and the first of the checkpoints."""

    folder: RunFolder
    evaluation_id: str
    checkpoint: str


def evaluate(overrides: Sequence[str]) -> Tested:
    """Test the run named by ``run=`` as `overrides` say.

    What was tested before with the same options is not tested again. Options of the encoding (``pe.beyond=clamp``)
    are kept apart under an id of their own.

    Raises ConfigError for an override that is not one of ``run``, ``outputs``, ``evaluation.*``, ``pe.*``; RunError
    for a run that does not exist, is not trained, or whose checkpoint is missing or damaged.
    """
    given = _parse(overrides)
    if "run" not in given:
        raise ConfigError(
            "evaluate needs run=RUN: a run folder, its name, or the first characters of its hash"
        )
    folder = find_run(given.pop("outputs", "outputs"), str(given.pop("run")))
    trained = folder.read_config()
    config = _apply(trained, given)
    encoding, before = canonical(config["pe"]), canonical(trained["pe"])
    changed = {key: value for key, value in encoding.items() if value != before.get(key)}
    name = evaluation_id({"pe": changed}) if changed else TRAINED
    prepare(config)
    task, layout, model = build_parts(config)
    with folder.claim():
        status = folder.status()
        if not folder.last.is_file():
            raise RunError(
                f"run {folder.name} has no checkpoint to test: it is {status.state} at step {status.steps}"
            )
        rows = measure(folder, config, task, layout, model, evaluation_id=name)
        if rows and name == TRAINED:
            status.results |= headline(folder, trained, model)
        if rows:
            record_start(folder.provenance_file, start_of(config, ["evaluate.py", *overrides]))
            note(status, rows, name)
            folder.write_status(status)
        say(f"run {folder.name}: {len({row['length'] for row in rows})} lengths added to {folder.length_csv}")
    return Tested(folder, name, config["evaluation"]["checkpoints"][0])


def _parse(overrides: Sequence[str]) -> dict[str, Any]:
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise ConfigError(f"{error.override}: overrides are written key=value") from error
    return {override.key_or_group: _value(override) for override in parsed}


def _value(override: Override) -> Any:
    if override.is_sweep_override():
        raise ConfigError(
            f"{override.input_line}: evaluate takes one value a key; lengths are a list, [50,100]"
        )
    return override.value()


def _apply(trained: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    # Runs that were trained before a run could have several nodes do not say how many.
    config = OmegaConf.create({**deepcopy(trained), "trainer": {**_LATER, **trained["trainer"]}})
    for key, value in given.items():
        slot, _, option = key.partition(".")
        if slot not in _ALLOWED or not option:
            raise ConfigError(
                f"{key}={value}: a finished run can be tested with other evaluation.* and pe.* options only"
                f"{hint(key, [f'evaluation.{name}' for name in trained['evaluation']])}"
            )
        if slot == "pe" and option not in trained["pe"] and key not in INTRODUCED:  # some came after the run
            options = [f"pe.{name}" for name in trained["pe"] if not name.startswith("_")]
            raise ConfigError(
                f"{key}={value}: this run's encoding takes {', '.join(options) or 'no options'}.{hint(key, options)}"
            )
        OmegaConf.update(config, key, value)
    plain: Any = OmegaConf.to_container(config)
    return check(plain)
