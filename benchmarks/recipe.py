"""How many epochs the `fair` recipe's one complete cycle should have: NLL on validation rows, after temperature.

Every network of the table is trained for N epochs of one OneCycle and keeps its last weights; a temperature is
fitted to its validation logits, and the NLL of those rows is what ranks N. Test rows are never touched.

    VOLTA_DATA=DIR python benchmarks/recipe.py --tasks cifar10,cifar100,tinyimagenet --table recipe.csv

Rows that the table already holds are not measured again, so a stopped run goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from volta.core.types import FitData
from volta.data import find_task
from volta.methods.temperature import fit_temperature
from volta.networks.modules import Encoder, Epistemic, Head, Hyperbolic, Linear, Prototypes
from volta.networks.objectives import CrossEntropy, Objective, VariancePenalty
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer, volta_setup

EPOCHS = (6, 8, 10, 12, 16, 24, 32)
COLUMNS = ("task", "encoder", "network", "epochs", "seed", "val_nll", "val_accuracy", "seconds")

Network = Callable[[Encoder], tuple[Encoder, Head, Objective]]
NETWORKS: dict[str, Network] = {
    "softmax": lambda encoder: (encoder, Linear(), CrossEntropy()),
    "mc_dropout": lambda encoder: (replace(encoder, dropout=0.2), Linear(), CrossEntropy()),
    "volta": lambda encoder: (encoder, Prototypes(), CrossEntropy()),
    "hyperbolic": lambda encoder: (encoder, Hyperbolic(), CrossEntropy()),
    "enn": lambda encoder: (encoder, Epistemic(), CrossEntropy()),
    "taylor_sensus": lambda encoder: (encoder, Linear(), VariancePenalty(0.1)),
}


def measure(data: FitData, name: str, n_epochs: int, seed: int) -> tuple[float, float, float]:
    """Return the validation NLL after temperature, the validation accuracy and the seconds of one training."""
    encoder, recipe = volta_setup(data, "fair")
    body, head, objective = NETWORKS[name](encoder)
    spec = NetworkSpec(body, head, data.input_shape, data.n_classes)
    recipe = replace(recipe, max_epochs=n_epochs, min_steps=0)
    network = Trainer(seed=seed).network(data, spec, recipe, objective)
    logits = network.outputs(data.val.inputs).logits
    accuracy = float(np.mean(logits.argmax(axis=1) == data.val.labels))
    return fit_temperature(logits, data.val.labels).nll, accuracy, network.log.seconds


def read_table(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def print_summary(rows: list[dict[str, str]]) -> None:
    """Print, per task and N, the NLL averaged over networks, its excess over the best N, and the spread over seeds."""
    for task in dict.fromkeys(row["task"] for row in rows):
        mine = [row for row in rows if row["task"] == task]
        print(f"\n{task} (encoder {mine[0]['encoder']}): mean over networks of validation NLL after temperature")
        print("  N    mean NLL   worst network's excess   mean sd over seeds   n")
        by_cell: dict[tuple[str, int], list[float]] = {}
        for row in mine:
            by_cell.setdefault((row["network"], int(row["epochs"])), []).append(float(row["val_nll"]))
        networks = sorted({name for name, _ in by_cell})
        best = {name: min(np.mean(v) for (other, _), v in by_cell.items() if other == name) for name in networks}
        for n_epochs in sorted({n for _, n in by_cell}):
            values = {name: by_cell[name, n_epochs] for name in networks if (name, n_epochs) in by_cell}
            excess = max(float(np.mean(v)) - best[name] for name, v in values.items())
            spread = np.mean([np.std(v, ddof=1) for v in values.values() if len(v) > 1] or [np.nan])
            mean = np.mean([np.mean(v) for v in values.values()])
            print(f"  {n_epochs:<4} {mean:.4f}     {excess:.4f}                   {spread:.4f}               "
                  f"{sum(map(len, values.values()))}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", default="cifar10,cifar100,tinyimagenet")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--epochs", default=",".join(map(str, EPOCHS)))
    parser.add_argument("--seeds", default="42,123,456")
    parser.add_argument("--table", type=Path, default=Path("recipe.csv"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = read_table(arguments.table)
    known = {tuple(row[name] for name in COLUMNS[:5]) for row in rows}
    for seed in arguments.seeds.split(","):
        for task in arguments.tasks.split(","):
            data = find_task(task).load("features").fit
            for n_epochs in arguments.epochs.split(","):
                for name in arguments.networks.split(","):
                    key = (task, data.encoder, name, n_epochs, seed)
                    if key in known:
                        continue
                    found = measure(data, name, int(n_epochs), int(seed))
                    row = dict(zip(COLUMNS, (*key, *map(repr, found)), strict=True))
                    rows.append(row)
                    with arguments.table.open("a", encoding="utf-8", newline="") as file:
                        writer = csv.DictWriter(file, COLUMNS)
                        if file.tell() == 0:
                            writer.writeheader()
                        writer.writerow(row)
                    print(*key, f"NLL {found[0]:.4f} accuracy {found[1]:.4f} {found[2]:.1f} s", flush=True)
    print_summary(rows)


if __name__ == "__main__":
    main()
