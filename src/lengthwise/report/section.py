"""What one setting has to show, and the words for its parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lengthwise.evaluation.verdict import NOT_AS_TRAINED
from lengthwise.report.collect import Group, Setting
from lengthwise.report.published import Beside
from lengthwise.report.statistics import Contrast, Estimate
from lengthwise.runs.lengths import SLIDING, bin_of

MEASURES = {"token_accuracy": "accuracy", "exact_match": "exact match"}
STRATA = {"evidence_inside": "inside", "evidence_outside": "outside"}
PERPLEXITIES = {"all": "blocks", SLIDING: "sliding window"}
DTYPES = {"float32": "fp32", "float64": "fp64"}
AS_DECLARED, AGAINST = "as declared", "against its declaration"

BEST_BLIND = "best_blind"
"""The name of the baseline that is the best of those which do not do the task (order-free rules excluded)."""


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
    lengths: tuple[int, ...] = ()  # input symbols of what it was measured on

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
    baselines: dict[str, dict[str, dict[int, float]]]  # group key -> name -> length -> accuracy
    flags: dict[str, dict[str, list[int]]]  # group key -> flag -> lengths
    protocols: list[str]
    shared_lengths: list[int]
    """Tested, or found to be not defined, in every run of the section: all that runs are compared on."""
    contrasts: list[Contrast] = field(default_factory=list)
    stated: bool = False
    unanswered: int = 0
    """Tests that the study states and that these runs do not answer: they count in Holm's correction."""
    published: list[Beside] = field(default_factory=list)
    """Published figures of the same task and protocol, with ours beside them."""
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
        self.published = []
        self.curves.clear()
        self.bins.clear()
        self.perplexities.clear()

    @property
    def trained_lengths(self) -> list[int]:
        """Those trained on, without any whose test items are drawn otherwise than in training."""
        other = {n for flags in self.flags.values() for n in flags.get(NOT_AS_TRAINED, [])}
        return sorted(set(self.setting.train_lengths) - other)

    @property
    def compared_lengths(self) -> list[int]:
        """The trained lengths that every run was tested at: every mean over trained lengths is over these."""
        return sorted(set(self.trained_lengths) & set(self.shared_lengths))

    @property
    def longest_trained(self) -> int:
        return max(self.trained_lengths, default=0)

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

    def best_blind(self, group: Group) -> dict[int, float]:
        """Length -> accuracy of the best blind rule that the group's models are compared with."""
        return self.baselines.get(group.key, {}).get(BEST_BLIND, {})

    def curve(self, group: Group, stratum: str = "all", measure: str | None = None) -> Curve | None:
        return self.curves.get((group.key, measure or self.measures[0], stratum))
