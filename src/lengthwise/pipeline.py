"""One run, from a checked configuration to a finished folder.

`train` reads as the life of a run: build the parts (refusing what is impossible before anything is written), claim
the folder, see how far the run already is, train, measure, record. The status is written last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.callbacks import LambdaCallback

from lengthwise.build import build, build_model, build_parts, refuse_training
from lengthwise.console import say
from lengthwise.drawing import draw_pictures
from lengthwise.errors import ConfigError, LengthwiseError, RunError
from lengthwise.evaluation.symmetry import probe
from lengthwise.measure import headline, measure, note, record_symmetry
from lengthwise.nn import Transformer
from lengthwise.process import adopt
from lengthwise.runs import RunFolder, Status, describe_start, factors, record_start
from lengthwise.runs.identity import run_hash
from lengthwise.runs.status import horizon_of
from lengthwise.runs.tested import is_complete, is_trained, other_precision, symmetry_length
from lengthwise.tasks import Layout, Task
from lengthwise.tracking import options_of, refuse_unreachable
from lengthwise.training import LengthData, LengthModule, TrainerOptions, fit
from lengthwise.training.callbacks import (
    Checkpoints,
    Progress,
    Recorder,
    StopOnRequest,
    SymmetryProbe,
    WandbRun,
)
from lengthwise.training.callbacks.checkpoints import read_checkpoint
from lengthwise.training.hardware import device_name, rank_device, resolve_precision
from lengthwise.training.place import Place, place_of
from lengthwise.training.ranks import Team, leave_signals_to_the_leader
from lengthwise.wandb_results import show_results


@dataclass
class Start:
    """What a command finds in its run's folder.

    kind:   "new", "resumed" (cut short, goes on), "extended" (done, now asked for more steps) or "done".
    status: as the run left it; its `steps` are done already.
    clear:  what is there is of no use to a new run, or not wanted.
    """

    kind: str
    status: Status
    clear: bool = False


def train(config: dict[str, Any], argv: Sequence[str] | None = None) -> RunFolder:
    """Train and measure the run that `config` describes, or what is missing of it; returns its folder.

    Args:
        config: checked by `lengthwise.config.check` (or made by `compose`).
        argv: the command line, for the record.

    Raises ConfigError before anything is written; RunError for a folder that cannot be used, a damaged checkpoint,
    a loss that is not finite or a full disk.
    """
    prepare(config)
    place = place_of(config["trainer"])
    task, layout, model = build_parts(config)
    refuse_training(config, model)
    rank_device(place, config["trainer"]["accelerator"])
    if not place.leads:
        _train_as_told(config, (task, layout, model), place)
        return RunFolder.locate(config["outputs"], config)
    with Team(place) as team:
        if not is_trained(RunFolder.locate(config["outputs"], config), config):
            refuse_unreachable(config["wandb"])
        folder = RunFolder.create(config["outputs"], config)
        with folder.claim():
            start = look(folder, config)
            say(_announcement(folder, start, config))
            if start.kind != "done":
                _run(folder, config, start, (task, layout, model), argv, team)
                return folder
            team.order(None)
            if not is_complete(folder, config):
                rows = measure(folder, config, task, layout, model)
                note(start.status, rows)
                start.status.results |= headline(folder, config, layout, model)
                folder.write_status(start.status)
                draw_pictures(folder, config, task, layout, model, anew=False)
    return folder


def follow(path: str) -> int:
    """What the process of a rank does that the leader has started with the file `path`; its exit code.

    Reasons meant for people reach the leader, which says them; what nobody foresaw leaves its traceback.
    """
    given = json.loads(Path(path).read_text(encoding="utf-8"))
    adopt(given["path"])
    leave_signals_to_the_leader()
    prepare(given["config"])
    try:
        _train_as_told(given["config"], None, Place(**given["place"]))
    except LengthwiseError:
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _train_as_told(
    config: dict[str, Any], parts: tuple[Task, Layout, Transformer] | None, place: Place
) -> None:
    """The life of a rank that does not lead: build, wait for the leader's word, train; it writes nothing."""
    with Team(place) as team, team.reporting():
        task, layout, model = parts or build_parts(config)
        order = team.await_order()
        if order is None:
            return
        if order["run"] != run_hash(config) or order["trainer"] != config["trainer"]:
            raise ConfigError(
                "this rank has another configuration than rank 0: give every rank the same command"
            )
        team.join(config["trainer"]["accelerator"])
        fit(
            _module(config, layout, model, order["horizon"]),
            _data(config, task, layout),
            config["trainer"],
            callbacks=_callbacks(RunFolder(order["folder"]), config, task, layout, None),
            resume_from=order["resume"],
            place=place,
        )
        team.part()


