"""``lengthwise certify``: the symmetry certificate of a model, and which of the things that "longer" changes it minds.

Of an untrained model composed from the command line, of a finished run, or of anyone's torch module.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from lengthwise.build import build_parts
from lengthwise.config import parse_values
from lengthwise.console import say
from lengthwise.errors import ConfigError, RunError
from lengthwise.evaluate import TESTABLE, tested_so
from lengthwise.evaluation import symmetry
from lengthwise.evaluation.axes import AXES, evaluate_axes, refusal
from lengthwise.evaluation.claims import broken, claims, findings, module_claims, undeclared
from lengthwise.evaluation.modules import OnFeatures, feature_sample
from lengthwise.evaluation.sample import Sample, task_sample
from lengthwise.nn import Transformer
from lengthwise.pipeline import prepare, start_of
from lengthwise.report.certificate import print_axes, print_certificate
from lengthwise.runs import RunFolder, Table, find_run, parse_lengths, read_table, record_start
from lengthwise.runs.atomic import check_target, write_atomic
from lengthwise.runs.tables import AXES_COLUMNS, AXES_KEY
from lengthwise.runs.tested import TRAINED, symmetry_length
from lengthwise.sweeping import composer_of, hydra_words, parse
from lengthwise.tasks import Layout, Task
from lengthwise.training.callbacks.checkpoints import load_weights
from lengthwise.training.hardware import device_of

Row = dict[str, Any]

_KEYS = {
    "run": None, "checkpoint": None, "outputs": "outputs", "module": None, "width": None, "length": None,
    "sequences": None, "draws": None, "layers": "false", "strict": "false", "csv": None, "axes": None,
    "lengths": None, "count": None,
}  # fmt: skip
_MODULE_LENGTH, _SEQUENCES, _DRAWS = 10, 8, 8


@dataclass
class Subject:
    """What is certified. folder, config, task, layout: of a run; the last three of a composed model too."""

    title: str
    model: Any
    sample: Sample
    declared: dict[str, bool | None]
    draws: int
    config: dict[str, Any] = field(default_factory=dict)
    task: Task | None = None
    layout: Layout | None = None
    folder: RunFolder | None = None
    checkpoint: str = "initial"
    step: int = 0
    evaluation_id: str = TRAINED


def certify(arguments: Sequence[str]) -> int:
    """Measure and print; exit code 1 where something that is declared was not seen to hold.

    Raises ConfigError for arguments that do not fit, before anything is measured; RunError for a run or checkpoint that
    is missing or damaged.
    """
    as_json = "--json" in arguments
    given, rest = _split([text for text in arguments if text != "--json"])
    layers, strict = _boolean(given, "layers"), _boolean(given, "strict")
    subject = _subject(given, rest)
    axes, lengths, count, left_out = _axes(given, subject)
    _check_files(given, subject)
    with _without_warnings(symmetry.log):  # what is not defined has its line in the table
        rows = symmetry.certify(
            subject.model,
            subject.sample,
            draws=subject.draws,
            actions=(*symmetry.ACTIONS, *symmetry.CONTRACTS),
            per_layer=layers,
        )
    found = findings(rows, subject.declared)
    if given["csv"]:
        _write_csv(Path(given["csv"]), rows, found)
    failed = [*broken(found), *(undeclared(found) if strict else [])]
    if not as_json:
        print_certificate(subject.title, found, rows, strict=strict)
    along = _measure_axes(subject, axes, lengths, count, arguments) if axes else []
    if as_json:
        content: Row = {"subject": subject.title, "holds": not failed, "findings": found, "rows": rows}
        say(json.dumps(content | ({"axes": along, "left_out": left_out} if given["axes"] else {}), indent=1))
    elif axes:
        print_axes(along, count)
        for reason in left_out:
            say(f"left out: {reason}")
        assert subject.folder is not None
        say(f"record: {subject.folder.axes_csv}")
    return 1 if failed else 0


@contextlib.contextmanager
def _without_warnings(log: logging.Logger) -> Iterator[None]:
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _split(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Our own keys, and what is left: for Hydra, or options that a run is tested with."""
    own = [text for text in arguments if text.partition("=")[0] in _KEYS]
    rest = [text for text in arguments if text not in own]
    given = parse_values(own, _KEYS)
    if given["run"] and given["module"]:
        raise ConfigError(f"run={given['run']} module={given['module']}: certify one of them")
    if given["run"] or given["module"]:
        options = TESTABLE if given["run"] else ()
        odd = [text for text in rest if text.partition("=")[0].partition(".")[0] not in options]
        parse_values(odd, _KEYS)  # names the keys there are
    if given["axes"] and not given["run"]:
        raise ConfigError(
            f"axes={given['axes']} needs run=RUN: which length a model minds is a question to a trained one"
        )
    for key, needs in (
        ("checkpoint", "run"), ("width", "module"), ("lengths", "axes"), ("count", "axes")
    ):  # fmt: skip
        if given[key] and not given[needs]:
            raise ConfigError(f"{key}={given[key]} goes with {needs}=, which is not given")
    return given, rest


