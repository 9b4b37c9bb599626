"""``volta.compare``: evaluations on the same rows against each other, row by row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from volta.bench.cells import Cell
from volta.bench.own.predictions import OwnModel, stored_arrays
from volta.bench.own.rows import match_rows
from volta.bench.records import OWN
from volta.core.errors import InputError
from volta.core.types import Array
from volta.evaluation.evaluation import Evaluation
from volta.stats import LeaderboardRow, Results, TestRow, compare_all_pairs, make_leaderboard
from volta.stats.bootstrap import N_RESAMPLES
from volta.stats.comparisons import Bootstraps
from volta.stats.leaderboard import OVERALL
from volta.stats.stored_bootstrap import bootstrap_table

TASK = "predictions"


@dataclass(frozen=True, eq=False)
class EvaluationComparison:
    """Evaluations of several methods on the same rows; :func:`volta.compare` makes one.

    ``pairs``: every pair on every tested metric, with the difference, its bootstrap interval, p-values (Holm over all
    pairs of a metric) and a verdict on the first of the two; ``leaderboard``: places by mean rank, and on each metric
    which methods may be the best.
    """

    evaluations: Mapping[str, tuple[Evaluation, ...]]
    near: tuple[str, ...]
    n_resamples: int

    @cached_property
    def pairs(self) -> tuple[TestRow, ...]:
        """Every pair of methods on every tested metric."""
        return tuple(compare_all_pairs([self._table], self._bootstraps))

    @cached_property
    def leaderboard(self) -> tuple[LeaderboardRow, ...]:
        """The methods by place, each with a row a ranked metric."""
        return tuple(make_leaderboard([self._table], self._bootstraps))

    def pair(self, first: str, second: str, metric: str, eval_set: str = "test") -> TestRow:
        """Return the test of ``first`` against ``second`` on a metric: its difference, gain and verdict are first's."""
        for row in self.pairs:
            if (row.metric, row.set) != (metric, eval_set):
                continue
            if (row.reference, row.method) == (first, second):
                return row
            if (row.reference, row.method) == (second, first):
                return row.turned()
        known = ", ".join(dict.fromkeys(f"{row.metric} on {row.set}" for row in self.pairs))
        raise InputError(f"there is no test of {first!r} and {second!r} on {metric} of {eval_set}; tested are: {known}")

    def report(self, path: str | Path, title: str = TASK) -> Path:
        """Write one HTML page with all methods, tests and figures; return its path."""
        from volta.evaluation.page import write_page

        return write_page(Path(path), self._models, self.near, self.n_resamples, title)

    @cached_property
    def _models(self) -> list[OwnModel]:
        named = [one.named(method, seed) for method, runs in self.evaluations.items() for seed, one in enumerate(runs)]
        return match_rows(named, {})

    @cached_property
    def _table(self) -> Results:
        values: dict[str, dict[str, dict[str, dict[int, float]]]] = {}
        cells = {}
        for method, runs in self.evaluations.items():
            for seed, one in enumerate(runs):
                cells[method, seed] = Cell(TASK, OWN, method, seed, "0")
                for eval_set, metrics in one.metrics.items():
                    for metric, value in metrics.items():
                        by_set = values.setdefault(method, {}).setdefault(eval_set, {})
                        by_set.setdefault(metric, {})[seed] = value
        names = dict.fromkeys(name for sets in values.values() for name in sets if name.startswith("ood:"))
        near = tuple(name for name in names if name.removeprefix("ood:") in self.near)
        titles, origins = {name: name for name in values}, dict.fromkeys(values, OWN)
        return Results(TASK, OWN, values, titles, origins, near or tuple(names)[:1], cells, no_near_set=not near)

    @cached_property
    def _bootstraps(self) -> Bootstraps:
        models = {(model.method, model.seed): model for model in self._models}
        read = partial(_arrays, models)
        return {(TASK, OWN): bootstrap_table(self._table, read, self.n_resamples)}

    def __repr__(self) -> str:
        lines = [f"comparison of {', '.join(self.evaluations)} on {len(self._models[0].sets['test'])} rows"]
        lines += [f"  {words}" for words in self._words()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        return "<br>".join(escape(line) for line in repr(self).splitlines())

    def _words(self) -> list[str]:
        best: dict[str, list[str]] = {}
        for row in self.leaderboard:
            if row.metric != OVERALL and row.in_best_group is not False:
                value = "" if row.mean is None else f" {row.mean:.4f}"
                name = row.metric if row.set == "test" else f"{row.metric} on {row.set.removesuffix(':')}"
                best.setdefault(name, []).append(f"{row.method}{value}")
        return [f"{name}: may be the best: {', '.join(methods)}" for name, methods in best.items()]


def _arrays(models: Mapping[tuple[str, int], OwnModel], method: str, seed: int) -> Mapping[str, Array]:
    return stored_arrays(models[method, seed])


def compare(
    evaluations: Mapping[str, Evaluation | Sequence[Evaluation]], *, n_resamples: int = N_RESAMPLES
) -> EvaluationComparison:
    """Compare methods on the same rows, row by row, by a paired bootstrap.

    Parameters
    ----------
    evaluations
        Method's name → its evaluation, or a list of them, one a seed. All must be of the same rows in the same order:
        other labels are refused.
    n_resamples
        Resamples of the rows behind each test and interval.

    Examples
    --------
    >>> import numpy as np
    >>> from volta import evaluate
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 500)
    >>> logits = rng.normal(size=(500, 3)) + 2 * np.eye(3)[labels]
    >>> sharp, blunt = evaluate(logits=logits, labels=labels), evaluate(logits=0.2 * logits, labels=labels)
    >>> compare({"sharp": sharp, "blunt": blunt}, n_resamples=200).pair("sharp", "blunt", "nll").verdict
    'better'
    """
    if not isinstance(evaluations, Mapping):
        raise InputError(f"evaluations is a {type(evaluations).__name__}; pass name → evaluation, as in {{'a': first}}")
    if len(evaluations) < 2:
        raise InputError(f"evaluations holds {len(evaluations)} methods; pass at least two")
    runs = {name: _as_runs(name, one) for name, one in evaluations.items()}
    for name, own in runs.items():
        if not isinstance(name, str):
            raise InputError(f"evaluations has a method called {name!r}; name methods by text")
        if not all(isinstance(one, Evaluation) for one in own):
            raise InputError(
                f"evaluations[{name!r}] holds something else than evaluations; make them by volta.evaluate"
            )
        if not own:
            raise InputError(f"evaluations[{name!r}] is empty; pass an evaluation, or a list with one a seed")
    near = dict.fromkeys(name for own in runs.values() for one in own for name in one.near)
    # The means over near and far sets are those of the same sets for every method.
    runs = {name: tuple(_with_near(one, near) for one in own) for name, own in runs.items()}
    found = EvaluationComparison(runs, tuple(near), n_resamples)
    _check_same_rows(found)
    return found


def _as_runs(name: str, given: object) -> tuple[Evaluation, ...]:
    if isinstance(given, Evaluation):
        return (given,)
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InputError(f"evaluations[{name!r}] is a {type(given).__name__}; pass an evaluation, or a list of them")
    return tuple(given)


def _with_near(one: Evaluation, near: Collection[str]) -> Evaluation:
    own = tuple(name for name in near if f"ood:{name}" in one.model.sets)
    return one if set(own) == set(one.near) else replace(one, near=own)


def _check_same_rows(comparison: EvaluationComparison) -> None:
    (first, (reference, *_)), *_ = comparison.evaluations.items()
    for name, runs in comparison.evaluations.items():
        for one in runs:
            if one.n_rows != reference.n_rows:
                raise InputError(
                    f"{name!r} has {one.n_rows} rows but {first!r} has {reference.n_rows}; evaluate the same rows"
                )
            differs = one.labels != reference.labels
            if differs.any():
                row = int(np.argmax(differs))
                raise InputError(
                    f"{name!r} has label {one.labels[row]} in row {row} where {first!r} has {reference.labels[row]}; "
                    "evaluate the same rows in the same order"
                )
