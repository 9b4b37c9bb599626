"""What is known of a metric: its function, its direction, what it is called and what it is computed from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from volta.core.errors import InputError

Family = Literal["prediction", "calibration", "selective", "ood", "conformal", "efficiency"]

PROBS = ("probs", "labels")
SELECTIVE = ("uncertainty", "correct")
OOD = ("id_scores", "ood_scores")
MODEL = ("model",)
ARGUMENTS = (*PROBS, *SELECTIVE, *OOD, "sets", *MODEL)


@dataclass(frozen=True)
class Metric:
    """One metric; strings are plain text.

    `label` is what a reader sees on axes and in headings. `function` takes the arguments in `needs`, in that order, and
    is None for what is measured on a model. `higher_is_better` is None where neither direction is better by itself.
    `shared` gives the same value from what `report` computes once for all metrics with these `needs`: a
    `ProbabilityScan`, `RiskSteps` or `SortedScores`; a metric without it costs `report` a call of `function`.
    `timing` marks what differs between two equal runs, such as a latency.
    """

    name: str
    label: str
    family: Family
    function: Callable[..., float] | None
    higher_is_better: bool | None
    needs: tuple[str, ...]
    formula: str
    convention: str
    others: str
    shared: Callable[..., float] | None = None
    timing: bool = False

    def __post_init__(self) -> None:
        unknown = [need for need in self.needs if need not in ARGUMENTS]
        if unknown:
            raise InputError(f"metric {self.name!r} needs {unknown[0]!r}; its needs can be: {', '.join(ARGUMENTS)}")

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
