"""A guarantee for each group.

One threshold for all hides a group that is served badly; thresholds within groups do not.

Samples come from two sites; at the second, a fifth of all, measurements are noisier. What is known of a new
sample, such as its site, may be a group. The test repeats the whole calibration 200 times: a guarantee is about
draws, and one draw shows little.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax

from volta.decisions import fit_group_sets, fit_sets

random = np.random.default_rng(0)


def draw(n):
    site, labels = (random.random(n) < 0.2).astype(int), random.integers(4, size=n)
    noise = np.where(site == 1, 1.8, 0.8)[:, None] * random.normal(size=(n, 4))
    return softmax(3.0 * (np.eye(4)[labels] + noise / 2), axis=1), labels, site


covered = {"one threshold": [], "a threshold for each site": []}
for _ in range(200):
    probs, labels, site = draw(500)
    new, new_labels, new_site = draw(2000)
    one = fit_sets(probs, labels, alpha=0.1).predict(new)
    each = fit_group_sets(probs, labels, site, n_groups=2, alpha=0.1).predict(new, new_site)
    for name, sets in zip(covered, (one, each)):
        held = sets[np.arange(2000), new_labels]
        covered[name].append([held[new_site == s].mean() for s in (0, 1)])
for name, values in covered.items():
    print(f"{name}: coverage of site A {np.mean(values, axis=0)[0]:.3f}, of site B {np.mean(values, axis=0)[1]:.3f}")

# %%
figure, axes = plt.subplots(figsize=(5.6, 2.8))
for place, (name, values) in enumerate(covered.items()):
    for s in (0, 1):
        box = axes.boxplot(
            np.array(values)[:, s],
            positions=[3 * place + s],
            widths=0.7,
            whis=(5, 95),
            showfliers=False,
            orientation="horizontal",
            patch_artist=True,
            medianprops={"color": "black"},
        )
        box["boxes"][0].set_facecolor(f"C{s}")
axes.axvline(0.9, color="0.4", linestyle=":")
axes.set(
    yticks=[0, 1, 3, 4],
    yticklabels=["one threshold, site A", "one threshold, site B", "for each site, site A", "for each site, site B"],
    xlabel="coverage over 200 calibration draws (box: middle half)",
)
plt.show()
