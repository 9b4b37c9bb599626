"""A table with text and missing cells.

Numbers, categories and missing cells as they come, and why a sample is flagged.

Nothing is encoded, scaled or imputed beforehand. A sample with an unknown category or a measurement far outside
is flagged, and the reason names the unknown category.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from volta import VoltaClassifier

random = np.random.default_rng(0)
species = random.integers(3, size=900)
table = pd.DataFrame(
    {
        "mass": random.normal(np.array([3700, 3750, 5000])[species], 400),
        "bill": random.normal(np.array([38, 48, 47])[species], 2.5),
        "island": np.array(["Torgersen", "Dream", "Biscoe"])[np.where(random.random(900) < 0.7, species, 1)],
    }
)
table.loc[::8, "mass"] = np.nan
names = np.array(["Adelie", "Chinstrap", "Gentoo"])[species]
classifier = VoltaClassifier("linear").fit(table[:700], names[:700])
print(f"accuracy {(classifier.predict(table[700:]) == names[700:]).mean():.3f}")

usual = {"mass": 3700.0, "bill": 38.0, "island": "Dream"}
changes = {
    "as usual": {},
    "mass missing": {"mass": np.nan},
    "an unknown island": {"island": "Atlantis"},
    "mass in grams × 10": {"mass": 37000.0},
    "bill of 60 mm": {"bill": 60.0},
}
samples = pd.DataFrame([usual | change for change in changes.values()])
for name, decision in zip(changes, classifier.decide(samples)):
    print(f"{name}: {decision.action}; {decision.reason}")

# %%
pvalues = classifier.ood_pvalues(samples)
figure, axes = plt.subplots(figsize=(5.6, 2.6))
bars = axes.barh(list(changes), pvalues, color=np.where(pvalues <= 0.05, "C3", "C0"))
axes.bar_label(bars, fmt="%.3f", padding=12)
axes.axvline(0.05, color="0.4", linestyle=":")
axes.invert_yaxis()
axes.set(xlabel="p-value (dotted: 0.05, flagged at or below)", xlim=(0, 1))
plt.show()
