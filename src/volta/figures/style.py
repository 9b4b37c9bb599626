"""The style of each method, axis labels, and scales of values."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from volta.bench.cell_metrics import FAR, NEAR, TEST, TEST_AFTER_TEMPERATURE, TEST_BY_MSP, EvalSet
from volta.metrics import METRICS, Metric

# Hues that stay apart under the common colour-vision deficiencies (after Okabe-Ito and Tol), each with a lighter twin
# for dark backgrounds. The first is kept for VOLTA alone.
PALETTE: tuple[tuple[str, str], ...] = (
    ("#d1440c", "#ff8a5c"),
    ("#0072b2", "#5ab4ee"),
    ("#00875f", "#3ecf9f"),
    ("#a3408f", "#e08fd0"),
    ("#b07d00", "#e5b93c"),
    ("#332288", "#a79bf0"),
    ("#3f94bf", "#9bd3f0"),
    ("#7d7a1f", "#c9c65a"),
    ("#882255", "#e0789f"),
    ("#3c8f85", "#7fd1c6"),
    ("#5f6672", "#b4bcc8"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "p", "d")
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (5, 2),
    (5, 1.5, 1, 1.5),
    (1.2, 1.4),
    (8, 2, 1, 2, 1, 2),
    (3, 1.2),
    (10, 3),
    (6, 1.2, 1, 1.2, 1, 1.2),
)

# Append only: a method's place here is its look in every report ever made.
_KNOWN = (
    "volta",
    "softmax",
    "temperature",
    "mc-dropout",
    "swag",
    "energy",
    "mahalanobis",
    "hyperbolic",
    "enn",
    "taylor-sensus",
    "conformal",
    "gmm",
    "linear",
    "ensemble",
    "knn",
    "vim",
    "max-logit",
    "laplace",
    "rmds",
    "vector-scaling",
    "aps",
    "volta-full",
    "volta-full-no-adaptive-temperature",
    "volta-full-no-margin",
    "volta-full-no-reconstruction",
    "volta-full-no-diversity",
    "volta-full-no-contrastive",
    "volta-full-shallow",
    "volta-full-no-mc",
    "volta-full-no-temperature",
    "volta-full-no-posthoc",
    "volta-add-margin",
    "volta-add-reconstruction",
    "volta-add-diversity",
    "volta-add-contrastive",
    "volta-plus",
    "gen",
    "maxlogit-pnorm",
    "fdbd",
    "nci",
    "neco",
    "nnguide",
    "react",
    "scale",
    "weiper",
    "mds-plus",
    "rmds-plus",
    "sirc",
    "structured-vector-scaling",
    "structured-matrix-scaling",
    "ensemble-temperature",
    "isotonic",
    "epinet",
    "beta",
    "quadratic",
    "spline",
    "dirichlet",
    "venn-abers",
    "radial-mahalanobis",
    "global-mahalanobis",
    "delta-mds",
    "residual",
    "kernel-pca",
    "dice",
    "she",
    "ctm",
    "kl-matching",
    "boosted-trees",
    "random-forest",
    "auto",
    "extra-trees",
)
_SLOTS = {name: slot for slot, name in enumerate(_KNOWN)}
_N_OTHERS = len(PALETTE) - 1


@dataclass(frozen=True)
class MethodStyle:
    """How a method is drawn: its place in the palette, colour on white, Matplotlib marker, dash lengths in points."""

    hue: int
    color: str
    marker: str
    dash: tuple[float, ...]

    @property
    def line(self) -> Literal["-"] | tuple[float, tuple[float, ...]]:
        """The dash as a Matplotlib line style."""
        return (0, self.dash) if self.dash else "-"


def style_of(method: str) -> MethodStyle:
    """Return the look of a method by name; names not seen before get one from a hash of the name."""
    name = method.replace("_", "-").lower()
    slot = _SLOTS.get(name)
    if slot is None:
        slot = len(_KNOWN) + int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 480
    if slot == 0:
        return _make(0, 0, 0)
    return _make(1 + (slot - 1) % _N_OTHERS, (slot - 1) // _N_OTHERS, slot)


def _make(hue: int, turn: int, slot: int) -> MethodStyle:
    return MethodStyle(hue, PALETTE[hue][0], MARKERS[(slot + turn) % len(MARKERS)], DASHES[turn % len(DASHES)])


SHARED_FAMILIES = ("prediction", "calibration")
_SET_NAMES = {
    TEST_AFTER_TEMPERATURE: "after one temperature",
    TEST_BY_MSP: "by 1 − max p",
    NEAR: "near OOD",
    FAR: "far OOD",
}


def metric_key(metric: str, where: str) -> str:
    """Return how a metric on a set is written: ``metric`` on the test rows, else ``metric@set``."""
    return metric if where == str(TEST) else f"{metric}@{where}"


def split_key(key: str) -> tuple[str, str]:
    """Return the metric and the set behind ``metric`` or ``metric@set``."""
    metric, _, where = key.partition("@")
    return metric, where or str(TEST)


def metric_of(key: str) -> Metric:
    """Return the metric behind ``metric`` or ``metric@set``."""
    return METRICS[split_key(key)[0]]


def metric_name(metric: str) -> str:
    """Return a metric's name for a reader."""
    return METRICS[metric].label


def set_name(name: str) -> str:
    """Return a set's name for a reader: without its kind, without underscores."""
    parsed = EvalSet(name)
    if parsed in _SET_NAMES:
        return _SET_NAMES[parsed]
    words = (parsed.name or parsed.kind).replace("_", " ")
    return words if parsed.severity is None else f"{words}-{parsed.severity}"


def heading(key: str) -> str:
    """Return a metric's name as it heads a column: "ECE", and "ECE+T" after one temperature."""
    metric, where = split_key(key)
    return f"{metric_name(metric)}+T" if where == str(TEST_AFTER_TEMPERATURE) else metric_name(metric)


