"""``volta.evaluate`` and ``volta.compare``: predictions as arrays in; metrics, intervals, plots and a report out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from volta.bench.cell_metrics import metrics_of
from volta.bench.records import EXTERNAL, Cell, CellRecord, scoring_environment, updated_manifest
from volta.bench.store import RunStore
from volta.core.checks import refuse_mask, without_graph
from volta.core.errors import InputError, MissingDataError
from volta.core.files import write_text
from volta.core.types import Array, check_near
from volta.decisions.conformal import binomial_interval
from volta.metrics import METRICS, Interval, risk_coverage_curve, roc_curve
from volta.metrics.expected_ece import EXPECTED_ECE_METRICS, show_expected_ece
from volta.predictions.external_model import ExternalModel, RowSet, check_model, check_name, stored_arrays
from volta.predictions.matching import (
    Destination,
    Reference,
    add_predictions,
    find_destination,
    make_cell,
    make_record,
    match_rows,
)
from volta.stats.bootstrap import (
    LEVEL,
    N_RESAMPLES,
    Bootstraps,
    bootstrap_table,
    cell_scores,
    hierarchical_interval,
    paired_bootstrap,
)
from volta.stats.comparisons import TestRow, compare_all_pairs
from volta.stats.ranking import OVERALL, LeaderboardRow, make_leaderboard
from volta.stats.results import Results, group_records

if TYPE_CHECKING:
    from matplotlib.axes import Axes


CURVE_POINTS = 1_000
"""As many points as a curve is drawn with at most; a screen shows no more."""


@dataclass(frozen=True, eq=False)
class Plots:
    """The plots of an evaluation; each draws on ``ax``, or on new axes, and returns them."""

    evaluation: Evaluation

    def reliability(self, ax: Axes | None = None) -> Axes:
        """Draw accuracy by confidence in the 15 bins of ECE, the gap to the mean confidence, and the share of rows."""
        axes = _axes(ax)
        from volta.figures.calibration import draw_reliability
        from volta.report.curves import bin_sums, method_bins

        sums = bin_sums(self.evaluation.arrays["test/probs"], self.evaluation.arrays["test/labels"])
        ece, expected = (self.evaluation.metrics["test"][metric] for metric in ("ece", "ece_expected"))
        draw_reliability(axes, method_bins("volta", "Reliability", sums, ece, expected=expected))
        axes.set_xlabel("confidence")
        axes.set_ylabel("accuracy")
        return axes

    def risk_coverage(self, ax: Axes | None = None) -> Axes:
        """Draw the share of errors among the rows that are kept, the most certain first, against their share."""
        axes = _axes(ax)
        arrays = self.evaluation.arrays
        correct = arrays["test/probs"].argmax(axis=1) == arrays["test/labels"]
        curve = risk_coverage_curve(arrays["test/uncertainty"], correct)
        _draw(axes, curve.coverage, curve.risk, f"AURC {self.evaluation.metrics['test']['aurc']:.4f}")
        axes.set_xlabel("coverage: share of rows kept, most certain first")
        axes.set_ylabel("risk: share of errors among them")
        return axes

    def roc(self, ax: Axes | None = None) -> Axes:
        """Draw the ROC curve of each OOD set, OOD rows being positive."""
        arrays = self.evaluation.arrays
        outside = [name for name in self.evaluation.metrics if name.startswith("ood:")]
        if not outside:
            raise InputError("there is no OOD set to draw a ROC curve of; pass ood={name: scores} and id_score")
        axes = _axes(ax)
        for name in outside:
            curve = roc_curve(arrays["test/ood_score"], arrays[f"{name}/ood_score"])
            area = self.evaluation.metrics[name]["auroc"]
            _draw(axes, curve.fpr, curve.tpr, f"{name.removeprefix('ood:')}: AUROC {area:.4f}")
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, linestyle="--")
        axes.set_ylim(0, 1)
        axes.set_xlabel("share of test rows called OOD")
        axes.set_ylabel("share of OOD rows called OOD")
        return axes


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingDataError("plots need matplotlib: pip install 'volta-uq[bench]'") from error
    return pyplot.subplots()[1]


def _draw(axes: Axes, x: Array, y: Array, label: str) -> None:
    shown = np.unique(np.linspace(0, len(x) - 1, min(len(x), CURVE_POINTS)).astype(np.intp))
    axes.plot(x[shown], y[shown], label=label)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.legend()


def write_page(
    path: Path, models: Sequence[ExternalModel], near: Collection[str], n_resamples: int, title: str
) -> Path:
    """Write the page of the models, with their statistics, and return its path. Nothing else is written."""
    try:
        from volta.report.build import make_page
        from volta.report.curves import read_group
        from volta.report.run import Run, group_cells
        from volta.report.statistics import compute_statistics
    except ModuleNotFoundError as error:
        raise MissingDataError(f"a report needs {error.name}: pip install 'volta-uq[bench]'") from error
    arrays, records = stored_in_memory(models, near)
    manifest = updated_manifest(None, list(arrays), command="", environment=scoring_environment())
    run = Run(None, manifest, group_cells(manifest.cells, records))
    read = {group.key: read_group(group, lambda record: arrays[record.cell]) for group in run.groups}
    rows = {(group.task, group.protocol): read[group.key].rows for group in run.groups}
    text = make_page(run, compute_statistics(None, run.tables, n_resamples, rows=rows), read, title=title)
    write_text(path, text)
    return path


def stored_in_memory(
    models: Sequence[ExternalModel], near: Collection[str]
) -> tuple[dict[Cell, dict[str, Array]], list[CellRecord]]:
    """Return the arrays and the records that a run folder would hold of the models."""
    near_sets = {f"ood:{name}" for name in near}
    arrays, records = {}, []
    for model in models:
        check_name(model)
        own = stored_arrays(model)
        cell = make_cell(model, Destination(TASK, EXTERNAL), own)
        arrays[cell] = own
        records.append(make_record(model, cell, own, near_sets))
    return arrays, records


SHOWN = ("accuracy", "nll", "brier", "ece", "aurc", "auroc", "fpr95", "coverage", "set_size")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One model's predictions, evaluated; :func:`volta.evaluate` makes one.

    ``metrics``: set → metric → value, the sets being "test", "ood:NAME", "near:" and "far:" (means over OOD sets),
    "test+msp" (by 1 − max p) and, with validation rows, "test+T" (after one temperature fitted to them).
    """

    model: ExternalModel = field(repr=False)
    near: tuple[str, ...] = ()
    n_resamples: int = N_RESAMPLES

    @cached_property
    def arrays(self) -> Mapping[str, Array]:
        """The predictions as a run folder stores them, by ``SET/KIND``."""
        return stored_arrays(self.model)

    @cached_property
    def metrics(self) -> Mapping[str, Mapping[str, float]]:
        """Set → metric → value."""
        found, _ = metrics_of(self.arrays, self.near)
        return {str(eval_set): values for eval_set, values in found.items()}

    @cached_property
    def intervals(self) -> Mapping[str, Mapping[str, Interval]]:
        """Set → metric → its 95 % interval over new rows, of the metrics that can be resampled.

        Of accuracy the exact binomial one (Clopper and Pearson); of others the basic bootstrap interval, cut to where
        the metric can lie, with the same resamples for every metric. A bootstrap knows only the errors that it has
        seen: with a handful of wrong rows the intervals of NLL, Brier, ECE and AURC are too narrow.
        """
        name = "model"
        ood = tuple(dict.fromkeys(key.removesuffix("/ood_score") for key in self.arrays if key.startswith("ood:")))
        ood = tuple(one for one in ood if f"{one}/ood_score" in self.arrays)
        bootstrap = paired_bootstrap({name: [cell_scores(self.arrays, ood)]}, self.n_resamples)
        found: dict[str, dict[str, Interval]] = {}
        for (metric, eval_set), by in bootstrap.observed.items():
            observed = np.array([by[name][0]])
            low, high = hierarchical_interval(observed, bootstrap.resampled[metric, eval_set][name][0][None], LEVEL)
            top = np.inf if metric in ("nll", "brier") else 1.0
            if metric == "accuracy":
                low, high = binomial_interval(round(float(observed[0]) * self.n_rows), self.n_rows, LEVEL)
            interval = Interval(float(observed[0]), max(0.0, min(low, top)), max(0.0, min(high, top)))
            found.setdefault(eval_set, {})[metric] = interval
        return found

    @property
    def n_rows(self) -> int:
        """How many test rows there are."""
        return len(self.model.sets["test"])

    @property
    def labels(self) -> Array:
        """The classes of the test rows, (n,)."""
        return self.arrays["test/labels"]

    @property
    def plot(self) -> Plots:
        """Its plots: ``reliability()``, ``risk_coverage()`` and ``roc()`` draw on Matplotlib axes and return them."""
        return Plots(self)

    def report(self, path: str | Path, title: str = "predictions") -> Path:
        """Write one HTML page that opens offline, with all metrics and figures; return its path."""
        return write_page(Path(path), [self.named("predictions")], self.near, self.n_resamples, title)

    def save(self, run: str | Path, method: str, seed: int = 0) -> Path:
        """Store the predictions in a run folder, new or with results on the same test rows, as ``volta evaluate`` does.

        ``volta report RUN`` then makes its report. Return the folder.
        """
        store = RunStore(Path(run))
        add_predictions(store, [self.named(method, seed)], find_destination(store, None, None), near=self.near)
        return store.root

    def named(self, method: str, seed: int = 0) -> ExternalModel:
        """Return the model under a name."""
        sets = {name: replace(rows, where=f"{method!r}, {rows.where}") for name, rows in self.model.sets.items()}
        return replace(self.model, method=method, seed=seed, sets=sets)

    def __repr__(self) -> str:
        test = self.metrics["test"]
        shown = ", ".join(f"{name}={test[name]:.4f}{_floor(name, test)}" for name in SHOWN if name in test)
        outside = ", ".join(
            f"auroc[{name.removeprefix('ood:')}]={values['auroc']:.4f}"
            for name, values in self.metrics.items()
            if name.startswith("ood:")
        )
        return f"Evaluation(n={self.n_rows}, {shown}{', ' + outside if outside else ''})"

    def _repr_html_(self) -> str:
        from html import escape

        rows = []
        for eval_set, values in self.metrics.items():
            for metric in (name for name in SHOWN if name in values):
                interval = self.intervals.get(eval_set, {}).get(metric)
                ends = "" if interval is None else f"[{interval.low:.4f}, {interval.high:.4f}]"
                label = f"{METRICS[metric].label} {METRICS[metric].direction}"
                cells = escape(eval_set), escape(label), f"{values[metric]:.4f}{_floor(metric, values)}", ends
                rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        head = "".join(f"<th>{name}</th>" for name in ("set", "metric", "value", "95 % interval"))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _floor(metric: str, values: Mapping[str, float]) -> str:
    """Return what chance alone gives, for an ECE; nothing for other metrics."""
    if metric != "ece":
        return ""
    mean, low, high = (values[name] for name in EXPECTED_ECE_METRICS)
    return f" ({show_expected_ece(mean, low, high)})"


