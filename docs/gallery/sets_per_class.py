"""Prediction sets of each class.

Why sets that cover 90 % on average may hardly ever cover a rare class, and what helps.

Three classes; the third is rare and hard. Sets with a *marginal* guarantee hold the true class 9 times of 10
over all samples. With `conditional="class"` they do so within each class, and pay with larger sets.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from volta.decisions import fit_sets

random = np.random.default_rng(0)


def draw(n):
    labels = random.choice(3, n, p=[0.6, 0.35, 0.05])
    centres = np.array([[0.0, 0.0], [2.5, 0.0], [1.2, 1.2]])
    return centres[labels] + random.normal(size=(n, 2)), labels


train, train_labels = draw(3000)
cal, cal_labels = draw(2000)
test, test_labels = draw(20000)
model = LogisticRegression().fit(train, train_labels)

coverage, size = {}, {}
for name, conditional in (("marginal", "none"), ("class-conditional", "class")):
    sets = fit_sets(model.predict_proba(cal), cal_labels, alpha=0.1, conditional=conditional)
    found = sets.predict(model.predict_proba(test))
    held = found[np.arange(len(test)), test_labels]
    coverage[name] = [held[test_labels == k].mean() for k in range(3)]
    size[name] = found.sum(axis=1).mean()
    print(f"{name}: coverage {held.mean():.3f}, of classes {np.round(coverage[name], 2)}, mean size {size[name]:.2f}")

# %%
figure, axes = plt.subplots()
for place, (name, values) in enumerate(coverage.items()):
    bars = axes.bar(np.arange(3) + 0.38 * place - 0.19, values, width=0.36, label=f"{name}, mean size {size[name]:.2f}")
    axes.bar_label(bars, fmt="%.2f", fontsize=8)
axes.axhline(0.9, color="0.4", linestyle=":", label="asked: 0.90")
axes.set(
    xticks=range(3), xticklabels=["common, 60 %", "less common, 35 %", "rare, 5 %"], ylabel="coverage", ylim=(0, 1.3)
)
axes.legend(loc="upper right", ncols=1, fontsize=8)
plt.show()
