"""How a verdict depends on the number of seeds.

The same true difference, judged with 3, 10 and 40 seeds: inconclusive is not equal.

Method A is truly better by half the margin, by the margin and by two margins. Each comparison is repeated 400
times; the verdict follows from the interval of the paired difference.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

random, margin, deviation = np.random.default_rng(0), 0.01, 0.012


def verdict(differences):
    """Give the verdict: the 90 % interval decides equivalence, the 95 % interval better or worse."""
    mean, error = differences.mean(), stats.sem(differences)
    half = {level: error * stats.t.ppf(0.5 + level / 2, len(differences) - 1) for level in (0.9, 0.95)}
    if abs(mean) - half[0.9] > -margin and abs(mean) + half[0.9] < margin:
        return "equivalent"
    if abs(mean) > half[0.95]:
        return "better" if mean > 0 else "worse"
    return "inconclusive"


verdicts = ("better", "worse", "equivalent", "inconclusive")
shares = {}
for gain in (0.0, margin, 2 * margin):
    for seeds in (3, 10, 40):
        found = [verdict(random.normal(gain, deviation, seeds)) for _ in range(400)]
        shares[gain, seeds] = [found.count(each) / 400 for each in verdicts]
        print(f"true gain {gain:.3f}, {seeds:2} seeds:", dict(zip(verdicts, shares[gain, seeds])))

# %%
figure, axes = plt.subplots(1, 3, figsize=(6.4, 2.6), sharey=True)
for axis, gain in zip(axes, (0.0, margin, 2 * margin)):
    bottom = np.zeros(3)
    for number, colour in enumerate(("C0", "C3", "C2", "0.75")):
        values = np.array([shares[gain, seeds][number] for seeds in (3, 10, 40)])
        axis.bar(["3", "10", "40"], values, bottom=bottom, color=colour, label=verdicts[number])
        bottom += values
    axis.set(title=f"true gain {gain:g}", xlabel="seeds")
axes[0].set(ylabel="share of comparisons")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
plt.show()
