"""The code of docs/tutorials/plug-in.md, made by tools/examples.py."""

import subprocess

import my_scores
import volta

volta.check_method(my_scores.Margin(temperature=2.0))
volta.check_method(my_scores.Centroid())

subprocess.run('volta bench digits --methods "softmax,my_scores:Centroid,my_scores:Margin(temperature=2)" --seeds 2 --max-epochs 2 --out runs/mine --no-report', shell=True, check=True)

import my_scores
from sklearn.datasets import load_wine
from volta import VoltaClassifier

rows, labels = load_wine(return_X_y=True)
classifier = VoltaClassifier(my_scores.Centroid(), max_epochs=3).fit(rows, labels)
print(classifier.uncertainty(rows[:3]).round(3))

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(5.6, 2.6))
for k in range(3):
    axes.hist(classifier.uncertainty(rows[labels == k]), bins=20, histtype="step", linewidth=2, label=f"class {k}")
axes.set(xlabel="distance to the nearest class mean", ylabel="samples")
axes.legend()
plt.show()
