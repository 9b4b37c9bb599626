"""How much of the package's own code a decision runs through."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import volta

MOST_CALLS = 60
SOURCE = str(Path(volta.__file__).parent)


def test_a_warm_decision_takes_few_calls():
    random = np.random.default_rng(0)
    labels = np.arange(400) % 2
    rows = random.normal(size=(400, 30)) + labels[:, None]
    classifier = volta.VoltaClassifier(max_epochs=1).fit(rows, labels)
    classifier.decide(rows[:3])
    calls: list[str] = []

    def count(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(count)
    try:
        classifier.decide(rows[:3])
    finally:
        sys.setprofile(None)
    assert 10 < len(calls) <= MOST_CALLS, calls
