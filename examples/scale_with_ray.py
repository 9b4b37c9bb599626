"""The code of docs/tutorials/scale-with-ray.md, made by tools/examples.py."""

import subprocess

subprocess.run('volta bench digits --methods softmax,energy --seeds 2 --max-epochs 2 --limit-test 60 --executor ray --out runs/ray --no-report', shell=True, check=True)

subprocess.run('volta bench digits --methods softmax,energy --seeds 2 --max-epochs 2 --limit-test 60 --executor local --out runs/local --no-report', shell=True, check=True)

import volta

kinds = ("method", "seed", "set", "metric", "value")
costs = ("latency_ms", "latency_p95_ms", "peak_mb", "train_s")


def values(folder):
    return sorted(
        tuple(row[kind] for kind in kinds) for row in volta.open_run(folder).results() if row["metric"] not in costs
    )


assert values("runs/ray") == values("runs/local")
print(len(values("runs/ray")), "values, all equal")
