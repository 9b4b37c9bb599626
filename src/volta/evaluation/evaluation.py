"""``volta.evaluate``: arrays in; metrics, intervals, plots and a report out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from volta.bench.own.checking import check_model
from volta.bench.own.predictions import OwnModel, RowSet, stored_arrays
from volta.bench.scoring import metrics_of
from volta.core.checks import refuse_mask, without_graph
from volta.core.errors import InputError
from volta.core.set_names import check_near
from volta.core.types import Array
from volta.decisions.binomial import binomial_interval
from volta.metrics import METRICS, Interval
from volta.metrics.floor_words import FLOOR_METRICS, show_floor
from volta.stats.bootstrap import N_RESAMPLES, paired_bootstrap
from volta.stats.intervals import LEVEL, hierarchical_interval
from volta.stats.stored_bootstrap import cell_scores

if TYPE_CHECKING:
    from volta.evaluation.plots import Plots

SHOWN = ("accuracy", "nll", "brier", "ece", "aurc", "auroc", "fpr95", "coverage", "set_size")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One model's predictions, evaluated; :func:`volta.evaluate` makes one.

    ``metrics``: set → metric → value, the sets being "test", "ood:NAME", "near:" and "far:" (means over OOD sets),
    "test+msp" (by 1 − max p) and, with validation rows, "test+T" (after one temperature fitted to them).
    """

    model: OwnModel = field(repr=False)
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
        from volta.evaluation.plots import Plots

        return Plots(self)

    def report(self, path: str | Path, title: str = "predictions") -> Path:
        """Write one HTML page that opens offline, with all metrics and figures; return its path."""
        from volta.evaluation.page import write_page

        return write_page(Path(path), [self.named("predictions")], self.near, self.n_resamples, title)

    def save(self, run: str | Path, method: str, seed: int = 0) -> Path:
        """Store the predictions in a run folder, new or with results on the same test rows, as ``volta evaluate`` does.

        ``volta report RUN`` then makes its report. Return the folder.
        """
        from volta.bench.own.run import add_predictions, find_place
        from volta.bench.store import RunStore

        store = RunStore(Path(run))
        add_predictions(store, [self.named(method, seed)], find_place(store, None, None), near=self.near)
        return store.root

    def named(self, method: str, seed: int = 0) -> OwnModel:
        """Return the model under a name."""
        return replace(self.model, method=method, seed=seed)

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
    """Return what chance alone gives, beside an ECE; nothing beside other metrics."""
    if metric != "ece":
        return ""
    mean, low, high = (values[name] for name in FLOOR_METRICS)
    return f" ({show_floor(mean, low, high)})"


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
    return Evaluation(check_model(OwnModel("model", 0, "volta.evaluate", rows)), tuple(near), n_resamples)


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
