"""How many answers, how many errors.

A risk-coverage curve, and the policy that guarantees at most 5 % errors among answers.

The curve says what *would* have happened on the test samples at every threshold. The policy is chosen before,
on calibration samples alone, and holds for new samples with 95 % confidence.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from volta import VoltaClassifier
from volta.metrics import risk_coverage_curve

rows, labels = load_digits(return_X_y=True)
random = np.random.default_rng(0)
order = random.permutation(len(rows))
rows, labels = rows[order] + random.normal(0, 5, rows.shape), labels[order]  # noise makes the digits hard to read
fit, cal, test = slice(0, 700), slice(700, 1300), slice(1300, None)
classifier = VoltaClassifier().fit(rows[fit], labels[fit], cal_set=(rows[cal], labels[cal]))
policy = classifier.fit_policy(max_error=0.05)

correct = classifier.predict(rows[test]) == labels[test]
answered = ~classifier.abstain(rows[test])
print(f"all {len(correct)} answered: {(~correct).mean():.3f} wrong")
print(f"{answered.mean():.2f} answered: {(~correct[answered]).mean():.3f} wrong; guaranteed: at most 0.05")

# %%
curve = risk_coverage_curve(classifier.uncertainty(rows[test]), correct)
figure, axes = plt.subplots()
axes.plot(curve.coverage, curve.risk, color="C0", label="this classifier")
best = np.maximum(0, 1 - correct.mean() / curve.coverage)
axes.plot(curve.coverage, best, ":", color="0.5", label="perfect order: all errors last")
axes.axhline(0.05, color="C3", linewidth=1, label="at most 5 % wrong")
axes.plot(answered.mean(), (~correct[answered]).mean(), "o", color="C0", markersize=9, label="the policy")
axes.set(
    xlabel="coverage: share of samples answered", ylabel="risk: share of answers wrong", xlim=(0, 1), ylim=(0, None)
)
axes.legend(loc="upper left")
plt.show()
