"""The code of docs/tutorials/own-features.md, made by tools/examples.py."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from volta import VoltaClassifier

rows, labels = load_breast_cancer(return_X_y=True)
known, new, known_labels, new_labels = train_test_split(rows, labels, test_size=150, random_state=0)
classifier = VoltaClassifier().fit(known, known_labels)
print(f"{(classifier.predict(new) == new_labels).mean():.3f} of {len(new)} new samples right")

probabilities = classifier.predict_proba(new)  # (150, 2), calibrated
uncertainty = classifier.uncertainty(new)  # (150,), higher where less certain
sets = classifier.predict_set(new, alpha=0.1)  # (150, 2), True where the class may be the true one
covered = sets[range(len(new)), new_labels].mean()
print(f"the true class is in {covered:.2f} of the sets; asked: 0.90")
print(f"mean set size {sets.sum(axis=1).mean():.2f}")

import matplotlib.pyplot as plt
import numpy as np

wrong = classifier.predict(new) != new_labels
order = np.argsort(probabilities.max(axis=1))
figure, axes = plt.subplots()
colours = np.where(wrong[order], "C3", "C0")
axes.scatter(np.arange(len(new)), probabilities.max(axis=1)[order], s=12, c=colours)
axes.set(xlabel="150 new samples, least certain first (red: wrong)", ylabel="probability of the answer")
plt.show()

decisions = classifier.decide(new)
print(decisions[0])
for decision in decisions[:150]:
    if decision.action != "answer":
        print(decision)
        break

classifier.save("model.safetensors")  # one file with a checksum; no pickle
same = VoltaClassifier.load("model.safetensors")
assert (same.predict_proba(new) == probabilities).all()

plain = VoltaClassifier("linear").fit(known, known_labels)
print(f"{(plain.predict(new) == new_labels).mean():.3f}")
