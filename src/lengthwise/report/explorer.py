"""What the page's explorer chooses from: every mean and interval is computed here, the page only picks and colours.

A *variant* is a `Group`: runs that differ in nothing but their seeds. Values of factors are indices into the factor's
list of values, so that the page compares whole numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Any

from lengthwise.errors import RunError
from lengthwise.evaluation.verdict import SUCCESS
from lengthwise.report.analysis import (
    ACTIONS,
    AFTER,
    BEFORE,
    MEASURES,
    Curve,
    Section,
    permutation_rows,
)
from lengthwise.report.blind import baseline_lines
from lengthwise.report.collect import ENCODING_ORDER, Collection, Group
from lengthwise.report.factors import Value, choices, varying
from lengthwise.report.reading import Problem
from lengthwise.report.sparse import POINTS, at_lengths, kept_lengths, spread
from lengthwise.report.statistics import seed_interval
from lengthwise.report.training import CURVES, training_curves
from lengthwise.runs import format_lengths

LOSS = "loss"
Data = dict[str, Any]


def explorer(collection: Collection, sections: Sequence[Section]) -> tuple[Data, list[Problem]]:
    """The explorer's data, plain enough for JSON, and what was wrong with tables that only it reads."""
    table = {run.name: choices(run) for run in collection.read}
    names = varying(list(table.values()))
    values = {
        name: _in_order({repr(row.get(name)): row.get(name) for row in table.values()}) for name in names
    }
    index = {name: {repr(value): at for at, value in enumerate(known)} for name, known in values.items()}
    chosen = {run: [index[name][repr(row.get(name))] for name in names] for run, row in table.items()}
    problems: list[Problem] = []
    losses = _losses(collection)
    variants = []
    for number, section in enumerate(sections):
        symmetry, kept = _symmetry(section), kept_lengths(section, POINTS)
        variants += [
            {
                "setting": number,
                **_variant(section, group, losses, chosen, kept),
                "symmetry": symmetry.get(group.key),
            }
            for group in section.groups
        ]
    runs = _runs(collection, sections, chosen, problems)
    states = Counter(run["state"] for run in runs)
    return {
        "factors": [{"name": name, "values": values[name]} for name in names],
        "settings": [_setting(section) for section in sections],
        "variants": variants,
        "runs": runs,
        "states": {state: states[state] for state in sorted(states, key=_state_order)},
        "measures": {**MEASURES, LOSS: "loss (nats a symbol)"},
        "curves": CURVES,
        "actions": ACTIONS,
        "success": SUCCESS,
    }, problems


_STATES = ("done", "running", "interrupted", "failed")


def _state_order(state: str) -> tuple[int, str]:
    return (_STATES.index(state) if state in _STATES else len(_STATES), state)


def _in_order(values: Mapping[str, Value]) -> list[Value]:
    """Numbers by size, then words by name (encodings as everywhere on the page), then what has no such option."""
    return sorted(
        values.values(),
        key=lambda value: (
            value is None,
            isinstance(value, str),
            value if isinstance(value, int | float) else 0,
            ENCODING_ORDER.index(value) if value in ENCODING_ORDER else len(ENCODING_ORDER),
            str(value),
        ),
    )


def _setting(section: Section) -> Data:
    trained = section.trained_lengths or section.setting.train_lengths
    return {
        "title": section.setting.title,
        "task": section.setting.task,
        "trained": [min(trained), max(trained)],
        "about": format_lengths(trained),
        "over": format_lengths(section.compared_lengths),
        "lengths": sorted(kept_lengths(section, POINTS)),
        "tested": len(section.lengths),
        "longest": section.longest_shared,
        # Where both measures say the same, only the first is shown: the other one is an alias of it.
        "measures": {name: name if name in section.measures else section.measures[0] for name in MEASURES}
        if section.measures
        else {},
        "baselines": [
            {"name": name, "at": known, "values": [_short(at[length]) for length in known]}
            for name, at in baseline_lines(section)
            if (known := spread(list(at), POINTS))
        ]
        if section.measures
        else [],
        "blind": sorted({value for group in section.groups for value in section.best_blind(group).values()}),
    }


