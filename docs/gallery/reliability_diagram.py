"""Reliability diagram of a random forest.

Whether the probabilities of a random forest mean what they say.

A forest averages votes, so its probabilities are pulled to the middle: it is *under*confident. Bars are 95 %
intervals of the accuracy in each bin (Wilson). `volta.evaluate(probs=..., labels=...).plot.reliability()` draws
a plot of this kind in one line.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from volta.metrics import ece, ece_expected, reliability_bins, signed_ce

rows, labels = load_digits(return_X_y=True)
rows = rows + np.random.default_rng(0).normal(0, 3, rows.shape)  # noise makes the digits hard to read
train, test, train_labels, test_labels = train_test_split(rows, labels, test_size=0.5, random_state=0)
forest = RandomForestClassifier(100, random_state=0).fit(train, train_labels)
probs = forest.predict_proba(test)

expected = ece_expected(probs)
print(f"ECE {ece(probs, test_labels):.3f}; perfect calibration: {expected.low:.3f} to {expected.high:.3f}")
print(f"mean confidence less accuracy: {signed_ce(probs, test_labels):+.3f}")

# %%
bins = reliability_bins(probs, test_labels)
z, n, p = 1.96, bins.count, bins.accuracy
centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)

figure, (top, bottom) = plt.subplots(2, 1, figsize=(4.6, 4.6), sharex=True, gridspec_kw={"height_ratios": [3, 1]})
top.plot([0, 1], [0, 1], ":", color="0.5", label="perfect calibration")
top.vlines(bins.confidence, centre - half, centre + half, color="C0")
top.plot(bins.confidence, p, "o-", color="C0", label="random forest")
top.set(ylabel="accuracy", ylim=(0, 1.02))
top.legend(loc="lower right")
bottom.bar(bins.confidence, n, width=0.05, color="0.6")
bottom.set(xlabel="confidence", ylabel="samples", xlim=(0, 1))
plt.show()
