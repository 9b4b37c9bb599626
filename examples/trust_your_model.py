"""The code of docs/tutorials/trust-your-model.md, made by tools/examples.py."""

import numpy as np
import pandas as pd

random = np.random.default_rng(0)
species = random.integers(3, size=900)
table = pd.DataFrame(
    {
        "mass": random.normal(size=900) * 400 + np.array([3700, 3750, 5000])[species],
        "bill": random.normal(size=900) * 2.5 + np.array([38, 48, 47])[species],
        "island": np.array(["Torgersen", "Dream", "Biscoe"])[np.where(random.random(900) < 0.7, species, 1)],
    }
)
table.loc[::31, "mass"] = np.nan
labels = np.array(["Adelie", "Chinstrap", "Gentoo"])[species]

import lightgbm
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from volta import TrustedClassifier

columns = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["island"]), remainder="passthrough"
)
model = make_pipeline(columns, lightgbm.LGBMClassifier(n_estimators=30, verbose=-1, n_jobs=1))
trusted = TrustedClassifier(model, calibration="split").fit(table[:800], labels[:800])

print(trusted.decide(table[800:801])[0])
print(trusted.decide([{"mass": 3700, "bill": 39, "island": "Atlantis"}])[0])

policy = trusted.fit_policy(max_error=0.2)
print(f"{policy.coverage:.0%} of samples are answered")
trusted.card("card.html")
trusted.save("trusted.safetensors")
trusted.to_onnx("trusted.onnx")

import matplotlib.pyplot as plt

decisions = trusted.decide(table[800:])
actions = np.array(["answer", "abstain", "ood"])[decisions.action]
right = trusted.predict(table[800:]) == labels[800:]
figure, axes = plt.subplots(figsize=(5.6, 2))
left = np.zeros(3)
for name, colour, which in (("right", "C0", right), ("wrong", "C3", ~right)):
    counts = np.array([((actions == action) & which).sum() for action in ("answer", "abstain", "ood")])
    axes.barh(["answer", "abstain", "ood"], counts, left=left, color=colour, label=name)
    left += counts
axes.invert_yaxis()
axes.set(xlabel="100 new samples")
axes.legend()
plt.show()

fitted = model.fit(table[:500], labels[:500])
calibrated = TrustedClassifier(fitted, prefit=True).fit(table[500:800], labels[500:800])
print((calibrated.predict(table[800:]) == labels[800:]).mean() > 0.8)

from volta import load

same = load("trusted.safetensors")
print((same.decide(table[800:]).action == trusted.decide(table[800:]).action).all())

import json

import onnxruntime

session = onnxruntime.InferenceSession("trusted.onnx")
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
new = table[800:803]
cells = {name: new[[name]].to_numpy() for name in ("mass", "bill")} | {
    "island": new[["island"]].to_numpy().astype(object)
}
decision, label = session.run(["decision", "label"], cells)
print([("answer", "abstain", "ood")[d] for d in decision], [classes[k] for k in label])
