"""The card's figures as inline SVG, in the page's own colours; a number of points, not a chart library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volta.decisions.set_scores import Floats
from volta.metrics.calibration import ReliabilityBins

WIDTH, HEIGHT = 420, 320
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 44
MOST_POINTS = 400


@dataclass(frozen=True)
class Axes:
    """Where data lies in the picture: x and y limits, and the words beside the axes."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_words: str
    y_words: str

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return a point's position in the picture."""
        across = LEFT + (x - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - (y - self.y[0]) / (self.y[1] - self.y[0]) * (HEIGHT - TOP - BOTTOM)
        return round(across, 1), round(down, 1)


def reliability_svg(bins: ReliabilityBins) -> str:
    """Draw accuracy against mean confidence, a bar a bin, and the diagonal on which a calibrated model lies."""
    axes = Axes((0.0, 1.0), (0.0, 1.0), "confidence", "accuracy")
    bars = []
    for low, high, accuracy, count in zip(bins.lower, bins.upper, bins.accuracy, bins.count, strict=True):
        (x0, y0), (x1, y1) = axes.place(low, accuracy), axes.place(high, 0.0)
        title = f"confidence {low:.2f} to {high:.2f}: accuracy {accuracy:.3f}, {count} rows"
        bars.append(
            f'<rect class="bar" x="{x0 + 1:.1f}" y="{y0}" width="{x1 - x0 - 2:.1f}" height="{y1 - y0:.1f}">'
            f"<title>{title}</title></rect>"
        )
    points = [axes.place(x, y) for x, y in zip(bins.confidence, bins.accuracy, strict=True)]
    dots = [f'<circle class="dot" cx="{x}" cy="{y}" r="3"/>' for x, y in points]
    return _picture(axes, "Reliability diagram", [*bars, _line(axes, (0.0, 1.0), (0.0, 1.0), "ideal"), *dots])


def risk_coverage_svg(coverage: Floats, risk: Floats, answered: float | None) -> str:
    """Draw the error among answered rows against the share answered; a rule marks the model's policy."""
    top = max(0.01, float(risk.max()) * 1.05)
    axes = Axes((0.0, 1.0), (0.0, top), "share of rows answered", "error among them")
    picked = np.unique(np.linspace(0, len(coverage) - 1, MOST_POINTS).astype(int))
    marks = [_line(axes, coverage[picked], risk[picked], "curve")]
    if answered is not None:
        marks.insert(0, _line(axes, (answered, answered), (0.0, top), "ideal"))
    return _picture(axes, "Error against coverage", marks)


def losses_svg(losses: Sequence[Sequence[float]], words: str) -> str:
    """Draw the loss of each network against the epoch; ``words`` say which loss."""
    values = [value for one in losses for value in one]
    top = max(values) * 1.05 or 1.0
    axes = Axes((1.0, max(2.0, float(max(map(len, losses))))), (0.0, top), "epoch", words)
    marks = [_line(axes, np.arange(1.0, len(one) + 1), np.asarray(one), "curve") for one in losses]
    return _picture(axes, "Training", marks)


def _line(axes: Axes, x: Sequence[float] | Floats, y: Sequence[float] | Floats, kind: str) -> str:
    points = " ".join(f"{across},{down}" for across, down in (axes.place(*point) for point in zip(x, y, strict=True)))
    return f'<polyline class="{kind}" points="{points}"/>'


def _picture(axes: Axes, title: str, marks: list[str]) -> str:
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">', *_grid(axes), *marks]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="words" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{axes.x_words}</text>')
    half = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text class="words" transform="translate(13 {half}) rotate(-90)" text-anchor="middle">{axes.y_words}</text>'
    )
    return "".join([*parts, "</svg>"])


def _grid(axes: Axes) -> list[str]:
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x_value = axes.x[0] + share * (axes.x[1] - axes.x[0])
        y_value = axes.y[0] + share * (axes.y[1] - axes.y[0])
        across, bottom = axes.place(x_value, axes.y[0])
        left, down = axes.place(axes.x[0], y_value)
        parts.append(f'<line class="grid" x1="{left}" x2="{WIDTH - RIGHT}" y1="{down}" y2="{down}"/>')
        parts.append(f'<text class="tick" x="{across}" y="{bottom + 16}" text-anchor="middle">{x_value:.3g}</text>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{down + 4}" text-anchor="end">{y_value:.2g}</text>')
    return parts
