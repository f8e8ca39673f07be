"""Testing a finished run again: other lengths, other options of its encoding; never a step of training."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import OverrideParseException
from omegaconf import OmegaConf

from lengthwise.build import build_parts, option_of
from lengthwise.composing import compose
from lengthwise.config import check, hint
from lengthwise.console import say
from lengthwise.drawing import draw_pictures
from lengthwise.errors import ConfigError, RunError
from lengthwise.evaluation.length import evaluation_id
from lengthwise.measure import headline, measure, note, protocols, what_of
from lengthwise.outside import option_files
from lengthwise.pipeline import prepare, start_of
from lengthwise.runs import RunFolder, find_run, record_start
from lengthwise.runs.identity import INTRODUCED, canonical
from lengthwise.runs.tested import TRAINED

TESTABLE = ("evaluation", "pe", "positions")
"""The slots whose options a finished run can be tested with."""


class Tested(NamedTuple):
    """What was tested: the run, the id of the options it was tested with, and the first of the checkpoints."""

    folder: RunFolder
    evaluation_id: str
    checkpoint: str


def evaluate(overrides: Sequence[str]) -> Tested:
    """Test the run named by ``run=`` as `overrides` say.

    What was tested before with the same options is not tested again. Other options of the encoding
    (``pe.beyond=clamp``) and other position numbers (``positions=sequential``) are kept apart under an id of their own.

    Raises ConfigError for an override that is not one of ``run``, ``outputs``, ``evaluation``, ``evaluation.*``,
    ``pe.*``, ``positions``, ``positions.*``; RunError
    for a run that does not exist, is not trained, or whose checkpoint is missing or damaged.
    """
    given = _parse(overrides)
    if "run" not in given:
        raise ConfigError(
            "evaluate needs run=RUN: a run folder, its name, or the first characters of its hash"
        )
    folder = find_run(given.pop("outputs", "outputs"), str(given.pop("run")))
    trained = folder.read_config()
    folder.refuse_changed_source(trained)
    config, name = _tested_so(trained, given)
    prepare(config)
    task, layout, model = build_parts(config)
    with folder.claim():
        status = folder.status()
        if not folder.last.is_file():
            raise RunError(
                f"run {folder.name} has no checkpoint to test: it is {status.state} at step {status.steps}"
            )
        rows = measure(folder, config, task, layout, model, evaluation_id=name)
        known = dict(status.results)
        if rows and name == TRAINED:
            status.results |= headline(folder, trained, layout, model)
        if name == TRAINED:
            status.results |= protocols(folder, config["evaluation"], task)
        if rows:
            record_start(folder.provenance_file, start_of(config, ["evaluate.py", *overrides]))
            note(status, rows, name)
        if rows or status.results != known:
            folder.write_status(status)
        if name == TRAINED:
            draw_pictures(folder, config, task, layout, model, anew=False)
        say(f"run {folder.name}: {what_of(rows)} added to {folder.length_csv}")
    return Tested(folder, name, config["evaluation"]["checkpoints"][0])


def tested_so(trained: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The configuration that tests a run as `overrides` say (``pe.…``, ``positions…``, ``evaluation.…``), and the id
    that keeps its results apart.

    Raises ConfigError for other overrides.
    """
    return _tested_so(trained, _parse(overrides))


def _tested_so(trained: dict[str, Any], given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    config = _apply(trained, given)
    changed = _changed(trained, config)
    return config, evaluation_id(changed) if changed else TRAINED


def _changed(trained: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """The options of the encoding, and of the rule of its numbers, that the test has and training had not."""
    changed = {}
    nodes = {"pe": config["pe"], "positions": config["evaluation"]["positions"] or trained["positions"]}
    for slot, node in nodes.items():
        now, before = canonical(node), canonical(trained[slot])
        if different := {key: value for key, value in now.items() if value != before.get(key)}:
            changed[slot] = different
    return changed


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


def _preset(name: Any) -> dict[str, Any]:
    """What an option of the group ``evaluation`` says that the default does not."""
    files = option_files("evaluation")
    if name not in files:
        raise ConfigError(f"evaluation={name}: no such option; options: {', '.join(files)}")
    content: Any = OmegaConf.to_container(OmegaConf.load(files[name]))
    return {key: value for key, value in content.items() if key != "defaults"}


def _apply(trained: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    config = OmegaConf.create(deepcopy(trained))
    if "positions" in given:  # another rule, before its options
        config.evaluation.positions = compose([f"positions={given.pop('positions')}"])["positions"]
    if "evaluation" in given:  # a preset, before what is said besides
        config.evaluation.update(_preset(given.pop("evaluation")))
    for key, value in given.items():
        slot, _, option = key.partition(".")
        if slot == "positions" and not config.evaluation.positions:
            config.evaluation.positions = config.positions
        if slot not in TESTABLE or not option:
            raise ConfigError(
                f"{key}={value}: a finished run can be tested with other options of evaluation, pe and positions only"
                f"{hint(key, [f'evaluation.{name}' for name in trained['evaluation']])}"
            )
        place = "evaluation.positions" if slot == "positions" else slot
        node = OmegaConf.select(config, place)
        if slot != "evaluation" and option not in node and key not in INTRODUCED:  # some came after the run
            options = [f"{slot}.{name}" for name in node if not name.startswith("_")]
            takes = f"{option_of(node)} takes {', '.join(options) or 'no options'}"
            raise ConfigError(f"{key}={value}: {takes}.{hint(key, options)}")
        OmegaConf.update(config, f"{place}.{option}", value)
    plain: Any = OmegaConf.to_container(config)
    return check(plain)
