"""``volta.check_method`` passes the package's methods and names the first thing that is wrong with another."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import volta
from tests.core.test_check_prediction import Wrong
from volta import Method, Prediction
from volta.core.errors import InputError
from volta.methods.base import PostHoc
from volta.methods.registry import METHODS, find_method
from volta.methods.scores import softmax


@pytest.mark.parametrize("name", [name for name in METHODS if name != "mc_dropout"])
def test_the_packages_methods_pass(name):
    assert volta.check_method(find_method(name).method) is None


def test_a_method_that_draws_at_test_time_is_told():
    with pytest.raises(InputError, match="MC Dropout gives other probs for a row alone than among others"):
        volta.check_method(find_method("mc_dropout").method)


@dataclass
class Broken(PostHoc):
    """Breaks one promise."""

    promise: str = "none"
    calls: list[int] = field(default_factory=list)

    def fit_outputs(self, outputs):
        if self.promise == "code":
            raise KeyError("oops")
        self.draw_ = np.random.default_rng().random() if self.promise == "seed" else 0.0

    def predict_outputs(self, outputs):
        probs, doubt = softmax(outputs.logits), -outputs.logits.max(axis=1) + self.draw_
        if self.promise == "sum":
            return Prediction(2.0 * probs, doubt)
        if self.promise == "call":
            return Prediction(probs, doubt + np.random.default_rng().random())
        if self.promise == "rows":
            return Prediction(probs, doubt / len(doubt))
        return Prediction(probs, doubt)


class NoDataclass(PostHoc):
    """Lacks what parameters are kept by."""

    def predict_outputs(self, outputs):
        return Prediction(softmax(outputs.logits), -outputs.logits.max(axis=1))


@dataclass
class Own(Method):
    """Needs no network, and has a parameter without a default."""

    scale: float

    def _fit(self, data, trainer):
        inputs, labels = data.train.inputs, data.train.labels
        self.means_ = np.stack([inputs[labels == k].mean(axis=0) for k in range(data.n_classes)])

    def _predict(self, inputs):
        squares = ((np.asarray(inputs)[:, None] - self.means_) ** 2).sum(axis=-1)
        return Prediction(softmax(-squares / self.scale), squares.min(axis=1))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Broken("sum"), r"Broken: probs row 0 sums to 2"),
        (Broken("call"), r"Broken: a second call of predict gives other uncertainty; draw from the seed"),
        (Broken("seed"), r"Broken: a second fit with the same seed gives other uncertainty"),
        (Broken("rows"), r"Broken gives other uncertainty for a row alone than among others"),
        (Broken("code"), r"Broken fails \(KeyError: 'oops'\)"),
        (Broken("none", [object()]), r"calls is a list, which cannot be part of a name"),
        (Wrong("columns"), r"Kompass gave probs of shape \(32, 3\); expected \(32, 4\)"),
        (Wrong("tuple"), r"Kompass gave a tuple"),
        (NoDataclass(), r"method is a NoDataclass; pass one whose class extends volta.Method and has @dataclass"),
        ("knn", r"method is a str; pass one"),
    ],
)
def test_what_is_broken_is_named(method, message):
    with pytest.raises(InputError, match=message):
        volta.check_method(method)


def test_a_sound_method_passes_and_stays_unfitted():
    own = Own(scale=50.0)
    volta.check_method(own)
    assert not hasattr(own, "means_")
