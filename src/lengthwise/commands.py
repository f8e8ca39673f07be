"""What each command does, once its arguments are at hand.

Hydra composes and nothing runs inside it: every cell of a multirun is composed and checked before the first starts.
What needs torch is imported where a run starts in this process; a sweep never imports it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from lengthwise.composing import compose
from lengthwise.config import CONFIG_NAME, explain, parse_values, register_schema
from lengthwise.errors import ConfigError
from lengthwise.paths import conf_dir
from lengthwise.sweeping import composer_of, hydra_words, launcher_of, may_be_many, parse, search_of, sweep_of
from lengthwise.sweeps.record import runs_of_study
from lengthwise.sweeps.signals import ending_signals
from lengthwise.sweeps.sweep import run as run_sweeps
from lengthwise.sweeps.warm import WarmStart
from lengthwise.tracking import options_of, preload

DEMO_STUDIES = (
    "length_generalization", "order_free_control", "equivariance", "norm_placement", "head_count",
)  # fmt: skip

_DEMO_END = """
The page:                  {page}
The runs in W&B's viewer:  {wandb} leet {outputs}/wandb

Three things to try next:
  {train} pe=learned norm=pre
  {train} -m pe=sinusoidal,learned norm=pre,post model.heads=1,4
  {evaluate} run={run} evaluation.lengths=[200,400]
"""


def train(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.cfg or options.info or options.hydra_help or options.shell_completion:
        return _show(arguments, options)
    if may_be_many(options):
        with _warming_up() as warm_start:
            if (code := _many(options, warm_start)) is not None:
                return code
    return _single(composer_of(options)(hydra_words(options.overrides)[1]), arguments)


@contextlib.contextmanager
def _warming_up() -> Iterator[WarmStart]:
    """The warm server imports while what is inside composes; nothing of it is left after that, whatever ends it."""
    with ending_signals(), contextlib.closing(WarmStart()) as warm_start:
        warm_start.server()
        yield warm_start


def _many(options: Any, warm_start: WarmStart) -> int | None:
    """A search, a grid or a study; None for a study without grids."""
    if options.multirun and (search := search_of(options)) is not None:
        _import_wandb(search, search.first_probe().config)
        code = search.run(launcher_of(search, options, warm_start))
        _show_in_wandb(search, search.first_probe().config)
        return code
    if (sweep := sweep_of(options)) is None:
        return None
    from lengthwise.report.one_run import one_line

    _import_wandb(sweep, sweep.entries[0].cell.config)
    code = run_sweeps([sweep], launcher_of(sweep, options, warm_start), one_line)
    _show_in_wandb(sweep, sweep.entries[0].cell.config, getattr(options, "study", None))
    return code


def _import_wandb(sweep: Any, config: dict[str, Any]) -> None:
    """For the report at the end, beside the warm server's own imports."""
    if config["wandb"]["mode"] != "disabled" and not sweep.options["dry_run"]:
        preload()


def _show_in_wandb(sweep: Any, config: dict[str, Any], study: dict[str, Any] | None = None) -> None:
    """As the first of its runs, with this configuration, is."""
    from lengthwise.report.wandb_sweep import show_sweep

    if not sweep.options["dry_run"]:
        show_sweep(sweep.outputs, sweep.name, options_of(config), study)


def _single(config: dict[str, Any], arguments: list[str]) -> int:
    from lengthwise.pipeline import train as train_run
    from lengthwise.report.one_run import print_run
    from lengthwise.training.place import place_of

    folder = train_run(config, ["train.py", *arguments])
    if place_of(config["trainer"]).leads:  # every rank may have been started with this command
        print_run(folder, checkpoint=config["evaluation"]["checkpoints"][0])
    return 0


def _show(arguments: list[str], options: Any) -> int:
    """``--cfg job``, ``--info`` and the like: Hydra prints, nothing runs.  Raises ConfigError where it refuses."""
    register_schema()
    # Several values of a key are an axis: its first is enough to show what all cells share.
    axes = composer_of(options).axes(options.overrides)
    first = {text: values[0] for text, values in axes.items() if values}
    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that errors reach us as exceptions
    flags, left = [], list(options.overrides)
    for text in arguments:
        if text in left:
            left.remove(text)
        elif text not in ("-m", "--multirun"):
            flags.append(text)
    words = [first.get(text, text) for text in options.overrides]
    own, sys.argv = sys.argv, [sys.argv[0], *words, *flags]  # Hydra wants them together
    try:
        hydra.main(config_path=str(conf_dir()), config_name=CONFIG_NAME, version_base="1.3")(
            lambda config: None
        )()
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explain(error)) from error
    finally:
        sys.argv = own
    return 0


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
        print(f"tables: {export_results(outputs, given['export'], runs=runs, study=study)}")
    return 0


def scorecard(arguments: list[str]) -> int:
    from lengthwise.scorecard import scorecard as score_encodings

    return score_encodings(arguments)


def certify(arguments: list[str]) -> int:
    from lengthwise.certify import certify as certify_model

    return certify_model(arguments)


def runs(arguments: list[str]) -> int:
    from lengthwise.report.browse import browse

    return browse(arguments)


def tasks(arguments: list[str]) -> int:
    from lengthwise.task_cards import tasks as list_tasks

    return list_tasks(arguments)


def show(arguments: list[str]) -> int:
    from lengthwise.show import show as show_sequences

    return show_sequences(arguments)


def sweeps(arguments: list[str]) -> int:
    from lengthwise.sweeps.listing import list_sweeps

    as_json = "--json" in arguments
    words = [word for word in arguments if word != "--json"]
    named = [word for word in words if "=" not in word]
    if len(named) > 1:
        raise ConfigError(f"{' '.join(named)}: name one sweep, or none to see all")
    given = parse_values([word for word in words if word not in named], {"outputs": "outputs"})
    return list_sweeps(given["outputs"], named[0] if named else None, as_json=as_json)


def workspace(arguments: list[str]) -> int:
    from lengthwise.tracking.workspace import NAME, push_workspace

    given = parse_values(arguments, {"project": "lengthwise", "entity": None, "name": NAME})
    print(f"workspace: {push_workspace(given['project'], given['entity'], name=given['name'])}")
    return 0


def check(arguments: list[str]) -> int:
    from lengthwise.checks import check_component

    report = check_component(arguments)
    print(report.text())
    return int(report.failed)


def demo(arguments: list[str]) -> int:
    from lengthwise.report import build_report, print_summary
    from lengthwise.report.one_run import one_line

    sweeps, studies = [], []
    with _warming_up() as warm_start:
        for name in DEMO_STUDIES:
            options = parse([f"study={name}", *arguments])
            sweep = sweep_of(options)
            assert sweep is not None
            sweeps.append(sweep)
            studies.append((options.study, [entry.cell.name for entry in sweep.entries]))
        _import_wandb(sweeps[0], sweeps[0].entries[0].cell.config)
        code = run_sweeps(sweeps, launcher_of(sweeps[0], options, warm_start), one_line)
        for sweep, (study, _) in zip(sweeps, studies, strict=True):
            _show_in_wandb(sweep, sweep.entries[0].cell.config, study)
        outputs = str(sweeps[0].outputs)
        print()
        print_summary(outputs, studies=studies)
        page = build_report(outputs, studies=studies, title="Lengthwise demo")
        print(_demo_end(page, outputs, sweeps[0].entries[-1].cell.name))
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
