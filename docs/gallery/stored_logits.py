"""Stored logits: two calibrators compared.

Read logits from a file, calibrate them in two ways, and ask which is better.

The comparison is paired: all are judged on the same samples, and the interval of a difference comes from
resampling those. So a verdict can be clear where the intervals of the values themselves overlap.
"""

# %%
# The file: validation and test logits of a network whose classes differ in how sure it is of them.
import matplotlib.pyplot as plt
import numpy as np

import volta
from volta.methods.calibrators import CALIBRATORS

random = np.random.default_rng(0)
arrays = {}
for part, n in (("val", 2000), ("test", 4000)):
    labels = random.integers(4, size=n)
    arrays[f"{part}_labels"] = labels
    arrays[f"{part}_logits"] = (random.normal(size=(n, 4)) + 1.5 * np.eye(4)[labels]) * [1.0, 2.0, 3.0, 4.0]
np.savez("net.npz", **arrays)

# %%
stored = np.load("net.npz")
evaluations = {"as it is": volta.evaluate(logits=stored["test_logits"], labels=stored["test_labels"])}
for name in ("temperature", "vector_scaling"):
    fitted = CALIBRATORS[name].fit(stored["val_logits"], stored["val_labels"])
    probs = fitted.probs(stored["test_logits"])
    evaluations[name] = volta.evaluate(probs=probs, labels=stored["test_labels"])
for name, each in evaluations.items():
    print(f"{name:15} NLL {each.metrics['test']['nll']:.3f}  ECE {each.metrics['test']['ece']:.4f}")
compared = volta.compare(evaluations)
for first, second in (("temperature", "as it is"), ("vector_scaling", "temperature")):
    print(f"{first} against {second}, NLL:", compared.pair(first, second, "nll").verdict)

# %%
figure, axes = plt.subplots(figsize=(5.6, 2))
for place, name in enumerate(evaluations):
    interval = evaluations[name].intervals["test"]["nll"]
    axes.plot([interval.low, interval.high], [place, place], color="C0", linewidth=3)
    axes.plot(interval.estimate, place, "o", color="C0")
axes.set(yticks=range(3), yticklabels=list(evaluations), xlabel="NLL on 4,000 samples, 95 % interval", ylim=(-0.6, 2.6))
plt.show()
