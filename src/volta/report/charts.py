"""The page's charts: what each is called, what it says of itself, and where its figure for print is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from volta.report.markup import element, text


@dataclass(frozen=True)
class Chart:
    """A chart of the page; ``figure`` names the figure for print, ``more`` others offered beside it by a word each."""

    kind: str
    figure: str
    title: str
    words: str
    wide: bool = False
    more: tuple[tuple[str, str], ...] = ()


CHARTS = (
    Chart(
        "scatter",
        "accuracy_ece",
        "Accuracy against calibration error",
        "Down and to the right is better. Bars: one standard deviation; line: methods that none beats on both.",
        more=(("accuracy_ece_density", "density"),),
    ),
    Chart(
        "risk",
        "risk_coverage",
        "Risk against coverage",
        "The error that remains when only the most certain rows are kept; mean over seeds.",
    ),
    Chart(
        "parallel",
        "parallel_coordinates",
        "Profiles over the headline metrics",
        "Each axis runs from the worst mean (below) to the best (above) of the methods shown.",
        wide=True,
    ),
    Chart(
        "reliability",
        "reliability",
        "Reliability",
        "Bars: accuracy of each confidence bin, seeds pooled; dark line: mean confidence; shaded: the gap; "
        "below: share of rows. ECE: mean over seeds.",
        wide=True,
    ),
    Chart("calibration", "calibration_bars", "Calibration errors", "Line: one standard deviation over seeds."),
    Chart(
        "ood",
        "ood_bars",
        "Out-of-distribution detection",
        "OOD rows are the positives; AUROC bars start at chance.",
    ),
    Chart("efficiency", "efficiency", "Cost of calibration", "Latency against ECE; bubble area: model size."),
    Chart("ablation", "ablation_bars", "Ablation", "Difference from the reference; * Welch p < 0.05."),
    Chart(
        "histograms",
        "score_histograms",
        "Scores of known and OOD rows",
        "Height: square root of a bin’s share of rows. Each method has its own score axis; long tails are compressed.",
        wide=True,
    ),
    Chart(
        "summary",
        "summary_heatmap",
        "Summary",
        "Means over seeds; each column shaded by rank, from worst to best of the methods shown.",
        wide=True,
    ),
    Chart(
        "shifts",
        "corruption_heatmap_accuracy",
        "Under shift",
        "Means over seeds; one scale for the whole grid.",
        wide=True,
        more=(("corruption_heatmap_ece", "ECE"),),
    ),
)


@dataclass(frozen=True)
class PrintFigure:
    """A figure for print as the page offers it: its file name without suffix, and the address of its PDF."""

    name: str
    href: str


def charts_markup(printed: Mapping[str, PrintFigure], kinds: Sequence[str]) -> str:
    """Return the list of methods and a place for each chart named in ``kinds``; empty where there is none."""
    methods = (
        '<aside class="methods" aria-label="Methods shown in the figures"><details open>'
        '<summary>Methods <span></span></summary><div class="presets"></div><ul></ul></details></aside>'
    )
    figures = "".join(_chart(chart, printed) for chart in CHARTS if chart.kind in kinds)
    return element("div", methods + element("div", figures, class_="charts"), class_="lab") if figures else ""


def _chart(chart: Chart, printed: Mapping[str, PrintFigure]) -> str:
    saves = "".join(
        element(
            "button", label, type="button", class_="button", data_save=key, aria_label=f"Save {chart.title} as {label}"
        )
        for key, label in (("svg", "SVG"), ("png", "PNG"))
    )
    for figure, word in ((chart.figure, ""), *chart.more):
        if figure in printed:
            label = f"PDF ({word})" if word else "PDF"
            offer = printed[figure]
            saves += element("a", label, class_="button", href=offer.href, download=f"{offer.name}.pdf")
    inner = (
        element("figcaption", element("h3", text(chart.title)) + element("p", text(chart.words)))
        + element("div", "", class_="tools")
        + element("div", "", class_="plot")
        + element("div", saves, class_="saves")
    )
    kind = "chart wide" if chart.wide else "chart"
    return element("figure", inner, class_=kind, data_chart=chart.kind, data_name=chart.figure)