def evaluate(
    probs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    *,
    logits: ArrayLike | None = None,
    uncertainty: ArrayLike | None = None,
    ood: Mapping[str, ArrayLike] | None = None,
    id_score: ArrayLike | None = None,
    sets: ArrayLike | None = None,
    val: tuple[ArrayLike, ArrayLike] | None = None,
    near: Collection[str] = (),
    n_resamples: int = N_RESAMPLES,
) -> Evaluation:
    """Evaluate predictions that any model made: every metric, bootstrap intervals, plots and a report.

    Parameters
    ----------
    probs
        (n, K) class probabilities; or pass ``logits``. Which of the two it is is never guessed.
    labels
        (n,) true classes, 0 … K − 1.
    logits
        (n, K) logits in place of ``probs``.
    uncertainty
        (n,), higher where the model is less certain; 1 − max p if not given.
    ood
        OOD set's name → scores of its rows, (m,), higher = more OOD.
    id_score
        (n,) the same score for the test rows; ``uncertainty`` if not given.
    sets
        (n, K) prediction sets, True where a class is in the set.
    val
        (probabilities or logits, labels) of held-out rows: calibration is then judged after one temperature too.
    near
        Names of the OOD sets that are near; all others are far.
    n_resamples
        Resamples of the rows behind each interval.

    Examples
    --------
    >>> probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]
    >>> result = evaluate(probs, [0, 1, 1, 1], ood={"noise": [0.5, 0.4]}, id_score=[0.1, 0.2, 0.4, 0.3])
    >>> result.metrics["test"]["accuracy"], result.metrics["ood:noise"]["auroc"]
    (0.75, 0.9375)
    >>> result.intervals["test"]["accuracy"].estimate
    0.75
    """
    if (probs is None) == (logits is None):
        raise InputError("pass either probs or logits, (n, classes)")
    if labels is None:
        raise InputError("labels is missing; pass the true class of each row, (n,)")
    if n_resamples < 1:
        raise InputError(f"n_resamples is {n_resamples}; pass at least 1")
    if ood and id_score is None:
        if uncertainty is None:
            raise InputError("ood is given without id_score; pass the same score of the test rows, (n,)")
        id_score = uncertainty
    if ood is not None and not isinstance(ood, Mapping):
        raise InputError(f"ood is a {type(ood).__name__}; pass name → scores, as in {{'noise': scores}}")
    check_near(ood or (), near)
    kind = "probs" if logits is None else "logits"
    rows = {
        "test": RowSet(
            "test rows",
            labels=_array(labels, "labels"),
            uncertainty=_array(uncertainty, "uncertainty"),
            ood_score=_array(id_score, "id_score"),
            sets=_array(sets, "sets"),
            **{kind: _array(probs if logits is None else logits, kind)},
        )
    }
    for name, scores in (ood or {}).items():
        rows[f"ood:{name}"] = RowSet(f"ood[{name!r}]", ood_score=_array(scores, f"ood[{name!r}]"))
    if val is not None:
        if not isinstance(val, tuple | list) or len(val) != 2:
            raise InputError(f"val is not a pair; pass ({kind}, labels) of held-out rows")
        rows["val"] = RowSet("val", labels=_array(val[1], "val[1]"), **{kind: _array(val[0], "val[0]")})
    return Evaluation(check_model(ExternalModel("model", 0, "volta.evaluate", rows)), tuple(near), n_resamples)


