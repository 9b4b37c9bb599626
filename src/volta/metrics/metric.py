"""What is known of a metric: its function, its direction, what it is called and what it is computed from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, SupportsFloat

from volta.core.errors import InputError

Family = Literal["prediction", "calibration", "selective", "ood", "conformal", "efficiency"]

PROBS = ("probs", "labels")
CONFIDENCE = ("probs",)
SELECTIVE = ("uncertainty", "correct")
OOD = ("id_scores", "ood_scores")
JOINT = ("id_scores", "correct", "ood_scores")
MODEL = ("model",)
TEMPERATURE, MSP = "test+T", "test+msp"
ARGUMENTS = (*PROBS, *SELECTIVE, *OOD, "sets", *MODEL)


@dataclass(frozen=True)
class Metric:
    """One metric; strings are plain text.

    `label` is what a reader sees on axes and in headings. `function` takes the arguments in `needs`, in that order, and
    is None for what is measured on a model; an interval that it returns counts by its estimate. `higher_is_better` is
    None where neither direction is better by itself.
    `shared` gives the same value from what `report` computes once for all metrics with these `needs`: a
    `ProbabilityScan`, `RiskSteps`, `SortedScores` or `JointScores`; a metric without it costs `report` a call of its
    `function`.
    `timing` marks what differs between two equal runs, such as a latency.
    `margin` is the smallest difference that matters: methods whose difference lies within ± `margin` are equivalent; it
    is None where equivalence makes no sense.
    `variants` names the other forms of the test rows the metric is taken on: `test+T`, probabilities after one
    temperature, for what that can change; `test+msp`, with 1 − max p as the uncertainty, for what is made from one.

    >>> from volta.metrics import METRICS
    >>> metric = METRICS["ece"]
    >>> metric.label, metric.direction, metric.needs, metric.margin, metric.variants
    ('ECE', '↓', ('probs', 'labels'), 0.01, ('test+T',))
    """

    name: str
    label: str
    family: Family
    function: Callable[..., SupportsFloat] | None
    higher_is_better: bool | None
    needs: tuple[str, ...]
    formula: str
    convention: str
    others: str
    shared: Callable[..., float] | None = None
    timing: bool = False
    margin: float | None = None
    variants: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [need for need in self.needs if need not in ARGUMENTS]
        if unknown:
            raise InputError(f"metric {self.name!r} needs {unknown[0]!r}; its needs can be: {', '.join(ARGUMENTS)}")
        if self.margin is not None and not self.margin > 0:
            raise InputError(f"metric {self.name!r} has margin {self.margin}; expected a number above 0, or None")
        strange = [variant for variant in self.variants if variant not in (TEMPERATURE, MSP)]
        if strange:
            raise InputError(
                f"metric {self.name!r} has variant {strange[0]!r}; its variants can be: {TEMPERATURE}, {MSP}"
            )

    @property
    def direction(self) -> str:
        """Return ↑, ↓, or – where neither is better."""
        return "–" if self.higher_is_better is None else "↑" if self.higher_is_better else "↓"

    @property
    def on_ood_sets(self) -> bool:
        """Whether the metric is a value of an OOD set rather than of the test rows."""
        return "ood_scores" in self.needs

    @property
    def measured(self) -> bool:
        """Whether the metric is measured on a model while it runs, not computed from its predictions."""
        return self.needs == MODEL
