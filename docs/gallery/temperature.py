"""Calibration before and after a temperature.

What one temperature does to a network that is too sure of itself.

The logits are made: those of a calibrated network, times three. Temperature scaling finds the factor from 1,000
validation samples. The grey band is the ECE that a perfectly calibrated network of the same confidences would
show on 2,000 samples.
"""

# %%
import numpy as np

from volta import LabelledOutputs, Outputs, PostHocClassifier
from volta.metrics import ece, ece_expected

random = np.random.default_rng(0)


def network(n_samples):
    labels = random.integers(5, size=n_samples)
    return 3.0 * (random.normal(size=(n_samples, 5)) + 2.0 * np.eye(5)[labels]), labels


val_logits, val_labels = network(1000)
cal_logits, cal_labels = network(1000)
logits, labels = network(2000)

calibrated = PostHocClassifier("temperature").fit(
    val=LabelledOutputs(Outputs(val_logits), val_labels), cal=LabelledOutputs(Outputs(cal_logits), cal_labels)
)
plain = PostHocClassifier("softmax").fit(cal=LabelledOutputs(Outputs(cal_logits), cal_labels))
probs = {"before": plain.predict_proba(logits), "after": calibrated.predict_proba(logits)}
for name, each in probs.items():
    print(f"{name}: mean confidence {each.max(axis=1).mean():.3f}, ECE {ece(each, labels):.4f}")
print(f"accuracy: {(probs['after'].argmax(axis=1) == labels).mean():.3f}, before and after")

# %%
# The ECE falls to what chance alone makes of 2,000 samples. The predicted classes stay the same.
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(6.4, 3))
bins = np.linspace(0.2, 1, 17)
for (name, each), colour in zip(probs.items(), ("C3", "C0")):
    axes[0].hist(each.max(axis=1), bins=bins, histtype="step", linewidth=2, color=colour, label=name)
axes[0].set(xlabel="confidence", ylabel="samples")
axes[0].legend(loc="upper left")
for place, (name, each) in enumerate(probs.items()):
    expected = ece_expected(each)
    axes[1].bar(place, ece(each, labels), width=0.5, color=("C3", "C0")[place])
    axes[1].fill_between([place - 0.4, place + 0.4], expected.low, expected.high, color="0.5", alpha=0.5)
axes[1].set(xticks=[0, 1], xticklabels=list(probs), ylabel="ECE (grey: perfect calibration)")
plt.show()