def _variant(
    section: Section,
    group: Group,
    losses: Mapping[str, Curve],
    chosen: Mapping[str, list[int]],
    kept: Container[int],
) -> Data:
    curves = {name: curve for name in section.measures if (curve := section.curve(group, measure=name))}
    if section.measures and group.key in losses:
        curves[LOSS] = losses[group.key]
    return {
        "label": group.label,
        "factors": chosen[group.runs[0][1]],
        "runs": [name for _, name in group.runs],
        "curves": {name: _curve(at_lengths(curve, kept)) for name, curve in curves.items()},
        "trained": {name: _over_trained(section, curve, name) for name, curve in curves.items()},
        "reach": {
            name: reached({length: at.mean for length, at in curve.estimates.items()})
            for name, curve in curves.items()
            if name != LOSS
        },
    }


def _losses(collection: Collection) -> dict[str, Curve]:
    """Each group's test loss against length; its interval is over seeds alone."""
    frame = collection.lengths
    if LOSS not in frame:
        return {}
    points: dict[str, dict[int, dict[Any, tuple[float, int]]]] = {}
    rows = frame[(frame["stratum"] == "all") & frame[LOSS].notna() & frame["n"].notna()]
    for key, length, seed, loss, n in zip(
        *(rows[name].tolist() for name in ("group", "length", "seed", LOSS, "n")), strict=True
    ):
        points.setdefault(key, {}).setdefault(int(length), {})[seed] = (float(loss), int(n))
    curves = {}
    for key, by_length in points.items():
        seeds: dict[Any, dict[int, float]] = {}
        for length, by_seed in sorted(by_length.items()):
            for seed, (loss, _) in by_seed.items():
                seeds.setdefault(seed, {})[length] = loss
        curves[key] = Curve(
            {n: seed_interval([loss for loss, _ in at.values()]) for n, at in sorted(by_length.items())},
            seeds,
            {n: min(items for _, items in at.values()) for n, at in by_length.items()},
        )
    return curves


def _curve(curve: Curve) -> Data:
    """Lists along the lengths: mean, ends of its interval, seeds, test sequences, and each seed's own values."""
    estimates = [curve.estimates[length] for length in curve.lengths]
    return {
        "at": curve.lengths,
        "mean": [_short(at.mean) for at in estimates],
        "low": [_short(at.low) for at in estimates],
        "high": [_short(at.high) for at in estimates],
        "n": [at.n for at in estimates],
        "items": [curve.items[length] for length in curve.lengths],
        "seeds": {
            str(seed): [_short(values.get(length)) for length in curve.lengths]
            for seed, values in curve.seeds.items()
        },
    }


def _over_trained(section: Section, curve: Curve, measure: str) -> list[float | None] | None:
    """Mean over the trained lengths that every run was tested at, the ends of its interval, and its seeds."""
    lengths = curve.estimates.keys() & set(section.compared_lengths)
    means = [_mean(at, lengths) for at in curve.seeds.values()]
    known = [mean for mean in means if mean is not None]
    if not known:
        return None
    items = None if measure == LOSS else sum(curve.items[length] for length in lengths)
    at = seed_interval(known, items)
    return [_short(at.mean), _short(at.low), _short(at.high), at.n]


def _mean(values: Mapping[int, float], lengths: set[int]) -> float | None:
    if not lengths or not lengths <= values.keys():
        return None
    return sum(values[length] for length in lengths) / len(lengths)


def reach(values: Mapping[int, float]) -> int:
    """The longest tested length up to which every tested length has at least `SUCCESS`; 0 if the shortest has not."""
    reached = 0
    for length in sorted(values):
        if values[length] < SUCCESS:
            break
        reached = length
    return reached


def reached(values: Mapping[int, float]) -> list[int | bool]:
    """The reach, and whether it ends where the tests do: it may then be longer."""
    at = reach(values)
    return [at, at == max(values, default=0)]


