"""The definition of a chart, and the plain values that charts are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from volta.networks.recipe import TrainingLog
    from volta.stats.comparisons import AblationRow, TestRow
    from volta.stats.ranking import LeaderboardRow


Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """What a figure must say beneath itself: which task and protocol, how many rows and seeds, which budget.

    ``budget`` is empty where nothing was trained; ``protocol`` then says what the numbers are of instead.
    """

    task: str
    protocol: str
    n_rows: int
    n_seeds: int
    budget: str = "full budget"

    @property
    def line(self) -> str:
        """The context as one line of text."""
        seeds = "1 seed" if self.n_seeds == 1 else f"{self.n_seeds} seeds"
        samples = f"n = {self.n_rows:,} test samples"
        if not self.budget:
            return f"{self.task} · {self.protocol} · {samples} · {seeds}"
        return f"{self.task} · {self.protocol} protocol · {samples} · {seeds} · {self.budget}"


@dataclass(frozen=True)
class MethodValues:
    """A method's values by metric, one per seed; ``ours`` makes it stand out from what it is compared with.

    ``seeds`` names the seed of each value, by metric, where that is known.
    """

    name: str
    title: str
    values: Mapping[str, Sequence[float]]
    ours: bool = False
    seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def has(self, *metrics: str) -> bool:
        """Whether every metric has at least one value."""
        return all(len(self.values.get(metric, ())) > 0 for metric in metrics)

    def mean(self, metric: str) -> float:
        """Mean over seeds."""
        if metric not in self._means:
            self._means[metric] = float(np.mean(self.values[metric]))
        return self._means[metric]

    @cached_property
    def _means(self) -> dict[str, float]:
        return {}

    def std(self, metric: str) -> float:
        """Sample standard deviation over seeds; 0 with one seed."""
        values = self.values[metric]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


@dataclass(frozen=True)
class MethodCurve:
    """A method's curve: mean over seeds on a common grid, and the lowest and highest seed; all (n_points,)."""

    name: str
    title: str
    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    area: float
    ours: bool = False


@dataclass(frozen=True)
class MethodBins:
    """A method's reliability bins, rows of all seeds pooled; bin b is (b/B, (b+1)/B]; empty bins have count 0.

    `count`, `confidence`, `accuracy`: (n_bins,); `ece`, and what is `expected` of it: means over seeds; `n_seeds`: how
    many seeds were pooled, which may all have the same rows.
    """

    name: str
    title: str
    count: NDArray[np.int64]
    confidence: Floats
    accuracy: Floats
    ece: float
    ours: bool = False
    expected: float | None = None
    n_seeds: int = 1


@dataclass(frozen=True)
class ScoreHistogram:
    """A method's score on test rows and on OOD rows, as shares per bin.

    `edges`: (n_bins + 1,), increasing but not always evenly spaced: bins are drawn equally wide. `shares` and `auroc`
    go by set name, the test rows being "test".
    """

    name: str
    title: str
    edges: Floats
    shares: Mapping[str, Floats]
    auroc: Mapping[str, float] = field(default_factory=dict)
    ours: bool = False


