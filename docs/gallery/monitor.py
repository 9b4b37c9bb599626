"""A monitor on a stream.

Evidence against "nothing has changed", sample by sample, and the alarm.

From sample 300 on a camera is a little out of focus. The monitor bets against exchangeability; its capital is
the evidence. Without a change the probability that it *ever* reaches 100 is at most 1 %, so you may look after
each sample.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from volta import VoltaClassifier

rows, labels = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(rows))
rows, labels = rows[order], labels[order]
cal_set = (rows[700:1100], labels[700:1100])
classifier = VoltaClassifier().fit(rows[:700], labels[:700], cal_set=cal_set)
stream = rows[1100:1697]
blurred = (8 * stream + np.roll(stream, 1, axis=1) + np.roll(stream, 8, axis=1)) / 10
changed = np.concatenate([stream[:300], blurred[300:]])

paths = {}
for name, samples in (("no change", stream), ("blurred from sample 300 on", changed)):
    monitor = classifier.monitor(alpha=0.01, random_state=0)
    states = [monitor.update(sample[None]) for sample in samples]
    paths[name] = np.array([state.log_martingale for state in states]) / np.log(10)
    print(f"{name}: alarm {states[-1].alarm}, at sample {states[-1].alarm_at}")

# %%
figure, axes = plt.subplots()
for (name, path), colour in zip(paths.items(), ("C0", "C3")):
    axes.plot(np.minimum(path, 8), color=colour, label=name)
axes.axhline(2, color="0.4", linestyle=":", label="alarm: evidence 100")
axes.axvline(300, color="0.7", linewidth=1)
axes.set(xlabel="sample of the stream", ylabel="evidence, powers of ten", ylim=(None, 8))
axes.legend(loc="upper left")
plt.show()
