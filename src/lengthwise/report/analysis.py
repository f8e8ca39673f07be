"""From frames to what is shown: curves, contrasts, successes and symmetries of each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from lengthwise.evaluation.perplexity import perplexity
from lengthwise.evaluation.verdict import MEASURED_BY, SUCCESS, judge
from lengthwise.report.collect import Collection, Group, Setting, baselines_of
from lengthwise.report.statistics import (
    Contrast,
    Estimate,
    exact_interval,
    holm,
    paired_contrast,
    seed_interval,
)
from lengthwise.report.words import listed
from lengthwise.runs.lengths import SLIDING, bin_of

MEASURES = {"token_accuracy": "accuracy", "exact_match": "exact match"}
STRATA = {"evidence_inside": "inside", "evidence_outside": "outside"}
PERPLEXITIES = {"all": "blocks", SLIDING: "sliding window"}
EXACT = "exact"
"""What ``overlap_is`` says of a share that is no lower bound."""

DTYPES = {"float32": "fp32", "float64": "fp64"}
AS_DECLARED, AGAINST = "as declared", "against its declaration"

BEST_BLIND = "best_blind"
"""The name of the baseline that is the best of those which do not do the task (order-free rules excluded)."""

Scores = dict[Any, tuple[float, int]]
"""seed -> (accuracy, test sequences behind it)."""


@dataclass(frozen=True)
class Curve:
    """One group, one measure, one stratum: an estimate a length, and each seed's own line."""

    estimates: dict[int, Estimate]
    seeds: dict[Any, dict[int, float]]  # seed -> length -> value
    items: dict[int, int]  # length -> test sequences (the smallest over seeds)

    @property
    def lengths(self) -> list[int]:
        return sorted(self.estimates)


@dataclass(frozen=True)
class SymmetryRow:
    """One action on one group; figures are means over its seeds, keys are (moment, dtype)."""

    group: Group
    action: str
    quantity: str
    error: dict[tuple[str, str], float]
    difference: dict[tuple[str, str], float]
    flips: float | None
    measured: str  # holds, fails, unclear, not measured; "mixed" where seeds disagree
    declared: bool | None
    n: int

    @property
    def verdict(self) -> str:
        if self.declared is None or self.measured not in ("holds", "fails"):
            return ""
        return AS_DECLARED if (self.measured == "holds") == self.declared else AGAINST


@dataclass(frozen=True)
class Success:
    """How many seeds reach an exact match of `SUCCESS` at a length, with the exact interval of that probability."""

    group: Group
    length: int
    successes: int
    n: int
    low: float
    high: float


