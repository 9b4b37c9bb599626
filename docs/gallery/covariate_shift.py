"""Weights under covariate shift.

A batch comes from elsewhere; weights from its unlabelled samples restore the coverage.

Labels given features are as before, but features are larger. `shift_weights` learns how much likelier each
calibration sample is in the batch, and `effective_n` says how many calibration samples that leaves.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from volta.decisions import fit_sets, shift_weights

random = np.random.default_rng(0)


def draw(n, shift):
    x = random.normal(shift, 1.0, size=n)
    return x, (random.random(n) < 1 / (1 + np.exp(-2 * np.sin(1.5 * x)))).astype(int)


def model(x):
    """A model that is right on the left and too sure of itself on the right."""
    p = 1 / (1 + np.exp(-2 * np.sin(1.5 * x) * np.where(x > 0.7, 3, 1)))
    return np.column_stack([1 - p, p])


shifts, plain, weighted, left = np.array([0, 0.25, 0.5, 0.75, 1.0, 1.25]), [], [], []
for shift in shifts:
    held, held_weighted, effective = [], [], []
    for _ in range(40):
        x, labels = draw(800, 0.0)
        new, new_labels = draw(400, shift)
        rows = np.arange(400)
        held.append(fit_sets(model(x), labels, alpha=0.1).predict(model(new))[rows, new_labels].mean())
        weights = shift_weights(x[:, None], new[:, None], n_folds=2, rng=random)
        sets = weights.sets(1 - model(x)[np.arange(800), labels], 1 - model(new), alpha=0.1)
        held_weighted.append(sets[rows, new_labels].mean())
        effective.append(weights.effective_n)
    plain.append(np.mean(held)), weighted.append(np.mean(held_weighted)), left.append(np.mean(effective))
for row in zip(shifts, plain, weighted, left):
    print("shift {:.2f}: coverage {:.2f}, weighted {:.2f}, effective calibration samples {:.0f} of 800".format(*row))

# %%
figure, axes = plt.subplots()
axes.plot(shifts, plain, "o-", color="C3", label="as it is")
axes.plot(shifts, weighted, "o-", color="C0", label="weighted")
axes.axhline(0.9, color="0.4", linestyle=":", label="asked: 0.90")
axes.set(xlabel="shift of the feature, in standard deviations", ylabel="coverage of the batch")
axes.legend(loc="lower left")
plt.show()