def _check_files(given: dict[str, Any], subject: Subject) -> None:
    """Raises ConfigError or RunError where what is to be written could not be."""
    if given["csv"]:
        check_target(Path(given["csv"]), f"csv={given['csv']}")
    if given["axes"]:
        assert subject.folder is not None
        with subject.folder.claim():
            read_table(subject.folder.axes_csv)
            check_target(subject.folder.axes_csv, str(subject.folder.axes_csv))


def _subject(given: dict[str, Any], rest: list[str]) -> Subject:
    if given["module"]:
        return _module(given)
    if given["run"]:
        return _run(given, rest)
    options = parse(rest)
    if options.multirun:
        raise ConfigError("certify looks at one model at a time, without -m")
    config = composer_of(options)(hydra_words(options.overrides)[1])
    title = f"untrained {' '.join(options.overrides) or 'default model'}, seed {config['init_seed']}"
    return _built(title, config, given)


def _run(given: dict[str, Any], rest: list[str]) -> Subject:
    folder = find_run(given["outputs"], given["run"])
    checkpoint = given["checkpoint"] or "last"
    trained = folder.read_config()
    folder.refuse_changed_source(trained)
    config, evaluation_id = tested_so(trained, rest)
    subject = _built(" ".join([f"run {folder.name}, checkpoint {checkpoint}", *rest]), config, given)
    subject.folder, subject.checkpoint, subject.evaluation_id = folder, checkpoint, evaluation_id
    if checkpoint != "initial":
        path = folder.checkpoints / f"{checkpoint}.ckpt"
        if not path.is_file():
            there = ["initial", *sorted(p.stem for p in folder.checkpoints.glob("*.ckpt"))]
            raise RunError(f"checkpoint={checkpoint}: run {folder.name} has {', '.join(there)}")
        subject.step = load_weights(subject.model, path)
    return subject


def _built(title: str, config: dict[str, Any], given: dict[str, Any]) -> Subject:
    prepare(config)
    task, layout, model = build_parts(config)
    length = _count(given, "length", symmetry_length(config), least=2)
    try:
        task.check_length(length)
        layout.check_numbers(length)
    except ValueError as error:
        raise ConfigError(f"length={length}: {error}") from error
    sequences = _count(given, "sequences", config["evaluation"]["symmetry_sequences"])
    draws = _count(given, "draws", config["evaluation"]["symmetry_draws"])
    sample = task_sample(task, layout, length, sequences)
    return Subject(title, model, sample, claims(model, layout), draws, config, task, layout)


def _module(given: dict[str, Any]) -> Subject:
    name, width = given["module"], _count(given, "width", None)
    path, colon, attribute = name.partition(":")
    if not (path and colon and attribute):
        raise ConfigError(f"module={name}: written package.module:factory")
    try:
        factory = getattr(importlib.import_module(path), attribute)
    except Exception as error:  # whatever the user's file does when it is imported
        raise ConfigError(f"module={name}: {type(error).__name__}: {error}") from error
    length = _count(given, "length", _MODULE_LENGTH, least=2)
    try:
        module = factory if isinstance(factory, nn.Module) else factory()
        if not isinstance(module, nn.Module) or isinstance(module, Transformer):
            raise ValueError(f"a {type(module).__name__} is no module that maps (B, N, D) vectors")
        wrapped = OnFeatures(module).eval()
        sample = feature_sample(wrapped, width, length, _count(given, "sequences", _SEQUENCES))
    except Exception as error:  # whatever the user's code raises
        raise ConfigError(f"module={name} width={width}: {type(error).__name__}: {error}") from error
    return Subject(f"module {name}", wrapped, sample, module_claims(module), _count(given, "draws", _DRAWS))


