"""P-values of known and unknown digits.

P-values of samples like the calibration samples are uniform; those of others are small.

The model knows the digits 0 to 7. A flag at a false-positive rate of 5 % is a p-value of at most 0.05: about 5
% of known digits lie there, whatever the model. How many *unknown* ones lie there is a measure of the model's
score.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from volta import VoltaClassifier

rows, labels = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(rows))
rows, labels = rows[order], labels[order]
known = labels < 8
fit, test = np.flatnonzero(known)[:1000], np.flatnonzero(known)[1000:]
classifier = VoltaClassifier("mahalanobis").fit(rows[fit], labels[fit])
pvalues = {
    "known digits, 0 to 7": classifier.ood_pvalues(rows[test]),
    "unknown digits, 8 and 9": classifier.ood_pvalues(rows[~known]),
    "uniform noise": classifier.ood_pvalues(np.random.default_rng(0).uniform(0, 16, (300, 64))),
}
for name, each in pvalues.items():
    print(f"{name}: {(each <= 0.05).mean():.3f} of {len(each)} flagged at 0.05")

# %%
figure, axes = plt.subplots()
for name, each in pvalues.items():
    axes.step(
        np.r_[0, np.sort(each), 1], np.r_[0, np.arange(1, len(each) + 1) / len(each), 1], where="post", label=name
    )
axes.plot([0, 1], [0, 1], ":", color="0.5", label="uniform")
axes.axvline(0.05, color="0.4", linewidth=1)
axes.set(xlabel="p-value", ylabel="share of samples at or below", xlim=(0, 1), ylim=(0, 1.02))
axes.legend(loc="lower right")
plt.show()
