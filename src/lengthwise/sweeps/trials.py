"""A search's trials in Optuna's storage: asked, reported on and told, so that a killed search loses nothing.

The sampler of a trial is made anew with a seed keyed by (seed, trial): a search that was interrupted proposes what an
undisturbed one would have, where a sampler with one seed would begin again with the draws it had begun with.
"""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lengthwise.errors import ConfigError
from lengthwise.sweeps.space import Choice, SearchSpace

SAMPLERS = ("tpe", "random", "grid", "cmaes")
PRUNERS = ("none", "median", "hyperband")
_RETRY_OF, _IMPOSSIBLE = "retry_of", "impossible"
_STARTUP = 5
"""Trials that the median pruner lets finish before it judges."""


@dataclass(frozen=True)
class Method:
    """How trials are chosen and when they are given up.

    warmup_steps: optimizer steps before which no trial is given up. max_steps, validate_every: of a trial.
    """

    sampler: str
    seed: int
    pruner: str
    warmup_steps: int
    max_steps: int
    validate_every: int

    def refuse(self, space: SearchSpace) -> None:
        """Raises ConfigError for names that do not exist and for methods that cannot work on `space`."""
        for name, value, known in (("sampler", self.sampler, SAMPLERS), ("pruner", self.pruner, PRUNERS)):
            if value not in known:
                raise ConfigError(f"hydra.sweeper.{name}={value}: must be one of {', '.join(known)}")
        for name, number in (("seed", self.seed), ("warmup_steps", self.warmup_steps)):
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise ConfigError(f"hydra.sweeper.{name}={number}: must be a whole number, at least 0")
        if self.sampler == "grid":
            space.grid()
        if self.sampler == "cmaes":
            _refuse_cmaes(space)
        first = max(self.validate_every, self.warmup_steps)
        if self.pruner != "none" and first >= self.max_steps:
            raise ConfigError(
                f"hydra.sweeper.pruner={self.pruner}: with trainer.validate_every={self.validate_every} and "
                f"hydra.sweeper.warmup_steps={self.warmup_steps} a trial of {self.max_steps} steps is never looked at "
                "before its end; validate more often"
            )

    def make_pruner(self) -> Any:
        """Optuna's."""
        from optuna import pruners

        if self.pruner == "median":
            return pruners.MedianPruner(n_startup_trials=_STARTUP, n_warmup_steps=self.warmup_steps)
        if self.pruner == "hyperband":
            first = min(max(self.validate_every, self.warmup_steps), self.max_steps)
            return pruners.HyperbandPruner(min_resource=first, max_resource=self.max_steps)
        return pruners.NopPruner()

    def make_sampler(self, number: int) -> Any:
        """Optuna's, for trial `number`. A grid is not sampled: its points are put into the queue."""
        from optuna import samplers

        digest = hashlib.sha256(f"{self.seed}/{number}".encode()).digest()
        seed = int.from_bytes(digest[:4], "big") >> 1
        with _without_experimental_warnings():
            if self.sampler == "tpe":
                return samplers.TPESampler(seed=seed, constant_liar=True)
            if self.sampler == "cmaes":
                return samplers.CmaEsSampler(seed=seed)
            return samplers.RandomSampler(seed=seed)


def _refuse_cmaes(space: SearchSpace) -> None:
    option = "hydra.sweeper.sampler=cmaes"
    if choices := [d.key for d in space.dimensions if isinstance(d, Choice)]:
        raise ConfigError(f"{option}: it searches numbers only, and {', '.join(choices)} is a list; use tpe")
    if len(space.dimensions) < 2:
        raise ConfigError(f"{option}: it needs two numbers or more; use tpe")
    try:
        import cmaes  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: F401
    except ImportError:
        raise ConfigError(f"{option}: needs pip install 'lengthwise[optuna]' (package cmaes)") from None


