"""Draw docs/results/forest.svg: VOLTA minus the best of the paper's baselines, by task and metric, from the CSV files.

Run with: python docs/results/forest.py
A point is the mean difference over seeds as a multiple of the metric's margin, positive where VOLTA is better; its bar
is the 95 % interval over seeds and test rows. The band is where differences do not matter.
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib.figure import Figure

FOLDER = Path(__file__).parent
RUNS = (
    ("cifar10-fair", "CIFAR-10"),
    ("cifar100-fair", "CIFAR-100"),
    ("tinyimagenet-fair", "Tiny ImageNet"),
    ("clinc150-fair", "CLINC150"),
    ("digits", "digits"),
)
METRICS = (
    ("accuracy", "test", "accuracy"),
    ("nll", "test+T", "NLL after temperature"),
    ("ece", "test+T", "ECE after temperature"),
    ("aurc", "test", "AURC"),
    ("auroc", "near:", "near-OOD AUROC"),
)
XLABEL = "VOLTA minus the best baseline, in margins (right: VOLTA is better; band: does not matter)"
OURS, BAND, GRID = "#2f5d8c", "#e8e4da", "#b9b4a7"


def best_rivals(run: str) -> list[tuple[str, str, float, float, float]]:
    """Return a row for each metric: its name, the best baseline, and the gain over it with its interval, in margins."""
    with (FOLDER / run / "tests.csv").open(encoding="utf-8", newline="") as file:
        tests = [row for row in csv.DictReader(file) if row["reference"] == "volta" and row["low"]]
    found = []
    for metric, where, name in METRICS:
        family = f"volta · {metric} · {where} · paper"
        mine = [row for row in tests if row["family"] == family]
        if not mine:
            continue
        rival = min(mine, key=lambda row: float(row["gain"]))
        sign = 1 if float(rival["gain"]) * float(rival["difference"]) >= 0 else -1
        margin = float(rival["margin"])
        ends = sorted(sign * float(rival[end]) / margin for end in ("low", "high"))
        found.append((name, rival["method"], float(rival["gain"]) / margin, *ends))
    return found


def draw() -> Figure:
    """Return the figure, a block of rows for each task."""
    groups = [(title, best_rivals(run)) for run, title in RUNS]
    n_rows = sum(len(rows) for _, rows in groups) + len(groups)
    figure = Figure(figsize=(7.6, 0.235 * n_rows + 0.8), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(-1, 1, color=BAND, zorder=0)
    axes.axvline(0, color=GRID, linewidth=0.8, zorder=1)
    at, ticks, labels = 0, [], []
    for title, rows in groups:
        axes.text(0.005, at, title, transform=axes.get_yaxis_transform(), fontweight="bold", fontsize=8, va="center")
        at += 1
        for name, rival, gain, low, high in rows:
            axes.plot((low, high), (at, at), color=OURS, linewidth=1.6, solid_capstyle="butt", zorder=2)
            axes.plot(gain, at, "o", color=OURS, markersize=4.5, zorder=3)
            ticks.append(at)
            labels.append(f"{name}, {rival}")
            at += 1
    axes.set_yticks(ticks, labels, fontsize=7.5)
    axes.set_ylim(at - 0.3, -0.7)
    axes.tick_params(axis="x", labelsize=7.5)
    axes.set_xlabel(
        "VOLTA minus the best baseline, in margins (right: VOLTA is better; band: does not matter)", fontsize=8
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure


if __name__ == "__main__":
    # Equal files for equal numbers: no date, and identifiers that do not change.
    with mpl.rc_context({"svg.hashsalt": "forest", "svg.fonttype": "none", "font.family": "sans-serif"}):
        draw().savefig(FOLDER / "forest.svg", metadata={"Date": None})
