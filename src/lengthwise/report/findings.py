"""What the figures say, in sentences that are computed from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from statsmodels.stats.proportion import proportion_confint

from lengthwise.report.analysis import (
    ACTIONS,
    AFTER,
    AGAINST,
    DTYPES,
    STRATA,
    SUCCESS,
    Scores,
    Section,
    estimate,
    permutation_rows,
    ranking,
    scores_at,
    scores_in_distribution,
)
from lengthwise.report.collect import Group
from lengthwise.report.statistics import Contrast, holm, paired_contrast
from lengthwise.report.words import bracket, listed, percent, seeds_word, sentence
from lengthwise.runs import format_lengths


@dataclass(frozen=True)
class Finding:
    """One thing the figures say: what it is about, and the sentence."""

    about: str
    text: str


def findings(section: Section) -> list[Finding]:
    """What the figures say, in sentences computed from them; nothing is claimed that is not resolved."""
    said: list[Finding | None] = []
    if section.measures and section.lengths:
        said += [
            _blind(section),
            _in_distribution(section),
            _compared(section),
            _falls(section),
            _evidence(section),
        ]
    said += _equivariance(section)
    return [finding for finding in said if finding is not None]


def _blind(section: Section) -> Finding | None:
    """Groups that the test sequences do not tell from their own best blind baseline, at any length."""
    found, figures = [], []
    for group in section.groups:
        curve, best = section.curve(group), section.best_blind(group)
        at = curve.estimates if curve else {}
        if curve and all(n in best and _not_told(e.mean, curve.items[n], best[n]) for n, e in at.items()):
            found.append(group.label)
            figures += [(e.mean, best[n]) for n, e in at.items()]
    if not found:
        return None
    low, high = percent(min(figures)[0]), percent(max(figures)[0])
    span = low if low == high else f"{low} to {high}"
    is_it = (
        "is" if all(abs(mean - blind) < 1e-9 for mean, blind in figures) else "the test does not tell from"
    )
    return Finding(
        "No better than blind",
        f"{listed(found)}: {span} at every length, which {is_it} the best of the blind rules that are known.",
    )


def _not_told(mean: float, items: int, blind: float) -> bool:
    """Whether the error of the test sequences alone may make the difference (Agresti and Coull's interval)."""
    low, high = proportion_confint(mean * items, items, method="agresti_coull")
    return bool(low <= blind <= high)


def _in_distribution(section: Section) -> Finding | None:
    scores = {group.label: scores_in_distribution(section, group) for group in section.groups}
    means = {label: estimate(found).mean for label, found in scores.items() if found}
    if not means:
        return None
    every = section.compared_lengths == section.trained_lengths
    about = f"Trained lengths{'' if every else ' tested in every run'} ({format_lengths(section.compared_lengths)})"
    good = {label: mean for label, mean in means.items() if mean >= SUCCESS}
    if not good:
        best = max(means, key=lambda label: means[label])
        return Finding(
            about, f"no variant reaches {percent(SUCCESS)}; {best} is highest, {percent(means[best])}."
        )
    who = "every variant" if len(good) == len(means) > 2 else listed(good)
    low, high = percent(min(good.values())), percent(max(good.values()))
    span = low if low == high else f"{low} to {high}"
    return Finding(about, f"{who}: {span}, mean over seeds.")


def _compared(section: Section) -> Finding | None:
    length = section.compared_at
    if section.longest_shared is None or (length is not None and length <= section.longest_trained):
        return None
    ranked = ranking(section, length)
    if length is None and len(ranked) < 2:
        return None
    mean, best = ranked[0]
    at = estimate(scores_at(section, best, length))
    trained = f"Compared over the trained lengths {format_lengths(section.compared_lengths)}"
    about = trained if length is None else f"Length {length}"
    which = "the highest mean," if len(ranked) > 1 else "a mean of"
    said = f"{best.label} has {which} {percent(mean)}{bracket(at.low, at.high)}."
    if section.stated:
        return Finding(about, " ".join([said, *(sentence(contrast) for contrast in section.contrasts)]))
    level = [contrast for contrast in section.contrasts if not contrast.resolved]
    below = [contrast for contrast in section.contrasts if contrast.resolved]
    if equal := [contrast for contrast in level if contrast.difference == 0]:
        said += f" Over the same seeds {listed(c.b for c in equal)} {'has' if len(equal) == 1 else 'have'} the same."
    if ahead := [contrast for contrast in level if contrast.difference != 0]:
        seeds = sorted(contrast.n for contrast in ahead)
        said += f" Its lead over {listed(c.b for c in ahead)} is not resolved with {seeds_word(seeds[0], seeds[-1])}."
    if below:
        words = listed(f"{c.b} (by {100 * c.difference:.1f} points)" for c in below)
        said += f" Resolved as lower (the reference was picked after seeing the results): {words}."
    return Finding(about, said)


def _resolved_drops(
    section: Section, one: Callable[[Group], Scores], other: Callable[[Group], Scores]
) -> tuple[list[tuple[Group, Contrast]], list[int]]:
    """The same paired question (one above other) asked of every group, Holm-corrected as one family.

    Returns the groups where it is resolved, largest first, and the seeds that each answer rests on, fewest first.
    """
    asked = [(group, one(group), other(group)) for group in section.groups]
    asked = [(group, left, right) for group, left, right in asked if left.keys() & right.keys()]
    contrasts = holm(
        [paired_contrast(left, right, names=(group.label, group.label)) for group, left, right in asked]
    )
    drops = [
        (group, c)
        for (group, _, _), c in zip(asked, contrasts, strict=True)
        if c.resolved and c.difference > 0
    ]
    return sorted(drops, key=lambda pair: -pair[1].difference), sorted(c.n for c in contrasts)


def _falls(section: Section) -> Finding | None:
    length = section.longest_shared
    if length is None or length <= section.longest_trained:
        return None
    drops, seeds = _resolved_drops(
        section,
        lambda group: scores_in_distribution(section, group),
        lambda group: scores_at(section, group, length),
    )
    about = f"Fall from trained lengths ({format_lengths(section.compared_lengths)}) to {length}"
    if not drops:
        said = f"no fall is resolved with {seeds_word(seeds[0], seeds[-1])}." if seeds else ""
        return Finding(about, said) if said else None
    words = [f"{group.label} {100 * c.difference:.1f} points{bracket(c.low, c.high)}" for group, c in drops]
    return Finding(about, f"{listed(words)}.")


def _evidence(section: Section) -> Finding | None:
    """How much of an error is a matter of where the evidence lies, at the longest shared length with both strata."""
    inside, outside = STRATA
    lengths = [
        n for n in section.shared_lengths if any(scores_at(section, g, n, outside) for g in section.groups)
    ]
    if not lengths:
        return None
    length = max(lengths)
    drops, _ = _resolved_drops(
        section,
        lambda group: scores_at(section, group, length, inside),
        lambda group: scores_at(section, group, length, outside),
    )
    words = [
        f"{group.label} {percent(estimate(scores_at(section, group, length, inside)).mean)} inside the trained "
        f"positions, {percent(estimate(scores_at(section, group, length, outside)).mean)} outside"
        for group, _ in drops
    ]
    return Finding(f"Where the evidence lies, length {length}", f"{'; '.join(words)}.") if words else None


def _equivariance(section: Section) -> list[Finding | None]:
    rows = permutation_rows(section)
    said: list[Finding | None] = []
    keep = [row for row in rows if row.measured == "holds"]
    broken = [row for row in rows if row.measured == "fails"]
    if keep or broken:
        words = []
        if keep:
            worst = {kind: max(row.error.get((AFTER, kind), 0.0) for row in keep) for kind in DTYPES}
            figures = ", ".join(f"{worst[kind]:.1e} in {name}" for kind, name in DTYPES.items())
            words.append(f"kept by {listed(row.group.label for row in keep)} up to rounding ({figures})")
        if broken:
            least = min(row.error.get((AFTER, "float64"), float("inf")) for row in broken)
            words.append(
                f"broken by {listed(row.group.label for row in broken)} (error at least {least:.2g})"
            )
        said.append(Finding("Permutation equivariance after training", f"{'; '.join(words)}."))
    against = [row for row in section.symmetry if row.verdict == AGAINST]
    if against:
        cases = sorted({f"{row.group.label} ({ACTIONS[row.action]})" for row in against})
        said.append(Finding("Against what is declared", f"{listed(cases)}."))
    return said