class Trials:
    """The trials of the search called `name`, in `storage`; they are made where they are not there yet.

    Raises ConfigError where Optuna is not installed or the storage cannot be opened.
    """

    def __init__(
        self, name: str, storage: str, space: SearchSpace, method: Method, direction: str = "minimize"
    ) -> None:
        optuna = import_optuna()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.space, self.method = space, method
        self.exhausted = False  # a grid without a point left
        self._states = optuna.trial.TrialState
        self._trial_class = optuna.trial.Trial
        try:
            self.study = optuna.create_study(
                study_name=name,
                storage=_storage(storage),
                direction=direction,
                sampler=method.make_sampler(0),
                pruner=method.make_pruner(),
                load_if_exists=True,
            )
        except Exception as error:  # of Optuna, SQLAlchemy or a driver
            line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ConfigError(f"hydra.sweeper.storage={storage}: cannot be opened: {line}") from error

    @property
    def all(self) -> list[Any]:
        """Frozen trials, by number."""
        return self.study.get_trials(deepcopy=False)

    @property
    def counted(self) -> list[Any]:
        """Those that count: all but the failed ones that were tried again."""
        trials = self.all
        again = {trial.user_attrs.get(_RETRY_OF) for trial in trials}
        return [trial for trial in trials if trial.number not in again]

    def failed(self) -> list[Any]:
        """Those that count and failed."""
        return [t for t in self.counted if t.state == self._states.FAIL and not t.user_attrs.get(_IMPOSSIBLE)]

    def impossible(self) -> list[Any]:
        """Those whose parameters do not go together, where such are left out."""
        return [trial for trial in self.all if trial.user_attrs.get(_IMPOSSIBLE)]

    def is_complete(self, trial: Any) -> bool:
        """Whether it has a value."""
        return trial.state == self._states.COMPLETE

    def is_pruned(self, trial: Any) -> bool:
        """Whether it was given up."""
        return trial.state == self._states.PRUNED

    def best(self) -> Any | None:
        """The best with a value; the first of several."""
        complete = [trial for trial in self.all if self.is_complete(trial)]
        if not complete:
            return None
        sign = -1 if self.study.direction.name == "MAXIMIZE" else 1
        return min(complete, key=lambda trial: (sign * trial.value, trial.number))

    def left_running(self) -> list[Any]:
        """Live trials that an earlier start left behind, to be taken up as they are."""
        return [self._live(trial) for trial in self.all if trial.state == self._states.RUNNING]

    def retry_failed(self) -> None:
        """Put the parameters of every failed trial into the queue once more."""
        for trial in self.failed():
            self.study.enqueue_trial(dict(params_of(trial)), user_attrs={_RETRY_OF: trial.number})

    def waiting(self) -> int:
        """Trials in the queue."""
        return sum(trial.state == self._states.WAITING for trial in self.all)

    def ask(self) -> Any | None:
        """The next trial, with all its parameters; None where a grid has no point left."""
        if self.method.sampler == "grid" and not self.waiting():
            tried = [params_of(trial) for trial in self.all]
            point = next((point for point in self.space.grid() if point not in tried), None)
            if point is None:
                self.exhausted = True
                return None
            self.study.enqueue_trial(point)
        self.study.sampler = self.method.make_sampler(len(self.all))
        with _without_experimental_warnings():
            return self.study.ask(self.space.distributions())

    def _live(self, frozen: Any) -> Any:
        """The trial that can be reported on again; parameters that it was killed before it drew are drawn now."""
        self.study.sampler = self.method.make_sampler(frozen.number)
        trial = self._trial_class(self.study, frozen._trial_id)
        for dimension in self.space.dimensions:
            distribution: Any = dimension.distribution()
            if isinstance(dimension, Choice):
                trial.suggest_categorical(dimension.key, distribution.choices)
            elif dimension.whole:
                trial.suggest_int(
                    dimension.key,
                    distribution.low,
                    distribution.high,
                    step=distribution.step,
                    log=dimension.log,
                )
            else:
                trial.suggest_float(
                    dimension.key, dimension.low, dimension.high, step=dimension.step, log=dimension.log
                )
        return trial

    def pruned_twin(self, trial: Any) -> Any | None:
        """An earlier trial with the same parameters that was given up."""
        return next((t for t in self.all if self.is_pruned(t) and t.params == trial.params), None)

    def report(self, trial: Any, points: Sequence[tuple[int, float]]) -> int | None:
        """Report the (step, value) that are new; the step at which the trial has fallen behind, if it has."""
        known = next(frozen for frozen in self.all if frozen.number == trial.number).intermediate_values
        for step, value in points:
            if step not in known:
                trial.report(value, step)
                if trial.should_prune():
                    return step
        return None

    def complete(self, trial: Any, value: float) -> None:
        """The trial's result."""
        self.study.tell(trial, value)

    def prune(self, trial: Any) -> None:
        """It was given up; its last report is what it is worth."""
        self.study.tell(trial, state=self._states.PRUNED)

    def fail(self, trial: Any, reason: str, *, impossible: bool = False) -> None:
        """It has no result; impossible: and never will have."""
        trial.set_user_attr("reason", reason)
        if impossible:
            trial.set_user_attr(_IMPOSSIBLE, True)
        self.study.tell(trial, state=self._states.FAIL)


def _storage(address: str) -> Any:
    """A URL as Optuna takes it, or the path of a journal, which needs no locks of the file system."""
    if "://" in address:
        return address
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(address))


def import_optuna() -> Any:
    """Raises ConfigError, saying how to get it, where it is not installed."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("hydra/sweeper=optuna needs Optuna: pip install 'lengthwise[optuna]'") from None
    return optuna


@contextlib.contextmanager
def _without_experimental_warnings() -> Iterator[None]:
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


def params_of(frozen: Any) -> Mapping[str, Any]:
    """What was drawn for a trial, or put into the queue for it."""
    return {**frozen.system_attrs.get("fixed_params", {}), **frozen.params}
