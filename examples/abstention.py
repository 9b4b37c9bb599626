"""The code of docs/tutorials/abstention.md, made by tools/examples.py."""

import numpy as np
from sklearn.datasets import load_digits
from volta import VoltaClassifier

rows, labels = load_digits(return_X_y=True)
random = np.random.default_rng(0)
order = random.permutation(len(rows))  # the file is sorted by writer; guarantees need exchangeable samples
rows, labels = rows[order] + random.normal(0, 6, rows.shape), labels[order]  # noise makes the digits hard to read
fit, cal, test = slice(0, 900), slice(900, 1400), slice(1400, 1797)
classifier = VoltaClassifier().fit(rows[fit], labels[fit], cal_set=(rows[cal], labels[cal]))
print(f"answering everything: {(classifier.predict(rows[test]) != labels[test]).mean():.2f} wrong")

policy = classifier.fit_policy(max_error=0.10, confidence=0.95)
print(policy)

answered = ~classifier.abstain(rows[test])
wrong = (classifier.predict(rows[test]) != labels[test])[answered].mean()
print(f"{answered.mean():.2f} of the test samples answered, {wrong:.3f} of those wrong")

import matplotlib.pyplot as plt
from volta.metrics import risk_coverage_curve

correct = classifier.predict(rows[test]) == labels[test]
curve = risk_coverage_curve(classifier.uncertainty(rows[test]), correct)
figure, axes = plt.subplots()
axes.plot(curve.coverage, curve.risk, label="any threshold")
axes.plot(answered.mean(), wrong, "o", markersize=9, color="C3", label="the policy's")
axes.axhline(0.10, color="0.5", linestyle=":")
axes.set(xlabel="share of samples answered", ylabel="share of answers wrong", xlim=(0, 1), ylim=(0, None))
axes.legend(loc="upper left")
plt.show()

import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    classifier.fit_policy(max_error=0.001)
print(classifier.policy_.exists, "|", caught[0].message)

from volta.decisions import rows_needed

print({max_error: rows_needed(max_error, 0.95) for max_error in (0.1, 0.05, 0.02, 0.001)})

policy = classifier.fit_policy(coverage=0.8)
print(f"{policy.coverage:.2f} answered, between {policy.coverage_low:.2f} and {policy.coverage_high:.2f}")