def _axes(given: dict[str, Any], subject: Subject) -> tuple[list[str], list[int], int, list[str]]:
    """The axes to measure, up to which lengths, on how many items; why others of ``axes=all`` are left out.

    All refusals come before anything is measured.
    """
    if not given["axes"]:
        return [], [], 0, []
    assert subject.task is not None and subject.layout is not None
    asked = [name.strip() for name in given["axes"].strip("[]").split(",")]
    axes = list(AXES) if asked == ["all"] else list(dict.fromkeys(asked))
    config = subject.config
    lengths = config["evaluation"]["lengths"]
    longest = max(config["data"]["lengths"])
    if given["lengths"]:
        lengths = parse_lengths(given["lengths"].strip("[]"), "lengths")
        try:
            for length in lengths:
                subject.task.check_length(length)
                subject.layout.check_numbers(length)
        except ValueError as error:
            raise ConfigError(f"lengths={given['lengths']}: {error}") from error
    if not any(length > longest for length in lengths):
        raise ConfigError(
            f"axes={given['axes']}: none of the lengths {lengths} is longer than the trained {longest}; give some with "
            "lengths=[…]"
        )
    reached = (longest, *(length for length in lengths if length > longest))
    reasons = {axis: refusal(axis, subject.task, subject.layout, reached) for axis in axes}
    if asked == ["all"]:
        axes = [axis for axis in axes if reasons[axis] is None]
    if not axes or (asked != ["all"] and any(reasons.values())):
        raise ConfigError(f"axes={given['axes']}: {next(filter(None, reasons.values()))}")
    left_out = [reason for reason in reasons.values() if reason is not None]
    return axes, list(lengths), _count(given, "count", config["evaluation"]["count"]), left_out


def _measure_axes(
    subject: Subject, axes: list[str], lengths: list[int], count: int, arguments: Sequence[str]
) -> list[Row]:
    """The rows of ``axes.csv``, which they are added to."""
    assert subject.task is not None and subject.layout is not None and subject.folder is not None
    config = subject.config
    subject.model.to(device_of(config["trainer"]["accelerator"]))
    found = evaluate_axes(
        subject.model,
        subject.task,
        subject.layout,
        train_lengths=config["data"]["lengths"],
        test_lengths=lengths,
        count=count,
        axes=axes,
        max_tokens_per_batch=config["evaluation"]["batch_tokens"],
    )
    head = {
        "checkpoint": subject.checkpoint,
        "step": subject.step,
        "evaluation_id": subject.evaluation_id,
    }
    rows = [{**head, **row} for row in found]
    with subject.folder.claim():
        Table(subject.folder.axes_csv, AXES_COLUMNS).replace(rows, AXES_KEY)
        record_start(subject.folder.provenance_file, start_of(config, ["certify", *arguments]))
    return rows


def _write_csv(path: Path, rows: list[Row], found: list[Row]) -> None:
    """Every measured row, with what is declared of its action and the verdict."""
    verdicts = {line["action"]: line for line in found}
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, [*rows[0], "declared", "measured"], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        line = verdicts[row["action"]]
        writer.writerow({**row, "declared": _word(line["declared"]), "measured": line["measured"]})
    write_atomic(path, buffer.getvalue().encode())


def _word(fact: bool | None) -> str:
    return {True: "true", False: "false", None: ""}[fact]


def _boolean(given: dict[str, Any], key: str) -> bool:
    text = str(given[key]).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{key}={given[key]}: must be true or false")
    return text == "true"


def _count(given: dict[str, Any], key: str, default: int | None, least: int = 1) -> int:
    text = given[key] if given[key] is not None else default
    if text is None:
        raise ConfigError(f"module={given['module']} needs {key}=, the number of values a token has")
    try:
        number = int(text)
    except ValueError:
        raise ConfigError(f"{key}={text}: must be a whole number") from None
    if number < least:
        raise ConfigError(f"{key}={text}: must be at least {least}")
    return number
