"""Every kind of model behind the same face: what it says is what the classifier says."""

from __future__ import annotations

import base64
import io

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from volta import PostHocClassifier, TrustedClassifier, VoltaClassifier, VoltaImageClassifier, load
from volta.core.errors import InputError
from volta.features.backbones.backbone import Preprocessing
from volta.features.backbones.load import module_backbone
from volta.networks.outputs import LabelledOutputs, Outputs
from volta.serve.models import ImageModel, TableModel, load_served

from .conftest import COLUMNS, make_rows, served


def test_a_table_model_knows_its_columns_and_its_policy(model):
    assert model.columns == tuple(COLUMNS)
    assert model.max_error == 0.1
    assert model.batches
    values, reasons = model.parse([[1, 2.5, True], {"weight": 3, "width": 2, "length": 1, "more": "x"}])
    assert values.tolist() == [[1.0, 2.5, 1.0], [1.0, 2.0, 3.0]]
    assert reasons == [None, None]


@pytest.mark.slow  # trains five networks
def test_a_method_that_draws_is_asked_row_by_row(tmp_path):
    rows, labels = make_rows(120, 0)
    VoltaClassifier("mc_dropout", max_epochs=1).fit(rows, labels).save(tmp_path / "m.safetensors")
    assert not load_served(tmp_path / "m.safetensors").batches


def test_a_networks_outputs(tmp_path):
    draw = np.random.default_rng(0)
    labels = draw.integers(3, size=600)
    outputs = Outputs(3 * np.eye(3)[labels] + draw.normal(size=(600, 3)), draw.normal(size=(600, 2)))
    parts = [
        LabelledOutputs(Outputs(outputs.logits[k], outputs.features[k]), labels[k]) for k in np.split(np.arange(600), 2)
    ]
    classifier = PostHocClassifier("energy").fit(parts[0], cal=parts[1])
    classifier.save(tmp_path / "m.safetensors")
    model = load_served(tmp_path / "m.safetensors")
    assert model.columns == ("logit_0", "logit_1", "logit_2", "feature_0", "feature_1")
    rows, reasons = model.parse(np.hstack([outputs.logits, outputs.features])[:9].tolist())
    assert reasons == [None] * 9
    found, expected = model.score(rows).decisions, classifier.decide(Outputs(outputs.logits[:9], outputs.features[:9]))
    assert found.action.tolist() == expected.action.tolist()
    assert found.pvalue.tolist() == expected.pvalue.tolist()
    assert isinstance(load(tmp_path / "m.safetensors"), PostHocClassifier)
    with served(model, tmp_path / "m.safetensors", tmp_path / "state") as client:
        answers = client.decide([rows[0].tolist(), [1e20, 0, 0, 0, 0], rows[1].tolist()])
        assert [one["pvalue"] for one in answers] == [found.pvalue[0], None, found.pvalue[1]]
        assert "row cannot be used: X row 0" in answers[1]["reason"]
        assert client.summary()["counts"]["rows"] == 3
        status, answer = client.get("/card")
        assert (status, "has no model card: its file does not say" in answer["error"]) == (404, True)
        assert not client.summary()["model"]["has_card"]


def in_base64(pixels, kind):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


@pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")
def test_images_come_as_files_in_base64(tmp_path):
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3, stride=2), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
    backbone = module_backbone(network, name="small", preprocessing=Preprocessing(size=(8, 8)))
    light = np.arange(100) % 2
    pixels = np.random.default_rng(0).integers(0, 130, (100, 9, 7, 3)) + 120 * light[:, None, None, None]
    pixels = pixels.astype(np.uint8)
    classifier = VoltaImageClassifier(backbone, method="linear", cache=tmp_path / "cache").fit(pixels, light)
    classifier.save(tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="or serve the graph that to_onnx writes"):
        load_served(tmp_path / "m.safetensors")
    expected = classifier.decide(pixels[:4])
    given = [in_base64(image, kind) for image, kind in zip(pixels[:4], ("PNG", "BMP", "TIFF", "PNG"), strict=True)]
    bad = ["not base64", base64.b64encode(b"no image").decode(), {"picture": given[0]}, 7]
    model = ImageModel(classifier, alpha=0.1, fpr=0.05)
    with served(model, tmp_path / "m.safetensors", tmp_path / "state") as client:
        found = client.decide([given[0], {"image": given[1]}, *bad, *given[2:], in_base64(pixels[0, :5], "PNG")])
        assert [found[k]["pvalue"] for k in (0, 1, 6, 7)] == expected.pvalue.tolist()
        assert [found[k]["label"] for k in (0, 1, 6, 7)] == expected.label.tolist()
        assert all(one["reason"].startswith("row cannot be used: not an image file in base64") for one in found[2:6])
        assert found[8]["action"] in ("answer", "abstain", "ood")
        status, page = client.get("/card")
        assert (status, "Model card: m.safetensors" in page) == (200, True)
        assert client.get("/openapi.json")[0] == 200