def look(folder: RunFolder, config: dict[str, Any]) -> Start:
    """How far the run in `folder` already is; nothing is touched.

    Raises RunError for a damaged status or checkpoint.
    """
    asked = config["trainer"]["max_steps"]
    fresh = Start("new", Status.first(config, asked, horizon_of(config)))
    if not folder.exists:
        return fresh
    if config["overwrite"]:
        return replace(fresh, clear=True)
    status = folder.status()
    if made := other_precision(folder, config):
        other = config["trainer"]["precision"]
        raise RunError(
            f"{folder.path} was made with trainer.precision={made}, not {other}. "
            f"run.label={other} keeps a second run beside it; overwrite=true replaces it."
        )
    if status.state == "done" and (status.max_steps or 0) >= asked:
        return Start("done", status)
    if not folder.last.is_file():
        if status.state == "done":
            raise RunError(
                f"{folder.path} is done at step {status.steps}, but its checkpoints/last.ckpt is gone, so it cannot be "
                f"extended to {asked}. overwrite=true trains it afresh."
            )
        return replace(fresh, clear=True)  # cut short before its first checkpoint
    reached = int(
        read_checkpoint(folder.last)["global_step"]
    )  # a damaged one is refused before the record is touched
    kind = "extended" if status.state == "done" else "resumed"
    status.max_steps = max(asked, reached)
    return Start(kind, status)


def prepare(config: dict[str, Any]) -> None:
    """Set what holds for the whole process; before anything is computed."""
    torch.set_num_threads(config["trainer"]["threads"])
    # Distance-decaying biases underflow in softmax. Before the first parallel operation: later, pool threads of
    # torch would go on computing with denormals, slowly.
    torch.set_flush_denormal(True)


def start_of(config: dict[str, Any], argv: Sequence[str] | None) -> dict[str, Any]:
    """The entry in ``provenance.json`` for a command that begins to work on a run."""
    trainer = config["trainer"]
    return describe_start(
        argv=argv,
        precision=resolve_precision(trainer["precision"], trainer["accelerator"]),
        devices=TrainerOptions(**trainer).world,
        device=device_name(trainer["accelerator"]),
        threads=trainer["threads"],
    )


def _announcement(folder: RunFolder, start: Start, config: dict[str, Any]) -> str:
    asked, status = config["trainer"]["max_steps"], start.status
    where = f"run {folder.name}"
    shared = _shared(config)
    if start.kind == "new":
        return f"{where}: {asked} steps{shared}"
    if start.kind == "resumed":
        reason = f" ({status.reason})" if status.reason else ""
        return f"{where}: {status.state}{reason}; goes on from its last checkpoint to step {asked}{shared}"
    if start.kind == "extended":
        return (
            f"{where}: extended to {asked} steps; the schedule keeps the horizon of its first start, "
            f"{status.horizon}, and rests at its floor from there on (a run laid out for {asked} steps is another one: "
            f"schedule.steps={asked}, or overwrite=true to replace this one){shared}"
        )
    steps = f"{status.steps} steps"
    more = f", more than the {asked} asked for" if status.steps > asked else ""
    return f"{where}: done already ({steps}{more}); overwrite=true starts it afresh"


def _shared(config: dict[str, Any]) -> str:
    """How the batch of one optimizer step is shared out, where it is."""
    trainer = TrainerOptions(**config["trainer"])
    if trainer.world == trainer.accumulate == 1:
        return ""
    batch = config["data"]["batch_size"]
    shares = [
        *([f"{trainer.nodes} nodes"] if trainer.nodes > 1 else []),
        f"{trainer.devices} device{'s' if trainer.devices > 1 else ''}",
        f"{trainer.accumulate} micro-batch{'es' if trainer.accumulate > 1 else ''}",
        f"{batch // trainer.world // trainer.accumulate}",
    ]
    return f"; batch {batch} = {' x '.join(shares)}"