def _array(values: ArrayLike | None, name: str) -> Array | None:
    if values is None:
        return None
    refuse_mask(values, name)
    try:
        array = np.asarray(without_graph(values))
    except ValueError as error:
        raise InputError(f"{name} has rows of different lengths; pass as many numbers in each") from error
    if array.ndim == 0:
        raise InputError(f"{name} is {values!r}; pass an array, one entry a row")
    return array


TASK = "predictions"


@dataclass(frozen=True, eq=False)
class EvaluationComparison:
    """Evaluations of several methods on the same rows; :func:`volta.compare` makes one.

    ``pairs``: every pair on every tested metric, with the difference, its bootstrap interval, p-values (Holm over all
    pairs of a metric) and a verdict on the first of the two; ``leaderboard``: places by mean rank, and on each metric
    which methods may be the best. ``models``: the evaluations with their rows in one order.
    """

    evaluations: Mapping[str, tuple[Evaluation, ...]]
    models: Sequence[ExternalModel]
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
        return write_page(Path(path), self.models, self.near, self.n_resamples, title)

    @cached_property
    def _stored(self) -> tuple[dict[Cell, dict[str, Array]], list[CellRecord]]:
        return stored_in_memory(self.models, self.near)

    @cached_property
    def _table(self) -> Results:
        return group_records(self._stored[1])[0]

    @cached_property
    def _bootstraps(self) -> Bootstraps:
        arrays, cells = self._stored[0], self._table.cells
        found = bootstrap_table(self._table, lambda method, seed: arrays[cells[method, seed]], self.n_resamples)
        return {(TASK, EXTERNAL): found}

    def __repr__(self) -> str:
        lines = [f"comparison of {', '.join(self.evaluations)} on {len(self.models[0].sets['test'])} rows"]
        lines += [f"  {words}" for words in self._words()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        return "<br>".join(escape(line) for line in repr(self).splitlines())

    def _words(self) -> list[str]:
        best: dict[str, list[str]] = {}
        for row in self.leaderboard:
            if row.metric != OVERALL and row.in_confidence_set is not False:
                value = "" if row.mean is None else f" {row.mean:.4f}"
                name = row.metric if row.set == "test" else f"{row.metric} on {row.set.removesuffix(':')}"
                best.setdefault(name, []).append(f"{row.method}{value}")
        return [f"{name}: may be the best: {', '.join(methods)}" for name, methods in best.items()]


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
    runs: dict[str, tuple[Evaluation, ...]] = {}
    for name, given in evaluations.items():
        if not isinstance(name, str):
            raise InputError(f"evaluations has a method called {name!r}; name methods by text")
        own: object = (given,) if isinstance(given, Evaluation) else given
        if not isinstance(own, Sequence) or isinstance(own, str) or not own:
            raise InputError(
                f"evaluations[{name!r}] is a {type(given).__name__}; pass an evaluation, or a list with one a seed"
            )
        if not all(isinstance(one, Evaluation) for one in own):
            raise InputError(
                f"evaluations[{name!r}] holds something else than evaluations; make them by volta.evaluate"
            )
        runs[name] = tuple(own)
    near = tuple(dict.fromkeys(name for own in runs.values() for one in own for name in one.near))
    named = [one.named(method, seed) for method, own in runs.items() for seed, one in enumerate(own)]
    first = Reference(repr(named[0].method), len(named[0].sets["test"]), named[0].sets["test"].labels)
    models = match_rows(named, {(model.seed, "test"): first for model in named})
    return EvaluationComparison(runs, models, near, n_resamples)
