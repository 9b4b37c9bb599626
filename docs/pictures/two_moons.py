"""Write docs/pictures/two-moons.svg: where a classifier answers, abstains and flags, on two moons.

Run with: python docs/pictures/two_moons.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from sklearn.datasets import make_moons

from volta import VoltaClassifier

ANSWERS, ABSTAIN, OOD = ("#cfe3f5", "#fbe0c3"), "#d9d9d9", "#ffffff"
POINTS = ("#1f5f99", "#b5651d")


def main() -> None:
    """Fit on 400 samples, decide on a grid, draw."""
    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "two moons", "svg.fonttype": "path", "font.size": 10})
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after its backend is chosen

    rows, moon = make_moons(400, noise=0.25, random_state=0)
    classifier = VoltaClassifier().fit(rows, moon)
    policy = classifier.fit_policy(max_error=0.05, confidence=0.9)
    x, y = np.meshgrid(np.linspace(-2.2, 3.2, 271), np.linspace(-1.7, 2.1, 191))
    decisions = classifier.decide(np.column_stack([x.ravel(), y.ravel()]))
    region = np.where(decisions.action == 0, decisions.label, decisions.action + 1).reshape(x.shape)

    figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    axes.pcolormesh(x, y, region, cmap=ListedColormap([*ANSWERS, ABSTAIN, OOD]), vmin=0, vmax=3, rasterized=True)
    axes.contour(x, y, region == 3, levels=[0.5], colors="#666666", linewidths=1.2, linestyles="dashed")
    for number, colour in enumerate(POINTS):
        axes.scatter(*rows[moon == number].T, s=9, color=colour, linewidths=0)
    axes.set(xticks=[], yticks=[], aspect="equal")
    shares = [np.mean(classifier.decide(rows).action == action) for action in range(3)]
    handles = [
        Patch(facecolor=ANSWERS[0], edgecolor="#999999", label="answer: moon 0"),
        Patch(facecolor=ANSWERS[1], edgecolor="#999999", label="answer: moon 1"),
        Patch(facecolor=ABSTAIN, edgecolor="#999999", label="abstain"),
        Patch(facecolor=OOD, edgecolor="#666666", linestyle="dashed", label="out of distribution"),
    ]
    figure.legend(handles=handles, loc="outside right center", frameon=False)
    print(policy)
    print("answer, abstain, OOD of the training rows:", *(f"{share:.3f}" for share in shares))
    figure.savefig(Path(__file__).with_name("two-moons.svg"), dpi=100, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
