"""What auto is made of.

`method="auto"` joins a linear probe, a network and two kinds of trees by weights.

The weights minimise the log loss of samples predicted without their fold; members without weight are
dropped.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine, make_moons

from volta import VoltaClassifier
from volta.metrics import nll

moons = make_moons(500, noise=0.3, random_state=0)
tables = {"cancer": load_breast_cancer(return_X_y=True), "wine": load_wine(return_X_y=True), "two moons": moons}
weights = {}
for name, (rows, labels) in tables.items():
    order = np.random.default_rng(0).permutation(len(rows))
    fit, test = order[: 2 * len(rows) // 3], order[2 * len(rows) // 3 :]
    classifier = VoltaClassifier("auto", calibration="split").fit(rows[fit], labels[fit])
    method = classifier.method_
    weights[name] = {fits[0].title: weight for fits, weight in zip(method.members_, method.weights_)}
    print(f"{name}: NLL {nll(classifier.predict_proba(rows[test]), labels[test]):.3f}, members {list(weights[name])}")

# %%
titles = sorted({title for each in weights.values() for title in each})
figure, axes = plt.subplots(figsize=(6.4, 2.6))
left = np.zeros(len(weights))
for title in titles:
    shares = np.array([each.get(title, 0.0) / sum(each.values()) for each in weights.values()])
    axes.barh(list(weights), shares, left=left, label=title)
    left += shares
axes.invert_yaxis()
axes.set(xlabel="share of the weights", xlim=(0, 1))
figure.legend(loc="outside upper center", ncols=len(titles))
plt.show()
