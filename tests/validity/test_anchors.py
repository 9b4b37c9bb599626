"""A guard against silent change: every method's numbers on the embedded task beside those that were committed.

After a change that is meant, write them anew with: python -m tests.validity.test_anchors
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch

from volta.core.types import Task
from volta.data import find_task
from volta.methods import ABLATION, METHODS, find_method
from volta.metrics import report
from volta.networks.recipe import PROTOCOLS, Budget
from volta.networks.trainer import Trainer

ANCHORS = Path(__file__).with_name("anchors.json")
NEAR = "digits_8_9"
TOLERANCES = {"accuracy": 0.011, "nll": 0.02, "ece": 0.01, "aurc": 0.001, "auroc": 0.01, "fpr95": 0.05}
"""What other processors and library versions may move a number by; a change of method moves several by more."""

pytestmark = [
    pytest.mark.validity,
    # slow: it trains every method on digits, which the golden files do every time with fewer epochs
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning"),
]


def measure(name: str, task: Task, trainer: Trainer) -> dict[str, float]:
    """Return the numbers of a method trained for at most 15 epochs."""
    method = find_method(name).method.fit(task.fit, trainer)
    known, ood_set = method.predict(task.test.inputs), method.predict(task.ood[NEAR].inputs)
    found = report(
        known.probs,
        task.test.labels,
        known.uncertainty,
        ood={NEAR: ood_set.ood_score},
        id_ood_score=known.ood_score,
    )
    values = {**found["test"], **found[f"ood:{NEAR}"]}
    return {metric: round(float(values[metric]), 6) for metric in TOLERANCES}


def new_trainers() -> dict[str, Trainer]:
    return {one: Trainer(seed=42, protocol=one, budget=Budget(max_epochs=15)) for one in PROTOCOLS}


def protocol_of(name: str) -> str:
    return METHODS[name].protocols[0] if name in METHODS else "fair"


@pytest.fixture(scope="module")
def trainers() -> dict[str, Trainer]:
    return new_trainers()


@pytest.mark.filterwarnings("ignore::volta.metrics.scoring.FlooredProbabilityWarning")  # isotonic gives zeros
@pytest.mark.parametrize("name", [*METHODS, *ABLATION])
def test_a_method_gives_what_it_gave(name: str, digits: Task, trainers: dict[str, Trainer]) -> None:
    expected = json.loads(ANCHORS.read_text(encoding="utf-8"))[name]
    found = measure(name, digits, trainers[protocol_of(name)])
    moved = {m: (found[m], expected[m]) for m, most in TOLERANCES.items() if abs(found[m] - expected[m]) > most}
    assert not moved, f"{name} moved (now, before): {moved}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    digits_task, shared = find_task("digits").load("features"), new_trainers()
    anchors = {name: measure(name, digits_task, shared[protocol_of(name)]) for name in (*METHODS, *ABLATION)}
    ANCHORS.write_text(json.dumps(anchors, indent=1) + "\n", encoding="utf-8")
