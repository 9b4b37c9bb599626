"""Boosted trees with guarantees.

Wrap scikit-learn's boosted trees: the same model, with calibrated probabilities and decisions.

`TrustedClassifier` takes LightGBM, XGBoost, CatBoost and pipelines alike. Trees are grown to be right, not to
be sure by the right amount; the wrapper calibrates them on samples that they did not see.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from volta import TrustedClassifier
from volta.metrics import nll, reliability_bins

rows, labels = make_classification(
    5500, n_features=12, n_informative=8, n_classes=3, flip_y=0.08, class_sep=1.0, random_state=0
)
train, test, train_labels, test_labels = train_test_split(rows, labels, test_size=2500, random_state=0)
trees = HistGradientBoostingClassifier(max_iter=100, random_state=0)
trusted = TrustedClassifier(trees).fit(train, train_labels)
alone = trees.fit(train, train_labels)

probs = {"trees alone": alone.predict_proba(test), "TrustedClassifier": trusted.predict_proba(test)}
for name, each in probs.items():
    print(f"{name}: accuracy {(each.argmax(axis=1) == test_labels).mean():.3f}, NLL {nll(each, test_labels):.3f}")
policy = trusted.fit_policy(max_error=0.1)
answered = ~trusted.abstain(test)
wrong = (trusted.predict(test) != test_labels)[answered].mean()
print(f"{answered.mean():.2f} of new samples answered, {wrong:.3f} of the answers wrong (asked: at most 0.10)")

# %%
figure, axes = plt.subplots(figsize=(4.6, 3.6))
axes.plot([0.3, 1], [0.3, 1], ":", color="0.5", label="perfect calibration")
for (name, each), colour in zip(probs.items(), ("C3", "C0")):
    bins = reliability_bins(each, test_labels, n_bins=12)
    axes.plot(bins.confidence, bins.accuracy, "o-", color=colour, label=name)
axes.set(xlabel="confidence", ylabel="accuracy", xlim=(0.3, 1), ylim=(0.2, 1.02))
axes.legend(loc="upper left")
plt.show()
