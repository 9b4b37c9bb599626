"""The finding of a group in one sentence, composed from the statistics."""

from __future__ import annotations

from collections.abc import Sequence

from volta.figures.names import full_name, heading, metric_key, split_key
from volta.metrics.floor_words import FLOOR_METRICS
from volta.report.run import Group
from volta.report.statistics import Statistics
from volta.report.table_model import decimals_for, show
from volta.stats import Aspect, Finding, find, sample_of

FEW = 3
"""Up to this many methods are named as those that lead; of more it is only said how many they are."""
ORDER = ("ece", "accuracy", "nll", "aurc", "auroc")
"""Calibration comes first: it is what the methods are for."""
_SUBJECTS = {"ece": "calibration", "nll": "likelihood", "aurc": "selective prediction"}


def finding_sentence(group: Group, own: Statistics) -> str:
    """Return what the run has found, in one sentence; empty where no cell has finished.

    ``own`` holds the statistics of that group alone. Whoever is said to lead is in the confidence set of the best, and
    all others are shown to be worse than some method; nothing is said of a mean that no test stands behind.
    """
    if group.table is None or not own.leaderboard:
        return ""
    found = find(group.task, own.leaderboard, own.pairs)
    if found.n_methods == 1:
        return _alone(group, found.first or group.compared)
    tested = sorted((one for one in found.aspects if one.is_tested), key=_place)
    clauses = _leaders(group, tested) if tested else []
    if not clauses:
        clauses = [_undecided(group, found, tested)]
    if tested and found.n_pairs:
        clauses.append(_alike(group, found))
    return f"On {group.task}, {'; '.join(clauses)}."


def _leaders(group: Group, tested: Sequence[Aspect]) -> list[str]:
    """Return who leads at what, and on what else nobody beats those named first; empty where nobody leads."""
    led = [one for one in tested if one.tells_apart and len(one.best) <= FEW]
    if not led:
        return []
    by_names: dict[frozenset[str], list[Aspect]] = {}
    for aspect in led:
        by_names.setdefault(aspect.names, []).append(aspect)
    clauses = []
    for names, aspects in by_names.items():
        verb = "leads" if len(names) == 1 else "lead"
        clauses.append(f"{_who(group, aspects[0])} {verb} in {listed([_subject(one) for one in aspects])}")
    first = next(iter(by_names))
    clauses[0] += ", and all others are shown to be worse" if len(by_names) == 1 else ""
    # With few seeds even the last by its mean may not be shown to be beaten, which is no praise.
    unbeaten = [_subject(one) for one in tested if first <= one.names & one.good and one not in led]
    if unbeaten:
        whom = _who(group, by_names[first][0]) if len(by_names) > 1 else "it" if len(first) == 1 else "them"
        clauses.append(f"no method is shown to beat {whom} in {listed(unbeaten)}")
    return clauses


def _undecided(group: Group, found: Finding, tested: Sequence[Aspect]) -> str:
    """Return that nobody is shown to lead, and who is first by mean rank."""
    first = ""
    if found.first and found.mean_rank is not None:
        verb = "comes" if len(found.first) == 1 else "come"
        names = listed([group.title(name) for name in found.first])
        first = f"{names} {verb} first by mean rank ({found.mean_rank:.1f} of {found.n_methods})"
    if not tested:
        return f"{first or 'no method has a place'}, but with one seed no method can be told from another"
    fewest = min(tested, key=lambda one: len(one.best) / one.n_distinct)
    most = f"{len(fewest.best)} of {fewest.n_distinct}"
    words = f"no method is shown to lead: even in {_subject(fewest)} {most} may be the best"
    return f"{words}; {first}" if first else words


def _alike(group: Group, found: Finding) -> str:
    seeds = "1 seed" if group.context.n_seeds == 1 else f"{group.context.n_seeds} seeds"
    rows = f"{seeds} of {group.context.n_rows:,} test rows"
    if not found.n_alike:
        return f"every pair of methods is told apart by some ranked metric, with {rows}"
    if found.n_pairs == 1:
        return f"the two are told apart by no ranked metric with {rows}"
    return f"tested pair by pair, {found.n_alike} of {found.n_pairs} are told apart by no ranked metric with {rows}"


def _alone(group: Group, names: Sequence[str]) -> str:
    """Return what can be said of a method without others: accuracy, and whether its ECE is more than chance gives."""
    name = names[0]
    accuracy, ece = (group.values(name, metric) for metric in ("accuracy", "ece"))
    if not accuracy or not ece:
        return ""
    mean = sample_of(ece).mean
    words = f"On {group.task}, {group.title(name)} has an accuracy of {show('accuracy', sample_of(accuracy).mean)}"
    words += f" and an ECE of {show('ece', mean, decimals_for([mean]))}"
    floors = [group.values(name, metric) for metric in FLOOR_METRICS]
    if all(floors):
        _, low, high = (sample_of(values).mean for values in floors)
        place = "above" if mean > high else "below" if mean < low else "within"
        words += f", {place} what chance alone gives a perfectly calibrated predictor ({low:.4f}–{high:.4f})"
    return f"{words}; nothing was run beside it."


def _who(group: Group, aspect: Aspect) -> str:
    """Return the names of those that lead; methods with the same predictions are named together."""
    parts = []
    for names in aspect.best:
        titles = [group.title(name) for name in names]
        more = f" (and {len(titles) - 1} more with the same predictions)"
        parts.append(titles[0] + more if len(titles) > FEW else "/".join(titles))
    return listed(parts)


def _subject(aspect: Aspect) -> str:
    key = metric_key(aspect.metric, aspect.set)
    if aspect.metric == "accuracy":
        return "accuracy"
    if aspect.metric == "auroc":
        kind = split_key(key)[1].partition(":")[0]
        return f"{kind}-OOD detection" if kind in ("near", "far") else f"OOD detection ({full_name(key)})"
    return f"{_SUBJECTS[aspect.metric]} ({heading(key)})"


def _place(aspect: Aspect) -> tuple[int, str]:
    # Near OOD before far OOD.
    return ORDER.index(aspect.metric), "" if aspect.set.startswith("near") else aspect.set


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence: «a, b and c»."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
