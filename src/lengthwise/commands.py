"""What each command does, once its arguments are at hand.

Hydra composes and nothing runs inside it: every cell of a multirun is composed and checked before the first starts.
What needs torch is imported where a run starts in this process; a sweep never imports it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from lengthwise.config import (
    CONFIG_NAME,
    check,
    compose,
    explain,
    parse_values,
    refuse_lists,
    register_schema,
    sweep_values,
)
from lengthwise.errors import ConfigError
from lengthwise.paths import conf_dir
from lengthwise.sweeps.grid import expand
from lengthwise.sweeps.job import ONE_OF_MANY
from lengthwise.sweeps.sweep import Cell, Sweep, runs_of_study

DEMO_STUDIES = ("length_generalization", "equivariance")

_DEMO_END = """
The page:                  {page}
The runs in W&B's viewer:  {wandb} leet {outputs}/wandb

Three things to try next:
  {train} pe=learned norm=pre
  {train} -m pe=sinusoidal,learned norm=pre,post model.heads=1,4 trainer.max_steps=50
  {evaluate} run={run} evaluation.lengths=[200,400]
"""


def train(arguments: list[str]) -> int:
    cells, flags, overrides, is_sweep = _composed(arguments)
    study: dict[str, Any] | None = next(
        (c.config["study"] for c in cells if c.config["study"].get("grids")), None
    )
    if study is not None:
        if is_sweep:
            raise ConfigError(
                f"study={study.get('name')} brings its own axes: run it without -m, or add study.grids=null"
            )
        return study_sweep(cells[0].config, overrides, flags).run()
    if is_sweep:
        return Sweep(_sweep_name(), cells, flags=flags).run()
    for text, values in sweep_values(overrides).items():
        if len(values) > 1:
            raise ConfigError(f"{text}: several values are a sweep, with -m; this study has no grids")
    return _single(cells[0].config, arguments)


def _single(config: dict[str, Any], arguments: list[str]) -> int:
    from lengthwise.pipeline import train as train_run
    from lengthwise.report.one_run import print_line, print_run

    folder = train_run(config, ["train.py", *arguments])
    checkpoint = config["evaluation"]["checkpoints"][0]
    if ONE_OF_MANY in os.environ:
        print_line(folder, checkpoint=checkpoint)
    else:
        print_run(folder, checkpoint=checkpoint)
    return 0


def study_sweep(config: dict[str, Any], overrides: list[str], flags: list[str]) -> Sweep:
    """Every cell of the study's grids; what the command line sets, one value or several, replaces an axis.

    Raises ConfigError for a cell that is wrong, before the first one starts.
    """
    given = {text.partition("=")[0].lstrip("+"): values for text, values in sweep_values(overrides).items()}
    study = config["study"]
    rest = [text for text, values in sweep_values(overrides).items() if values == [text]]
    search = [f"hydra.searchpath=[file://{os.path.abspath(path)}]" for path in _config_dirs(flags)]
    cells = []
    for axes in expand(study["grids"], given):
        words = [*rest, *(word for word in axes if word not in rest), "study.grids=null"]
        cells.append(Cell(words, compose([*words, *search])))
    print(f"study {study['name']}: {study.get('question', '')}\n{len(cells)} runs", flush=True)
    return Sweep(f"{study['name']}-{_sweep_name()}", cells, study=study["name"], flags=flags)


def _sweep_name() -> str:
    return datetime.now().strftime("%Y%m%d-%H%M%S-%f")


def _config_dirs(flags: list[str]) -> list[str]:
    return [flags[i + 1] for i, flag in enumerate(flags) if flag == "--config-dir"]


def _composed(arguments: list[str]) -> tuple[list[Cell], list[str], list[str], bool]:
    """Let Hydra compose: one cell, or all those of a multirun; nothing runs inside Hydra itself.

    Returns the cells, the flags to pass on to jobs, the overrides as given, and whether it is a multirun.
    Hydra's errors come out as ConfigError with one clear message.
    """
    # Hydra's own parser, so that flags and overrides are told apart as Hydra will.
    options = get_args_parser().parse_args(arguments)
    refuse_lists(options.overrides)
    register_schema()
    if not options.multirun and any(text.startswith("study=") for text in options.overrides):
        # Several values of a key are an axis of the study; its first is enough to compose what all cells share.
        first = {text: values[0] for text, values in sweep_values(options.overrides).items()}
        arguments = [first.get(text, text) for text in arguments]
    cells: list[Cell] = []
    errors: list[ConfigError] = []

    def collect(config: DictConfig) -> None:
        try:
            cells.append(Cell(list(HydraConfig.get().overrides.task), check(config)))
        except ConfigError as error:
            errors.append(error)

    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that errors reach us as exceptions
    with tempfile.TemporaryDirectory(prefix="lengthwise-") as scratch:
        # Hydra writes down a multirun before its cells are composed, hence checked; our record is outputs/sweeps.
        own = sys.argv
        scratch_word = [f"hydra.sweep.dir={scratch}"] if options.multirun else []
        place = arguments.index(options.overrides[0]) if options.overrides else len(arguments)
        sys.argv = [own[0], *arguments[:place], *scratch_word, *arguments[place:]]
        try:
            hydra.main(config_path=str(conf_dir()), config_name=CONFIG_NAME, version_base="1.3")(collect)()
        except (HydraException, OmegaConfBaseException) as error:
            raise ConfigError(explain(error)) from error
        finally:
            sys.argv = own
    if errors:
        others = f" ({len(errors) - 1} more cells are wrong too)" if len(errors) > 1 else ""
        raise ConfigError(f"{errors[0]}{others}")
    if not cells:  # --cfg, --info and the like have printed what was asked for
        raise SystemExit(0)
    values = {"--config-dir": options.config_dir, "--config-path": options.config_path}
    flags = [part for flag, value in values.items() if value for part in (flag, value)]
    return cells, flags, list(options.overrides), bool(options.multirun)


def evaluate(arguments: list[str]) -> int:
    from lengthwise.evaluate import evaluate as evaluate_run
    from lengthwise.report.one_run import print_run

    tested = evaluate_run(arguments)
    print_run(tested.folder, evaluation_id=tested.evaluation_id, checkpoint=tested.checkpoint)
    return 0


def report(arguments: list[str]) -> int:
    from lengthwise.report import build_report, export_results, print_summary

    given = parse_values(
        arguments, dict.fromkeys(("path", "title", "study", "export"), None) | {"outputs": "outputs"}
    )
    outputs, name = given["outputs"], given["study"]
    study = compose([f"study={name}"])["study"] if name else None
    runs = runs_of_study(Path(outputs), name) if name else None
    print_summary(outputs, runs=runs, study=study)
    path = build_report(outputs, runs=runs, study=study, title=given["title"], path=given["path"])
    print(f"page: {path}")
    if given["export"]:
        print(f"tables: {export_results(outputs, given['export'], runs=runs)}")
    return 0


def demo(arguments: list[str]) -> int:
    from lengthwise.report import build_report, print_summary

    refuse_lists(arguments)
    code, runs, outputs, studies = 0, [], "", []
    for name in DEMO_STUDIES:
        overrides = [f"study={name}", *arguments]
        config = compose(overrides)
        sweep = study_sweep(config, overrides, [])
        code = sweep.run() or code
        outputs = config["outputs"]
        runs += [outcome.run for outcome in sweep.outcomes if outcome.run not in runs]
        studies.append(config["study"])
    study = {"question": " ".join(study["question"] for study in studies)}
    print()
    print_summary(outputs, runs=runs, study=study)
    page = build_report(outputs, runs=runs, study=study, title="Lengthwise demo")
    print(_demo_end(page, outputs, runs[-1]))
    return code


def _demo_end(page: Path, outputs: str, run: str) -> str:
    """How to go on, in commands that can be copied from where the user stands."""
    wandb = Path(sys.executable).with_name("wandb")
    here = Path.cwd()
    train, evaluate = (
        f"python {name}.py" if Path(f"{name}.py").is_file() else f"lengthwise {name}"
        for name in ("train", "evaluate")
    )
    return _DEMO_END.format(
        page=page.resolve(),
        wandb=wandb.relative_to(here) if wandb.is_relative_to(here) else wandb,
        outputs=outputs,
        train=train,
        evaluate=evaluate,
        run=run if outputs == "outputs" else f"{outputs}/runs/{run}",
    )
