"""A method's mistakes in its predictions are named as its own, in the benchmark and in the classifiers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.conftest import blobs
from volta import LabelledOutputs, Outputs, PostHocClassifier, Prediction, Task, VoltaClassifier
from volta.bench.cell import predict_sets
from volta.core.errors import InputError
from volta.methods.base import PostHoc
from volta.methods.registry import find_method
from volta.methods.scores import softmax
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer


@dataclass
class Wrong(PostHoc):
    """Gives what ``mistake`` names."""

    title = "Kompass"

    mistake: str = "none"

    def fit_outputs(self, outputs):
        if self.mistake == "split":
            outputs.of("training")

    def predict_outputs(self, outputs):
        probs, doubt = softmax(outputs.logits), -outputs.logits.max(axis=1)
        return {
            "none": lambda: Prediction(probs, doubt),
            "split": lambda: Prediction(probs, doubt),
            "columns": lambda: Prediction(probs[:, :3], doubt),
            "rows": lambda: Prediction(probs[:5], doubt[:5]),
            "scores": lambda: Prediction(probs, probs),
            "ood": lambda: Prediction(probs, doubt, ood_score=np.zeros(3)),
            "nan": lambda: Prediction(probs, doubt * np.nan),
            "tuple": lambda: (probs, doubt),
            "list": lambda: Prediction(probs, doubt.tolist()),
            "sets": lambda: Prediction(probs, doubt, sets=np.ones((3, 2), dtype=bool)),
        }[self.mistake]()


@dataclass
class Untitled(Wrong):
    """Has the title of its parent."""


@dataclass
class Nameless(PostHoc):
    """Has no title of its own."""

    def predict_outputs(self, outputs):
        return Prediction(softmax(outputs.logits)[:, :3], -outputs.logits.max(axis=1))


MISTAKES = [
    ("columns", r"^Kompass gave probs of shape \((\d+), 3\); expected \(\1, 4\)"),
    ("rows", r"^Kompass gave probs of shape \(5, 4\); expected \(\d+, 4\)"),
    ("scores", r"^Kompass gave uncertainty of shape \((\d+), 4\); expected \(\1,\)"),
    ("ood", r"^Kompass gave ood_score of shape \(3,\); expected \(\d+,\)"),
    ("sets", r"^Kompass gave sets of shape \(3, 2\); expected \(\d+, 4\)"),
    ("nan", "^Kompass: row 0 has no uncertainty: the method gives nan; "),
    ("tuple", "^Kompass gave a tuple; expected a volta.Prediction"),
    ("list", "^Kompass gave uncertainty as a list; expected a NumPy array"),
    ("split", "^outputs.of is asked for 'training'; the splits are train, val, cal"),
]


@pytest.fixture(scope="module")
def trainer():
    return Trainer(seed=0, budget=Budget(max_epochs=1))


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_the_benchmark_names_the_method_and_its_mistake(mistake, message, trainer):
    data, test = blobs()
    with pytest.raises(InputError, match=message):
        predict_sets(Wrong(mistake).fit(data, trainer), Task("blobs", data, test), trainer)


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_the_classifiers_do_too(mistake, message):
    data, _ = blobs()
    with pytest.raises(InputError, match=message):
        VoltaClassifier(Wrong(mistake), max_epochs=1).fit(data.train.inputs, data.train.labels)
    logits = np.random.default_rng(0).normal(size=(200, 4))
    with pytest.raises(InputError, match=message):
        PostHocClassifier(Wrong(mistake)).fit(cal=LabelledOutputs(Outputs(logits), np.arange(200) % 4))


def test_a_method_without_a_title_goes_by_its_class(trainer):
    assert find_method(f"{__name__}:Nameless").title == "Nameless"
    assert find_method(f"{__name__}:Untitled(mistake=rows)").title == "Kompass (mistake = rows)"
    data, test = blobs()
    with pytest.raises(InputError, match=r"^Nameless gave probs"):
        predict_sets(Nameless().fit(data, trainer), Task("blobs", data, test), trainer)