def set_label(key: str) -> str:
    """Return the set behind a key for a reader, empty for the test rows: they go without saying, +T is in the name."""
    where = split_key(key)[1]
    return "" if where in (str(TEST), str(TEST_AFTER_TEMPERATURE)) else set_name(where)


def full_name(key: str) -> str:
    """Return name and, for another set than the test rows, the set: "AUROC (svhn)"."""
    where = set_label(key)
    return f"{heading(key)} ({where})" if where else heading(key)


THOUSANDTHS = frozenset({"aurc", "eaurc", "eaurc_paper", "augrc"})
"""Metrics that are printed times 1000, as is usual for them."""


def chart_scale(key: str) -> float:
    """Return by what charts multiply a metric: latency is in µs there.

    >>> chart_scale("aurc"), chart_scale("latency_ms"), chart_scale("ece")
    (1000.0, 1000.0, 1.0)
    """
    metric, _ = split_key(key)
    return 1000.0 if metric in THOUSANDTHS or metric.startswith("latency") else 1.0


def _chart_heading(key: str) -> str:
    """Return name, unit and direction of a metric in charts: "ECE ↓", "AURC × 1000 ↓", "latency, µs ↓"."""
    times, arrow = " × 1000" if split_key(key)[0] in THOUSANDTHS else "", metric_of(key).direction
    name = heading(key).replace(", ms", ", µs") + times
    return name if arrow == "–" else f"{name} {arrow}"


def metric_label(key: str) -> str:
    """Return name, direction and, for another set than the test samples, the set: "AUROC ↑ (svhn)"."""
    where = set_label(key)
    return f"{_chart_heading(key)} ({where})" if where else _chart_heading(key)


def column_label(key: str) -> dict[str, object]:
    """Return a metric's label for the page: name with direction, and apart from it the set, empty for the test set."""
    return {"label": _chart_heading(key), "where": set_label(key)}


def is_shared(key: str) -> bool:
    """Whether probabilities alone decide a metric, so that methods on one network have one value between them."""
    metric, where = split_key(key)
    on_test = where in (str(TEST), str(TEST_AFTER_TEMPERATURE)) or EvalSet(where).kind == "shift"
    return on_test and METRICS[metric].family in SHARED_FAMILIES


SMALL, LARGE = 0.05, 100.0
"""A column whose values are all below the one, and values above the other, are printed with two significant digits."""
DWARFED = 15.0
"""An axis is compressed where its longest bar is this many times the middle one."""


def spans_decades(values: Sequence[float], ratio: float = 10.0) -> bool:
    """Whether positive values spread over more than ``ratio``."""
    return len(values) > 1 and min(values) > 0 and max(values) / min(values) > ratio


def dwarfed_reach(reaches: Sequence[float]) -> float | None:
    """Return the middle of positive bar lengths where the longest would hide it on a linear axis, else None."""
    found = sorted(reaches)
    if not found or found[-1] <= DWARFED * found[len(found) // 2]:
        return None
    return found[len(found) // 2]


def beaten_by(x: Sequence[float], y: Sequence[float]) -> list[list[int]]:
    """Return, for each point, the indices of the points that beat it, x to be large and y to be small.

    A point beats another that it equals on one axis and betters on the other.
    """
    return [
        [j for j in range(len(x)) if j != i and x[j] >= x[i] and y[j] <= y[i] and (x[j] > x[i] or y[j] < y[i])]
        for i in range(len(x))
    ]


def pareto_front(x: Sequence[float], y: Sequence[float]) -> list[int]:
    """Return the indices of points that no other point beats, x to be large and y to be small."""
    return [index for index, stronger in enumerate(beaten_by(x, y)) if not stronger]


def unit_scale(
    values: Sequence[float], higher_is_better: bool | None, among: Sequence[float] | None = None
) -> list[float]:
    """Map values to [0, 1] by their place between the worst and best of ``among`` (or of themselves), 1 being best.

    Values beyond those ends count as the ends; where all of ``among`` are equal, every value gives 1.
    """
    ends = np.asarray(values if among is None else among, dtype=np.float64)
    spread = float(np.ptp(ends))
    if spread == 0:
        return [1.0] * len(values)
    scaled = np.clip((np.asarray(values, dtype=np.float64) - ends.min()) / spread, 0, 1)
    return [float(value) for value in (1 - scaled if higher_is_better is False else scaled)]


def as_printed(values: Sequence[float], digits: int) -> list[float]:
    """Return values as a grid prints them, so that cells which read alike are shaded alike.

    >>> as_printed([0.98891, 0.98889], 3)
    [0.989, 0.989]
    >>> as_printed([0.00123, 0.000456], 3)
    [0.0012, 0.00046]
    """
    largest = max(map(abs, values), default=0.0)
    return [
        round(value, digits) if largest >= SMALL and abs(value) < LARGE else float(f"{value:.2g}") for value in values
    ]


def rank_scale(values: Sequence[float], higher_is_better: bool | None) -> list[float]:
    """Map values to [0, 1] by rank, 1 being best; equal values share a rank, so one outlier cannot hide the rest."""
    return [
        rank_among(value, [*values[:place], *values[place + 1 :]], higher_is_better)
        for place, value in enumerate(values)
    ]


def rank_among(value: float, others: Sequence[float], higher_is_better: bool | None) -> float:
    """Return the share of ``others`` that a value beats, those equal to it counting half; 1 where there are none."""
    if not len(others):
        return 1.0
    sign = -1 if higher_is_better is False else 1
    beaten = sum(sign * value > sign * other for other in others) + sum(value == other for other in others) / 2
    return beaten / len(others)
