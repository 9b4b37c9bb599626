"""The code of docs/tutorials/compare-honestly.md, made by tools/examples.py."""

import subprocess

import volta
from sklearn.datasets import load_breast_cancer

rows, labels = load_breast_cancer(return_X_y=True)
task = volta.Task.from_arrays(train=(rows, labels), name="cancer")
run = volta.benchmark(task, ["volta", "temperature", "linear"], seeds=3, max_epochs=8, progress=False)
for row in run.summary().where(set="test+T", metric="nll"):
    print(f"{row['method']:12} {row['mean']:.3f} ± {row['std']:.3f} over {row['n']} seeds")

import matplotlib.pyplot as plt

values = {(row["method"], row["seed"]): row["value"] for row in run.results().where(set="test+T", metric="nll")}
figure, axes = plt.subplots()
for seed in run.seeds:
    axes.plot(run.methods, [values[method, seed] for method in run.methods], "o-", label=f"seed {seed}")
axes.set(ylabel="NLL after one temperature")
axes.legend()
plt.show()

for row in run.tests("temperature").where(set="test+T", metric="nll"):
    print(row["reference"], "against", row["method"], "|", row["verdict"], "| difference", round(row["difference"], 4))
    print("   margin", row["margin"], "| could have found", round(row["detectable_difference"], 4))

for row in run.leaderboard().where(metric="nll"):
    print(
        row["method"], "is not in" if row["in_confidence_set"] is False else "is in", "the confidence set of the best"
    )

subprocess.run('volta bench digits --methods temperature,linear --reference temperature --decide --cap 3 --max-epochs 2 --out runs/decided --no-report', shell=True, check=True)

subprocess.run('volta compare runs/decided runs/decided', shell=True, check=True)