def mixed_table(n_rows, seed):
    draw = np.random.default_rng(seed)
    kinds = draw.integers(2, size=n_rows)
    mass = np.where(draw.random(n_rows) < 0.1, np.nan, draw.normal(3.0 * kinds, 1.0))
    island = np.where(draw.random(n_rows) < 0.8, np.array(["Dream", "Biscoe"])[kinds], "Torgersen")
    return pd.DataFrame({"mass": mass, "island": island}), np.array(["gentoo", "adelie"])[kinds]


def as_json(table):
    return [
        {"mass": None if np.isnan(mass) else mass, "island": island}
        for mass, island in zip(table["mass"].tolist(), table["island"].tolist(), strict=True)
    ]


def test_a_table_as_it_comes(tmp_path):
    table, labels = mixed_table(300, 0)
    classifier = VoltaClassifier("linear").fit(table, labels)
    classifier.save(tmp_path / "m.safetensors")
    model = load_served(tmp_path / "m.safetensors")
    assert model.batches
    new = mixed_table(20, 1)[0]
    given = as_json(new)
    odd = [{"island": "Dream"}, {"mass": [1], "island": "Dream"}, {"mass": 10**400, "island": "Atlantis"}]
    rows, reasons = model.parse([*given, *odd])
    assert reasons[:20] == [None] * 20
    assert reasons[20] == "column 'mass' is missing"
    assert "holds a JSON list" in reasons[21]
    found, expected = model.score(rows).decisions, classifier.decide(new)
    assert found.action[:20].tolist() == expected.action.tolist()
    assert found.pvalue[:20].tolist() == expected.pvalue.tolist()
    assert "column 'island' is 'Atlantis'" in found[20].reason
    assert [model.score(rows[k : k + 1]).decisions.pvalue[0] for k in range(21)] == found.pvalue.tolist()


def test_a_model_of_any_library(tmp_path):
    table, labels = mixed_table(300, 0)
    encode = ColumnTransformer(
        [("text", OneHotEncoder(handle_unknown="ignore"), ["island"])], remainder=SimpleImputer()
    )
    trusted = TrustedClassifier(make_pipeline(encode, LogisticRegression())).fit(table, labels)
    model = TableModel(trusted, alpha=0.1, fpr=0.05)
    new = mixed_table(20, 1)[0]
    given = as_json(new)
    rows, reasons = model.parse(given)
    assert reasons == [None] * 20
    assert model.score(rows).decisions.pvalue.tolist() == trusted.decide(new).pvalue.tolist()
    numbers, kinds = make_rows(200, 0)
    trusted = TrustedClassifier(GaussianNB()).fit(numbers, kinds)
    trusted.save(tmp_path / "m.safetensors")
    model = load_served(tmp_path / "m.safetensors")
    assert model.score(numbers[:9]).decisions.pvalue.tolist() == trusted.decide(numbers[:9]).pvalue.tolist()
    with served(model, tmp_path / "m.safetensors", tmp_path / "state") as client:
        status, page = client.get("/card")
        assert (status, "GaussianNB" in page) == (200, True)


@pytest.mark.slow  # exports a graph
def test_a_graph_decides_as_python_does_and_has_a_monitor(model, model_path, tmp_path):
    classifier = VoltaClassifier.load(model_path)
    classifier.to_onnx(tmp_path / "m.onnx")
    graph = load_served(tmp_path / "m.onnx")
    assert graph.columns == tuple(COLUMNS)
    rows, _ = make_rows(300, 1)
    found, expected = graph.score(rows), model.score(rows)
    assert found.decisions.action.tolist() == expected.decisions.action.tolist()
    assert np.allclose(found.probs, expected.probs, atol=1e-4)
    assert len(set(found.monitor.tolist())) > 100
    watching = graph.monitor(alpha=0.01, block=1)
    assert not watching.update(found.monitor).alarm
    assert watching.update(graph.score(rows + np.array([5.0, 0.0, 0.0])).monitor).alarm
    with pytest.raises(InputError, match="a graph has both fixed"):
        load_served(tmp_path / "m.onnx", alpha=0.2)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"x")
    with pytest.raises(InputError, match="cannot be loaded as an ONNX graph"):
        load_served(tmp_path / "m.onnx")