@dataclass(frozen=True)
class GroupNumbers:
    """Everything a chart may need of one task under one protocol.

    ``methods``: every finished method, ablation rows too; ``compared``: the names of those that stand in the results;
    ``headline``: the metrics a reader looks at first; ``ood_sets``: the near ones first; ``bins`` by set, then method;
    ``curves`` (risk against coverage) by method, ``excess`` the same above a perfect order of the rows; ``histograms``
    and ``trainings`` by method and seed; ``roc`` and ``precision_recall`` by OOD set, then method; ``ablation`` and
    ``pairs``: the tests of ablation rows and of pairs of methods; ``leaderboard``: its rows; ``networks``: names of
    compared methods that share a network, and so all that probabilities decide.
    """

    context: Context
    methods: tuple[MethodValues, ...]
    compared: tuple[str, ...]
    headline: tuple[str, ...] = ()
    ood_sets: tuple[str, ...] = ()
    near_sets: tuple[str, ...] = ()
    shift_sets: tuple[str, ...] = ()
    bins: Mapping[str, Mapping[str, MethodBins]] = field(default_factory=dict)
    curves: Mapping[str, MethodCurve] = field(default_factory=dict)
    histograms: Mapping[tuple[str, int], ScoreHistogram] = field(default_factory=dict)
    ablation: tuple[AblationRow, ...] = ()
    roc: Mapping[str, Mapping[str, MethodCurve]] = field(default_factory=dict)
    precision_recall: Mapping[str, Mapping[str, MethodCurve]] = field(default_factory=dict)
    excess: Mapping[str, MethodCurve] = field(default_factory=dict)
    trainings: Mapping[tuple[str, int], tuple[TrainingLog, ...]] = field(default_factory=dict)
    pairs: tuple[TestRow, ...] = ()
    networks: tuple[tuple[str, ...], ...] = ()
    leaderboard: tuple[LeaderboardRow, ...] = ()

    @property
    def network_titles(self) -> dict[str, str]:
        """The compared methods, one for each network, and how that network is called: all its methods' names."""
        others = {name for names in self.networks for name in names[1:]}
        together = {names[0]: joint_title([self.title(name) for name in names]) for names in self.networks}
        return {name: together.get(name, self.title(name)) for name in self.compared if name not in others}

    @property
    def compared_networks(self) -> tuple[MethodValues, ...]:
        """The compared methods, those on one network once and named together."""
        titles = self.network_titles
        return tuple(replace(m, title=titles[m.name]) for m in self.compared_methods if m.name in titles)

    @property
    def compared_methods(self) -> tuple[MethodValues, ...]:
        """The methods that stand in the results, in the order of the plan."""
        return tuple(method for method in self.methods if method.name in self.compared)

    def of_compared(self, found: Mapping[str, T]) -> list[T]:
        """Return what there is of the compared methods, in its own order."""
        return [value for name, value in found.items() if name in self.compared]

    def has(self, *metrics: str) -> bool:
        """Whether some compared method has every one of these metrics."""
        return any(method.has(*metrics) for method in self.compared_methods)

    def title(self, name: str) -> str:
        """A method's name for a reader."""
        return next((method.title for method in self.methods if method.name == name), name)


def joint_title(titles: Sequence[str]) -> str:
    """Return how methods on one network are called together.

    >>> joint_title(["Energy", "GMM density", "Mahalanobis"])
    'Energy +2'
    """
    return titles[0] if len(titles) == 1 else f"{titles[0]} +{len(titles) - 1}"


def with_metrics(methods: Sequence[MethodValues], *metrics: str) -> list[MethodValues]:
    """Return the methods that have all these metrics."""
    return [method for method in methods if method.has(*metrics)]


Json = Mapping[str, object]
"""Numbers on their way to the page: mappings, sequences, texts, numbers and arrays."""


@dataclass(frozen=True)
class PrintVersion:
    """A figure for print: its file name without suffix, how it is drawn, and a word where a chart has several."""

    name: str
    draw: Callable[[GroupNumbers], Figure]
    word: str = ""


@dataclass(frozen=True)
class Choice:
    """A list to choose from above a chart: the name of what is chosen, a label, and (key, words) pairs."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Chart:
    """A chart.

    Parameters
    ----------
    name
        Its name on the page and in files; the name of its Python file.
    title, caption
        What stands above it on the page.
    kind
        The JavaScript drawing that is registered under this name.
    available
        Whether the numbers it needs are there; otherwise it is left out everywhere.
    data
        The numbers of the page's drawing. Whatever is to be computed is computed here, not in the browser.
    prints
        The figures for print.
    choices, switches
        What a reader may choose on the page, and tick (name and label); the drawing finds the chosen keys by name.
    wide
        Whether it takes the page's whole width.
    shared
        Whether it shows only what probabilities decide, so that methods on one network are drawn once.
    """

    name: str
    title: str
    caption: str
    kind: str
    available: Callable[[GroupNumbers], bool]
    data: Callable[[GroupNumbers], Json]
    prints: tuple[PrintVersion, ...]
    choices: Callable[[GroupNumbers], tuple[Choice, ...]] = lambda numbers: ()
    switches: tuple[tuple[str, str], ...] = ()
    wide: bool = False
    shared: bool = False
