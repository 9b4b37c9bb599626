"""The code of docs/tutorials/own-logits.md, made by tools/examples.py."""

import subprocess

import numpy as np

random = np.random.default_rng(0)


def network(n_rows):
    """Stands for your network: logits and labels of n rows."""
    labels = random.integers(5, size=n_rows)
    return 4.0 * (random.normal(size=(n_rows, 5)) + 2.0 * np.eye(5)[labels]), labels


val_logits, val_labels = network(1000)
cal_logits, cal_labels = network(1000)
test_logits, test_labels = network(2000)

import volta

before = volta.evaluate(logits=test_logits, labels=test_labels)
interval = before.intervals["test"]["ece"]
print(f"ECE {interval.estimate:.3f}, 95 % interval {interval.low:.3f} to {interval.high:.3f}")
print(f"perfect calibration of this confidence: {before.metrics['test']['ece_expected']:.3f}")

from volta import LabelledOutputs, Outputs, PostHocClassifier

val = LabelledOutputs(Outputs(val_logits), val_labels)
cal = LabelledOutputs(Outputs(cal_logits), cal_labels)
classifier = PostHocClassifier("temperature").fit(val=val, cal=cal)
after = volta.evaluate(probs=classifier.predict_proba(test_logits), labels=test_labels)
print(f"ECE {after.metrics['test']['ece']:.3f}")
print("NLL is", volta.compare({"as it is": before, "tempered": after}).pair("tempered", "as it is", "nll").verdict)

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.2), sharey=True)
for axis, name, evaluation in zip(axes, ("as it is", "after one temperature"), (before, after)):
    evaluation.plot.reliability(axis)
    axis.set_title(name, loc="left")
plt.show()

classifier.fit_policy(max_error=0.05)
print(f"answers {classifier.policy_.coverage:.2f} of samples, at most 5 % of the answers wrong, with confidence 0.95")
answered = ~classifier.abstain(test_logits)
wrong = (classifier.predict(test_logits) != test_labels)[answered].mean()
print(f"on the test samples: {answered.mean():.2f} answered, {wrong:.3f} of them wrong")

np.savez("net.npz", val_logits=val_logits, val_labels=val_labels, test_logits=test_logits, test_labels=test_labels)

subprocess.run('volta calibrate net.npz --fit net.npz --method temperature --out tempered.npz', shell=True, check=True)
subprocess.run('volta evaluate net.npz tempered.npz --logits --out runs/tempering', shell=True, check=True)