def _module(config: dict[str, Any], layout: Layout, model: Transformer, horizon: int | None) -> LengthModule:
    return LengthModule(
        model,
        eos=layout.vocabulary.eos,
        optimizer=build("optimizer", config["optimizer"]),
        schedule=build("schedule", {**config["schedule"], "steps": horizon}),
        init_seed=config["init_seed"],
        config=config,
    )


def _data(config: dict[str, Any], task: Task, layout: Layout) -> LengthData:
    return LengthData(task, layout, data_seed=config["data_seed"], **config["data"])


def _run(
    folder: RunFolder,
    config: dict[str, Any],
    start: Start,
    parts: tuple[Task, Layout, Transformer],
    argv: Sequence[str] | None,
    team: Team,
) -> None:
    """Train and measure; whatever happens, the status says how it ended and W&B is closed."""
    task, layout, model = parts
    status = start.status
    if start.kind != "new":  # a run stays in the group of the sweep that it first belonged to
        group = folder.read_config()["wandb"]["group"] or config["wandb"]["group"]
        config = {**config, "wandb": {**config["wandb"], "group": group}}
    wandb_run = WandbRun(
        config["outputs"],
        run_id=run_hash(config),
        name=folder.name,
        factors=factors(config),
        config=config,
        **options_of(config),
    )
    module = _module(config, layout, model, status.horizon)
    resume = None if start.kind == "new" else folder.last
    team.last_words = partial(_fail, folder, status)
    with wandb_run:
        wandb_run.open()  # its server may refuse: before what is there is touched
        if start.clear:
            folder.clear()
        folder.write_config(config)
        with folder.ending(status), team.blaming():
            team.start(config, folder.path)
            team.order(
                {
                    "run": run_hash(config),
                    "trainer": config["trainer"],
                    "horizon": status.horizon,
                    "resume": None if resume is None else str(resume.resolve()),
                    "folder": str(folder.path.resolve()),
                }
            )
            record_start(folder.provenance_file, start_of(config, argv))
            if resume is None and config["evaluation"]["symmetry"]:
                record_symmetry(folder, config, task, layout, model, "initial", 0)
            team.join(config["trainer"]["accelerator"])
            trainer = fit(
                module,
                _data(config, task, layout),
                config["trainer"],
                callbacks=[_count_steps(status), *_callbacks(folder, config, task, layout, wandb_run)],
                resume_from=resume,
                place=team.place,
            )
            team.part()
            if TrainerOptions(**config["trainer"]).strategy == "fsdp":  # the trained one is left in slices
                model = build_model(config, layout)
            status.steps = trainer.global_step
            note(status, measure(folder, config, task, layout, model))
            status.results |= headline(folder, config, layout, model)
            drawn = draw_pictures(folder, config, task, layout, model, anew=True)
            show_results(wandb_run, folder, config, layout, status.results, drawn)


def _fail(folder: RunFolder, status: Status, reason: str) -> None:
    status.state, status.reason = "failed", reason
    folder.write_status(status)


def _count_steps(status: Status) -> Callback:
    """A run that does not come to its end still says how far it came."""

    def count(trainer: Trainer, *_: object) -> None:
        status.steps = trainer.global_step

    return LambdaCallback(on_exception=count)


def _callbacks(
    folder: RunFolder, config: dict[str, Any], task: Task, layout: Layout, wandb_run: WandbRun | None
) -> list[Any]:
    """What watches the training, on every rank alike; W&B on the leader alone."""
    trainer, evaluation = config["trainer"], config["evaluation"]
    callbacks: list[Any] = []
    if evaluation["symmetry"]:
        length = symmetry_length(config)
        sequences = evaluation["symmetry_sequences"]

        def follow(model: Transformer) -> dict[str, float]:
            return probe(model, task, layout, length=length, sequences=sequences)

        callbacks.append(SymmetryProbe(follow))
    callbacks += [
        Recorder(folder.train_csv, every=trainer["log_every"]),
        *([wandb_run] if wandb_run is not None else []),
        Progress(folder.name),
        *(build(f"callbacks.{name}", node) for name, node in config["callbacks"].items()),
        Checkpoints(folder.checkpoints, every=trainer["checkpoint_every"]),
        StopOnRequest(folder.stop_file),  # after the checkpoints, so that nothing is lost
    ]
    return callbacks