@dataclass
class Section:
    """All that one setting (task and trained lengths) has to show."""

    setting: Setting
    groups: list[Group]
    curves: dict[tuple[str, str, str], Curve]  # (group key, measure, stratum)
    measures: list[str]
    baselines: dict[str, dict[int, float]]
    flags: dict[str, dict[str, list[int]]]  # group key -> flag -> lengths
    protocols: list[str]
    shared_lengths: list[int]
    """Tested, or found to be not defined, in every run of the section: all that runs are compared on."""
    contrasts: list[Contrast] = field(default_factory=list)
    stated: bool = False
    successes: list[Success] = field(default_factory=list)
    symmetry: list[SymmetryRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    bins: dict[tuple[str, str, str], Curve] = field(default_factory=dict)
    """As `curves`: one bin of lengths each, its stratum, at the longest of them."""
    perplexities: dict[tuple[str, str], dict[int, Estimate]] = field(default_factory=dict)
    """(group key, "all" or `SLIDING`) -> length -> perplexity, where a text was tested."""

    def leave_out_accuracy(self) -> None:
        """Show nothing of how well the runs do: that is not what was asked."""
        self.measures, self.contrasts, self.successes, self.notes = [], [], [], []
        self.curves.clear()
        self.bins.clear()
        self.perplexities.clear()

    @property
    def longest_trained(self) -> int:
        return max(self.setting.train_lengths)

    @property
    def trained_only(self) -> bool:
        """Whether no run was tested beyond the trained lengths: variants are then compared over those together."""
        return bool(self.lengths) and max(self.lengths) <= self.longest_trained

    @property
    def lengths(self) -> list[int]:
        return sorted({length for curve in self.curves.values() for length in curve.estimates})

    @property
    def bin_names(self) -> list[str]:
        """The strata of the bins that were tested, from short to long."""
        return sorted({stratum for _, _, stratum in self.bins}, key=lambda name: bin_of(name) or (0, 0))

    @property
    def longest_shared(self) -> int | None:
        """The longest length at which runs may be compared; None where there is none that all were tested at."""
        return max((length for length in self.lengths if length in self.shared_lengths), default=None)

    @property
    def compared_at(self) -> int | None:
        """The length at which variants are compared: the longest that may be; None = over the trained lengths."""
        return None if self.trained_only else self.longest_shared

    @property
    def most_seeds(self) -> int:
        return max((len(group.runs) for group in self.groups), default=0)

    @property
    def fewest_seeds(self) -> int:
        return min((len(group.runs) for group in self.groups), default=0)

    def curve(self, group: Group, stratum: str = "all", measure: str | None = None) -> Curve | None:
        return self.curves.get((group.key, measure or self.measures[0], stratum))


def analyse(collection: Collection, study: Mapping[str, Any] | None = None) -> list[Section]:
    """One section a setting. `study` may state contrasts: ``[{a: rotary, b: learned, at_length: 100}]``."""
    sections = []
    for setting in collection.settings:
        groups = collection.groups_of(setting)
        frame = _of(collection.lengths, setting)
        everything = _records(frame)
        binned = [row for row in everything if bin_of(row.get("stratum"))]
        rows = [row for row in everything if not bin_of(row.get("stratum"))]
        section = Section(
            setting, groups, _curves(rows), _measures(rows), baselines_of(frame), _flags(rows),
            sorted({row["protocol"] for row in rows if "protocol" in row}), _shared_lengths(rows),
            bins=_curves(binned), perplexities=_perplexities(rows),
        )  # fmt: skip
        if section.measures:
            _compare(section, list((study or {}).get("contrasts") or []))
            section.successes = _successes(section)
            section.notes += _length_notes(section)
            section.notes += _overlap_notes(everything)
        section.symmetry = _symmetry(_records(_of(collection.symmetry, setting)), groups)
        section.notes += _flag_notes(section)
        sections.append(section)
    return sections


def _of(frame: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    return frame[frame["setting"] == setting.key] if "setting" in frame else frame


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain dicts; what is not there is left out, so that ``get`` gives None."""
    names = list(frame.columns)
    columns = [frame[name].tolist() for name in names]
    return [
        {k: v for k, v in zip(names, row, strict=True) if v is not None and v == v}
        for row in zip(*columns, strict=True)
    ]


def _measures(rows: list[dict[str, Any]]) -> list[str]:
    """The measures to show; one alone where both say the same (a single answer symbol)."""
    known = [name for name in MEASURES if any(name in row for row in rows)]
    if len(known) < 2 or any(row.get("n") != row.get("n_tokens") for row in rows):
        return known
    pairs = [(row[known[0]], row[known[1]]) for row in rows if known[0] in row and known[1] in row]
    return known[:1] if all(abs(one - other) < 1e-9 for one, other in pairs) else known


def _curves(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], Curve]:
    points: dict[tuple[str, str, str], dict[int, dict[Any, tuple[float, int]]]] = {}
    for row in rows:
        for measure in MEASURES:
            if measure in row and row.get("n", 0) > 0:
                key = (row["group"], measure, row.get("stratum", "all"))
                points.setdefault(key, {}).setdefault(int(row["length"]), {})[row["seed"]] = (
                    row[measure],
                    int(row["n"]),
                )
    curves = {}
    for key, by_length in points.items():
        lengths = sorted(by_length)
        seeds: dict[Any, dict[int, float]] = {}
        for length in lengths:
            for seed, (value, _) in by_length[length].items():
                seeds.setdefault(seed, {})[length] = float(value)
        curves[key] = Curve(
            {length: estimate(by_length[length]) for length in lengths},
            seeds,
            {length: min(n for _, n in by_length[length].values()) for length in lengths},
        )
    return curves


def _shared_lengths(rows: list[dict[str, Any]]) -> list[int]:
    by_run: dict[str, set[int]] = {}
    for row in rows:
        by_run.setdefault(row["run"], set()).add(int(row["length"]))
    return sorted(set.intersection(*by_run.values())) if by_run else []


def _length_notes(section: Section) -> list[str]:
    longest = section.longest_shared
    if longest is None:
        return ["No length was tested in every run: nothing is compared."]
    if more := [length for length in section.lengths if length > longest]:
        return [
            f"Only some of the runs were tested at length {listed(more)}; they are compared at {longest}."
        ]
    return []


def _perplexities(rows: list[dict[str, Any]]) -> dict[tuple[str, str], dict[int, Estimate]]:
    if not any(row.get("stratum") == SLIDING for row in rows):
        return {}
    points: dict[tuple[str, str], dict[int, list[float]]] = {}
    for row in rows:
        value = perplexity(row.get("loss"))
        if value is not None and row.get("stratum") in ("all", SLIDING):
            by_length = points.setdefault((row["group"], row["stratum"]), {})
            by_length.setdefault(int(row["length"]), []).append(value)
    return {
        key: {length: seed_interval(values) for length, values in sorted(by_length.items())}
        for key, by_length in points.items()
    }


_OVERLAPS_SHOWN = 12


def _overlap_notes(rows: list[dict[str, Any]]) -> list[str]:
    """The largest share, over the runs, of test inputs that training had seen too."""
    found: dict[tuple[int, int], tuple[float, bool]] = {}  # (shortest, longest) -> share, whether it is exact
    for row in rows:
        if row.get("train_overlap", 0) > 0:
            lengths = bin_of(row.get("stratum")) or (int(row["length"]), int(row["length"]))
            now = (row["train_overlap"], row.get("overlap_is") == EXACT)
            found[lengths] = max(found.get(lengths, now), now, key=lambda one: one[0])
    if not found:
        return []
    shown = [
        f"{'' if exact else 'at least '}{100 * share:.1f} % at {low if low == high else f'{low}-{high}'}"
        for (low, high), (share, exact) in sorted(found.items())
    ]
    more = (
        f" and others at {len(shown) - _OVERLAPS_SHOWN} more lengths" if len(shown) > _OVERLAPS_SHOWN else ""
    )
    return [
        f"Test inputs that training had seen too, in the run that had seen the most: "
        f"{', '.join(shown[:_OVERLAPS_SHOWN])}{more}."
    ]


def _flags(rows: list[dict[str, Any]]) -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, set[int]]] = {}
    for row in rows:
        for flag in filter(None, (part.strip() for part in str(row.get("flags", "")).split(";"))):
            found.setdefault(row["group"], {}).setdefault(flag, set()).add(int(row["length"]))
    return {group: {flag: sorted(at) for flag, at in flags.items()} for group, flags in found.items()}


def _flag_notes(section: Section) -> list[str]:
    notes = []
    for group in section.groups:
        for flag, lengths in section.flags.get(group.key, {}).items():
            where = f"at length {listed(lengths)}"
            if flag == "untrained_positions":
                notes.append(
                    f"{group.label}: positions past those of the longest trained input ({section.longest_trained} "
                    f"symbols) were never trained; they are in use {where}."
                )
            elif flag == "not_defined":
                notes.append(f"{group.label}: cannot represent such inputs {where}; no figure there.")
            else:
                notes.append(f"{group.label}: {flag.replace('_', ' ')} {where}.")
    return notes


def scores_at(section: Section, group: Group, length: int | None, stratum: str = "all") -> Scores:
    """Each seed's accuracy at `length`; None = over the trained lengths."""
    if length is None:
        return scores_in_distribution(section, group)
    curve = section.curve(group, stratum)
    if curve is None or length not in curve.estimates:
        return {}
    return {seed: (at[length], curve.items[length]) for seed, at in curve.seeds.items() if length in at}


def scores_in_distribution(section: Section, group: Group) -> Scores:
    """Each seed's mean over the lengths that were trained on and that every run was tested at."""
    curve = section.curve(group)
    if curve is None:
        return {}
    both = set(section.shared_lengths) & set(section.setting.train_lengths)
    trained = [length for length in curve.lengths if length in both]
    scores = {}
    for seed, at in curve.seeds.items():
        if trained and all(length in at for length in trained):
            scores[seed] = (sum(at[n] for n in trained) / len(trained), sum(curve.items[n] for n in trained))
    return scores


def estimate(scores: Scores) -> Estimate:
    return seed_interval([value for value, _ in scores.values()], [items for _, items in scores.values()])


def _compare(section: Section, wanted: Sequence[Mapping[str, Any]]) -> None:
    """The contrasts the study states; without any, each group against the best at the longest length of all."""
    found: list[Contrast] = []
    if wanted:
        section.stated = True
        for contrast in wanted:
            a, b = _group_named(section, contrast.get("a")), _group_named(section, contrast.get("b"))
            length = contrast.get("at_length") or section.compared_at
            if a is None or b is None:
                missing = contrast.get("a") if a is None else contrast.get("b")
                section.notes.append(
                    f"The study contrasts {missing}, which is not (or not uniquely) among these runs."
                )
                continue
            pairs = _paired(section, a, b, length)
            if not pairs:
                where = f"at length {length}" if length else "that was tested in every run"
                section.notes.append(
                    f"{a.label} and {b.label}, which the study contrasts, share no test {where}."
                )
            found += pairs
    elif section.longest_shared is not None:
        length = section.compared_at
        ranked = ranking(section, length)
        for _, other in ranked[1:]:
            best = ranked[0][1]
            found += _paired(section, best, other, length)
    section.contrasts = holm(found)


def _paired(section: Section, a: Group, b: Group, length: int | None) -> list[Contrast]:
    left, right = scores_at(section, a, length), scores_at(section, b, length)
    if not left.keys() & right.keys():
        return []
    return [paired_contrast(left, right, names=(a.label, b.label), at=length)]


def _group_named(section: Section, name: Any) -> Group | None:
    exact = [group for group in section.groups if group.label == name]
    by_encoding = [group for group in section.groups if group.encoding == name]
    candidates = exact or by_encoding
    return candidates[0] if len(candidates) == 1 else None


def ranking(section: Section, length: int | None) -> list[tuple[float, Group]]:
    """(mean, group) at `length` (None = over the trained lengths), highest first."""
    found = [(scores_at(section, group, length), group) for group in section.groups]
    means = [(estimate(scores).mean, group) for scores, group in found if scores]
    return sorted(means, key=lambda pair: -pair[0])


def _successes(section: Section) -> list[Success]:
    found = []
    measure = "exact_match" if "exact_match" in section.measures else section.measures[0]
    for group in section.groups:
        curve = section.curve(group, measure=measure)
        for length, at in (curve.estimates if curve else {}).items():
            right = sum(point >= SUCCESS for point in at.points)
            found.append(Success(group, length, right, at.n, *exact_interval(right, at.n)))
    return found


ACTIONS = {
    "adjacent_swap": "two neighbours swapped",
    "cyclic_shift": "cyclic shift",
    "block": "two blocks exchanged",
    "reversal": "inputs reversed",
    "uniform": "random permutation",
    "whole_reversal": "whole sequence reversed",
    "translation": "positions + c",
    "padding": "padding added",
}
BEFORE, AFTER = "before", "after"
QUANTITIES = ("inputs", "answer")
JUDGED = ("dtype", "quantity", "error_max", "difference_max")


def _symmetry(rows: list[dict[str, Any]], groups: list[Group]) -> list[SymmetryRow]:
    last: dict[str, float] = {}
    for row in rows:
        last[row["run"]] = max(last.get(row["run"], 0), row.get("step", 0))
    by_action: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        moment = _moment(row, last[row["run"]])
        if moment and row.get("quantity") in QUANTITIES and row.get("action") in ACTIONS:
            by_action.setdefault((row["group"], row["action"]), []).append({**row, "moment": moment})
    found = []
    for group in groups:
        for action in ACTIONS:
            own = by_action.get((group.key, action), [])
            after: dict[str, list[dict[str, Any]]] = {}
            for row in own:
                if row["moment"] == AFTER:
                    after.setdefault(row["run"], []).append(dict.fromkeys(JUDGED) | row)
            judged = {judge(one) for one in after.values()} or {"not measured"}
            measured = judged.pop() if len(judged) == 1 else "mixed"
            for quantity in QUANTITIES:
                part = [row for row in own if row["quantity"] == quantity]
                if part:
                    flips = _means([row for row in part if row["moment"] == AFTER], "flips").values()
                    found.append(
                        SymmetryRow(
                            group, action, quantity, _means(part, "error_mean"), _means(part, "difference_mean"),
                            max(flips, default=None), measured, _declared(group, action), len(after),
                        )
                    )  # fmt: skip
    return found


def _moment(row: dict[str, Any], last_step: float) -> str:
    """before or after training; "" for what was measured in between, or on another checkpoint than the last."""
    if row.get("step", last_step) == 0 and last_step > 0:
        return BEFORE
    return (
        AFTER if row.get("step", last_step) == last_step and row.get("checkpoint", "last") == "last" else ""
    )


def _means(rows: list[dict[str, Any]], column: str) -> dict[tuple[str, str], float]:
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if column in row:
            values.setdefault((row["moment"], row["dtype"]), []).append(float(row[column]))
    return {key: sum(found) / len(found) for key, found in values.items()}


def _declared(group: Group, action: str) -> bool | None:
    """Whether the model declares to keep what this action tests; None where it says nothing about it.

    Padding must never matter. A model that keeps all permutations keeps each kind; one that does not may keep some.
    """
    if action == "padding":
        return True
    declared = dict(group.declared)
    for symmetry, measured_by in MEASURED_BY.items():
        if action == measured_by:
            return declared.get(symmetry)
    return declared.get("permutation") or None


def permutation_rows(section: Section) -> list[SymmetryRow]:
    """Random permutations of the inputs, at the inputs where they have logits: one row a group."""
    rows = [row for row in section.symmetry if row.action == "uniform"]
    at_inputs = {row.group.key for row in rows if row.quantity == "inputs"}
    return [row for row in rows if row.quantity == "inputs" or row.group.key not in at_inputs]
