"""The code of docs/tutorials/ood-and-streams.md, made by tools/examples.py."""

import numpy as np
from sklearn.datasets import load_digits
from volta import VoltaClassifier

rows, labels = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(rows))  # the file is sorted by writer, see below
rows, labels = rows[order], labels[order]
known = labels < 8  # the classes 8 and 9 are never shown to the model
rows_known, labels_known = rows[known], labels[known]
fit, cal, test = slice(0, 800), slice(800, 1100), slice(1100, None)
classifier = VoltaClassifier().fit(rows_known[fit], labels_known[fit], cal_set=(rows_known[cal], labels_known[cal]))

flags = {
    "known digits": classifier.is_ood(rows_known[test], fpr=0.05),
    "eights and nines": classifier.is_ood(rows[~known], fpr=0.05),
    "noise": classifier.is_ood(np.random.default_rng(0).uniform(0, 16, (200, 64)), fpr=0.05),
}
for name, flagged in flags.items():
    print(f"{name}: {flagged.mean():.2f} of {len(flagged)} flagged")

pvalues = classifier.ood_pvalues(rows[~known][:3])
print(np.round(pvalues, 3), "the smallest possible is", round(1 / (300 + 1), 4))

import matplotlib.pyplot as plt

figure, axes = plt.subplots()
bins = np.linspace(0, 1, 21)
for name, samples in (("known digits", rows_known[test]), ("eights and nines", rows[~known])):
    p = classifier.ood_pvalues(samples)
    axes.hist(p, bins=bins, weights=np.full(len(p), 1 / len(p)), histtype="step", linewidth=2, label=name)
axes.axvline(0.05, color="0.5", linestyle=":")
axes.set(xlabel="p-value", ylabel="share of samples")
axes.legend()
plt.show()

mixed = np.concatenate([rows_known[test], np.random.default_rng(1).uniform(0, 16, (20, 64))])
flagged = classifier.is_ood(mixed, fdr=0.2)
print(f"{flagged.sum()} flags in a batch of {len(mixed)}")

monitor = classifier.monitor(alpha=0.01, random_state=0)
print("known digits:", monitor.update(rows_known[test]).alarm)
blurred = (rows_known[test] + np.roll(rows_known[test], 1, axis=1) + np.roll(rows_known[test], 8, axis=1)) / 3
state = monitor.update(blurred)
print("a blurred camera:", state.alarm, "at sample", state.alarm_at, "p-value", f"{state.pvalue:.1e}")
