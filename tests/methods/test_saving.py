from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.conftest import blobs
from volta.core.errors import StoreError
from volta.core.types import Prediction
from volta.methods import METHODS
from volta.methods.base import PostHoc
from volta.methods.mahalanobis import Gaussians
from volta.methods.saving import count_values, load_methods, save_methods
from volta.networks.outputs import FitOutputs, LabelledOutputs, Outputs
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer

ROWS = LabelledOutputs(Outputs(np.eye(2)), np.array([0, 1]))


@dataclass(frozen=True, eq=False)
class Pair:
    first: np.ndarray
    second: dict[str, np.ndarray]
    note: str


@dataclass
class Nested(PostHoc):
    title = "Nested"
    origin = "extra"
    learned_types = (Pair,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        self.pairs_ = [Pair(np.arange(3.0), {"x": np.arange(4)}, "kept")]

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        return Prediction(outputs.logits, outputs.logits[:, 0])


@dataclass
class Undeclared(PostHoc):
    title = "Undeclared"
    origin = "extra"

    def fit_outputs(self, outputs: FitOutputs) -> None:
        self.pair_ = Pair(np.arange(3.0), {}, "")

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        return Prediction(outputs.logits, outputs.logits[:, 0])


def test_nested_dataclasses_save_themselves(tmp_path):
    method = Nested().fit_from_outputs(train=ROWS)
    assert count_values(method) == 7
    save_methods([method], "nested", tmp_path / "a.safetensors")
    (loaded,), _ = load_methods(tmp_path / "a.safetensors", {"nested": Nested})
    (pair,) = loaded.pairs_
    assert type(pair) is Pair
    assert pair.first.tolist() == [0, 1, 2]
    assert pair.second["x"].tolist() == [0, 1, 2, 3]
    assert pair.note == "kept"


def test_a_methods_own_dataclass_comes_back_as_such(tmp_path):
    data, _ = blobs()
    method = METHODS["mahalanobis"]().fit(data, Trainer(seed=0, budget=Budget(max_epochs=1)))
    save_methods([method], "mahalanobis", tmp_path / "a.safetensors")
    (loaded,), _ = load_methods(tmp_path / "a.safetensors", METHODS)
    assert isinstance(loaded.gaussians_, Gaussians)
    assert np.array_equal(loaded.gaussians_.means, method.gaussians_.means)


def test_a_class_the_method_does_not_name_is_neither_written_nor_built(tmp_path):
    with pytest.raises(StoreError, match="learned/0/pair_ is a Pair; name its class in the method's learned_types"):
        save_methods([Undeclared().fit_from_outputs(train=ROWS)], "x", tmp_path / "a.safetensors")
    save_methods([Nested().fit_from_outputs(train=ROWS)], "x", tmp_path / "a.safetensors")
    with pytest.raises(StoreError, match="holds a 'Pair', which its method does not learn"):
        load_methods(tmp_path / "a.safetensors", {"x": Undeclared})