def _symmetry(section: Section) -> dict[str, Data]:
    """By group: random permutations in full, and of every action the verdict and the float64 error after training."""
    found: dict[str, Data] = {}
    for row in section.symmetry:
        own = found.setdefault(
            row.group.key, {"errors": None, "difference": None, "flips": None, "n": row.n, "actions": {}}
        )
        own["actions"][row.action] = [row.measured, _short(row.error.get((AFTER, "float64"))), row.verdict]
    for row in permutation_rows(section):
        found[row.group.key] |= {
            "errors": [_short(row.error.get((moment, dtype))) for dtype, moment in _ERRORS],
            "difference": _short(row.difference.get((AFTER, "float64"))),
            "flips": _short(row.flips),
        }
    return found


_ERRORS = (("float32", AFTER), ("float64", BEFORE), ("float64", AFTER))


def _runs(
    collection: Collection,
    sections: Sequence[Section],
    chosen: Mapping[str, list[int]],
    problems: list[Problem],
) -> list[Data]:
    """One row a run folder, the damaged ones too: what there is to sort by, why it is not done, how it trained."""
    figures_of = {name: found for section in sections for name, found in _figures(section).items()}
    errors = _errors(collection)
    numbers = {section.setting.key: number for number, section in enumerate(sections)}
    setting_of = {
        name: numbers.get(key, -1)
        for name, key in zip(collection.runs["run"], collection.runs["setting"], strict=True)
    }
    said: dict[str, list[Problem]] = {}
    rows: list[Data] = []
    for run in collection.read:
        try:
            training = training_curves(collection.root / run.name / "train.csv")
        except RunError as error:
            training = {}
            reason = str(error).replace(f"{collection.root / run.name}/", "")
            problems.append(Problem(run.name, "damaged", reason))
        rows.append(
            {
                "run": run.name,
                "state": run.status.state,
                "seed": run.seed,
                "steps": run.status.steps,
                "of": run.status.max_steps or run.config["trainer"].get("max_steps"),
                "factors": chosen[run.name],
                "setting": setting_of.get(run.name, -1),
                "figures": figures_of.get(run.name, {}),
                "error": _short(errors.get(run.name)),
                "training": training,
            }
        )
    for problem in (*collection.problems, *problems):
        said.setdefault(problem.run, []).append(problem)
    known = {row["run"] for row in rows}
    rows += [
        {"run": name, "state": found[0].state, "seed": None, "steps": None, "of": None, "factors": None, "setting": -1,
         "figures": {}, "error": None, "training": {}}
        for name, found in said.items() if name not in known
    ]  # fmt: skip
    for row in rows:
        row["why"] = " ".join(dict.fromkeys(problem.reason for problem in said.get(row["run"], ())))
    return rows


def _figures(section: Section) -> dict[str, Data]:
    """Of each run by measure: accuracy over the trained lengths that it was tested at, at the longest shared length,
    its reach, and whether that ends where its tests do."""
    found: dict[str, Data] = {}
    trained, shared = set(section.trained_lengths), section.longest_shared
    for group in section.groups:
        for measure in section.measures:
            curve = section.curve(group, measure=measure)
            for seed, name in group.runs:
                at = curve.seeds.get(seed) if curve else None
                if curve and at:
                    longest = None if shared is None else _short(at.get(shared))
                    mean = _mean(at, trained & at.keys())
                    found.setdefault(name, {})[measure] = [_short(mean), longest, *reached(at)]
    return found


def _errors(collection: Collection) -> dict[str, float]:
    """Of each run the float64 error under random permutations after training, at the inputs where they have logits."""
    frame = collection.symmetry
    if frame.empty or not {"action", "dtype", "quantity", "error_mean", "step", "checkpoint"} <= set(frame):
        return {}
    rows = frame[
        (frame["action"] == "uniform")
        & (frame["dtype"] == "float64")
        & (frame["checkpoint"] == "last")
        & frame["error_mean"].notna()
        & (frame["step"] == frame.groupby("run")["step"].transform("max"))
    ]
    found: dict[str, float] = {}
    for quantity in ("answer", "inputs"):  # the later one counts
        own = rows[rows["quantity"] == quantity]
        found |= dict(zip(own["run"].tolist(), own["error_mean"].tolist(), strict=True))
    return found


def _short(value: float | None) -> float | None:
    """Six digits: no figure on the page shows more."""
    return None if value is None else float(f"{value:.6g}")
