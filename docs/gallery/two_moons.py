"""OOD flags on two moons.

Where a classifier answers, abstains and calls a sample out-of-distribution.

The plane is coloured by `decide`: each moon's region, samples too uncertain to answer, and samples unlike all
that were seen. Far from the data a network is as sure as near it; the flag is what tells them apart.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.datasets import make_moons

from volta import VoltaClassifier

rows, moon = make_moons(400, noise=0.25, random_state=0)
classifier = VoltaClassifier().fit(rows, moon)
policy = classifier.fit_policy(max_error=0.05, confidence=0.9)
for point in ([0.5, 0.25], [0.0, 1.0], [6.0, -4.0]):
    print(point, "->", classifier.decide([point])[0])

# %%
x, y = np.meshgrid(np.linspace(-2.4, 3.4, 117), np.linspace(-2.0, 2.4, 89))
grid = np.column_stack([x.ravel(), y.ravel()])
decisions = classifier.decide(grid)
region = np.where(decisions.action == 0, decisions.label, decisions.action + 1).reshape(x.shape)

figure, axes = plt.subplots(figsize=(5.6, 3.8))
colours = ListedColormap(["#cfe3f5", "#fbe0c3", "#d0d0d0", "#f4f4f4"])
axes.pcolormesh(x, y, region, cmap=colours, vmin=0, vmax=3, rasterized=True)
axes.contour(x, y, region == 3, levels=[0.5], colors="0.4", linewidths=1, linestyles="dashed")
for k, colour in enumerate(("#1f5f99", "#b5651d")):
    axes.scatter(*rows[moon == k].T, s=6, color=colour, rasterized=True)
axes.text(-2.3, 2.1, "out of distribution", color="0.35")
axes.annotate("abstain", (0.5, 0.3), (2.2, 1.6), color="0.2", arrowprops={"arrowstyle": "-", "color": "0.4"})
axes.set(xticks=[], yticks=[], aspect="equal")
axes.axis("off")
plt.show()
