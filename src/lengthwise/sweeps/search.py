"""A search: each trial a run of its own, proposed by Optuna from what the trials before it gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lengthwise.errors import ConfigError
from lengthwise.keyed import digest
from lengthwise.runs import Claim, scientific
from lengthwise.sweeps import preflight, search_report
from lengthwise.sweeps.cells import Cell
from lengthwise.sweeps.display import say
from lengthwise.sweeps.job import Job
from lengthwise.sweeps.launcher import Launcher
from lengthwise.sweeps.objective import Objective, choose_objective
from lengthwise.sweeps.preflight import refuse_illegal
from lengthwise.sweeps.record import Entry, Record
from lengthwise.sweeps.search_loop import SearchLoop
from lengthwise.sweeps.space import SearchSpace, describe, read_space
from lengthwise.sweeps.trials import Method, Trials, import_optuna

Compose = Callable[[list[str]], dict[str, Any]]
LOCK = "search.lock"


class OptunaSearch:
    """What ``hydra/sweeper=optuna`` stands for. Making it checks everything and writes nothing.

    overrides: of the command line; Hydra's own are left out of the trials.
    compose:   overrides of one trial → its configuration, checked.
    command:   as typed, for the record.
    trials … params: see conf/hydra/sweeper/optuna.yaml.

    name: stands for the space, the objective and the fixed values, so that the same command goes on with the same
    search, however many trials it asks for. options, outputs: of the configuration, the same in every trial.

    Raises ConfigError for a space, objective, sampler or pruner that cannot work, for a dimension that does not make
    another run, and where Optuna is not installed.
    """

    def __init__(
        self,
        overrides: Sequence[str],
        compose: Compose,
        *,
        command: Sequence[str] = (),
        trials: int = 20,
        objective: str = "val_loss",
        direction: str | None = None,
        sampler: str = "tpe",
        seed: int = 0,
        pruner: str = "none",
        warmup_steps: int = 0,
        at_once: int | None = None,
        storage: str | None = None,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        import_optuna()
        for option, number in (("trials", trials), ("at_once", 1 if at_once is None else at_once)):
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise ConfigError(f"hydra.sweeper.{option}={number}: must be a whole number, at least 1")
        self.trials, self.at_once, self.command = trials, at_once, list(command)
        self.space = read_space(overrides, params)
        self._compose = compose
        self._cells: dict[tuple[str, ...], Cell] = {}
        config = self._probe().config
        trainer = config["trainer"]
        self.options: dict[str, Any] = config["sweep"]
        self.outputs = Path(config["outputs"])
        self.objective = choose_objective(objective, direction, config)
        self.method = Method(
            sampler, seed, pruner, warmup_steps, trainer["max_steps"], trainer["validate_every"]
        )
        self.method.refuse(self.space)
        self.name = _refuse_name(name) if name else _name(self.space, self.objective, config)
        self.folder = self.outputs / "sweeps" / self.name
        self.storage = storage or f"sqlite:///{(self.folder / 'search.db').resolve()}"

    # -- before anything starts --------------------------------------------------------------------------------

    def cell(self, params: Mapping[str, Any]) -> Cell:
        """The run of a trial with these parameters.  Raises ConfigError where it cannot be composed."""
        point = self.space.point(params)
        if (key := tuple(point)) not in self._cells:
            words = [*self.space.fixed, *point]
            self._cells[key] = Cell(words, self._compose(words), point)
        return self._cells[key]

    def probes(self) -> list[Cell]:
        """Cells that together try every value of a list and both ends of an interval, one at a time."""
        return [self.cell(params) for params in self.space.probes()]

    def first_probe(self) -> Cell:
        """One of them, which stands for all in what they share."""
        return self.cell(next(iter(self.space.probes())))

    def _probe(self) -> Cell:
        """Compose the probes, which must be different runs; the first of them."""
        seen: dict[Path, Cell] = {}
        for params in self.space.probes():
            try:
                cell = self.cell(params)
            except ConfigError as error:
                whole = (
                    ". Whole numbers are written int(interval(1, 8))"
                    if "takes a whole number" in str(error)
                    else ""
                )
                raise ConfigError(f"{error}{whole}") from error
            if (other := seen.setdefault(cell.folder.path, cell)) is not cell:
                differ = sorted(set(cell.axes or ()) ^ set(other.axes or ()))
                raise ConfigError(
                    f"{', '.join(differ)}: these do not make another run, so there is nothing to search in them"
                )
        return next(iter(seen.values()))

    def _prepare(self, launcher: Launcher) -> None:
        """Raises ConfigError for values that no model can have, or jobs that the launcher cannot run."""
        probes = self.probes()
        launcher.refuse([self.job(cell) for cell in probes])
        illegal = preflight.inspect([Entry(cell) for cell in probes], launcher)
        skip = self.options["on_illegal"] == "skip"
        refuse_illegal([(entry.cell.text, why) for entry, why in illegal], len(probes), skip=skip)
        if not self.options["dry_run"]:
            preflight.refuse_unreachable(probes)

    # -- the search --------------------------------------------------------------------------------------------

    def job(self, cell: Cell) -> Job:
        """What a launcher needs of a cell."""
        wandb = cell.config["wandb"]
        config = {**cell.config, "wandb": {**wandb, "group": wandb["group"] or self.name}}
        files = [
            self.folder / kind / f"{cell.name}.{end}" for kind, end in (("jobs", "json"), ("logs", "log"))
        ]
        return Job(cell.name, config, cell.overrides, files[0], files[1])

    def run(self, launcher: Launcher) -> int:
        """Carry the search on until `trials` are done, and say what was found. The launcher is closed at the end.

        Returns 0, or 1 where a trial failed.  Raises ConfigError for what cannot be, RunBusy where the same search is
        at work in another process, RunError where it cannot be recorded; KeyboardInterrupt where the user or a signal
        stopped it, when no process is left.
        """
        try:
            self._prepare(launcher)
            say(f"search {self.name}: {self.trials} trials, {self.objective.direction} {self.objective.name}")
            for dimension in self.space.dimensions:
                say(f"  {describe(dimension)}")
            if self.options["dry_run"]:
                return 0
            record = Record.open(self.outputs, self.name, command=self.command)
            with Claim(self.folder / LOCK):
                trials = Trials(self.name, self.storage, self.space, self.method, self.objective.direction)
                SearchLoop(self, trials, record, launcher).run()
                return search_report.report(self, trials)
        finally:
            launcher.close()


def _name(space: SearchSpace, objective: Objective, config: Mapping[str, Any]) -> str:
    keys = {dimension.key.lstrip("+") for dimension in space.dimensions}
    keys |= {"init_seed", "data_seed"} if "seed" in keys else set()
    fixed = {key: value for key, value in _flat(scientific(config)).items() if not _within(key, keys)}
    fixed["trainer.max_steps"] = repr(config["trainer"]["max_steps"])
    what = [sorted(map(describe, space.dimensions)), objective.name, objective.direction, fixed]
    return f"search-{digest('search', what, size=4).hex()}"


def _flat(node: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in node.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = repr(value)
    return flat


def _within(key: str, keys: set[str]) -> bool:
    return any(key == other or key.startswith(f"{other}.") for other in keys)


def _refuse_name(name: str) -> str:
    if not str(name).replace("-", "").replace("_", "").isalnum() or not str(name).isascii():
        raise ConfigError(f"hydra.sweeper.name={name}: letters, digits, - and _ only")
    return str(name)
