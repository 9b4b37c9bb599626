import json

import numpy as np
import pytest

from volta import VoltaClassifier
from volta.core.errors import InputError
from volta.methods import find_method
from volta.methods.exporting import export_onnx
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
pytest.importorskip("onnxscript", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")


def run(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session, dict(zip(("probs", "uncertainty"), session.run(None, {"inputs": inputs}), strict=True))


@pytest.mark.parametrize("name", ["volta", "softmax", "temperature", "energy", "linear", "volta-full-no-mc"])
def test_the_graph_gives_what_the_method_gives(digits, tmp_path, name):
    method = find_method(name).method.fit(digits.fit, Trainer(seed=1, budget=Budget(max_epochs=8)))
    export_onnx(method, tmp_path / "method.onnx")
    expected = method.predict(digits.test.inputs)
    _, got = run(tmp_path / "method.onnx", digits.test.inputs)
    np.testing.assert_allclose(got["probs"], expected.probs, atol=2e-6)
    np.testing.assert_allclose(got["uncertainty"], expected.uncertainty, rtol=1e-4, atol=1e-6)
    _, one = run(tmp_path / "method.onnx", digits.test.inputs[:1])
    np.testing.assert_allclose(one["probs"], expected.probs[:1], atol=2e-6)


def test_sampling_and_other_methods_are_refused(digits, tmp_path):
    trainer = Trainer(seed=1, budget=Budget(max_epochs=1))
    sampling = find_method("volta-full").method.fit(digits.fit, trainer)
    with pytest.raises(InputError, match="samples 10 passes"):
        export_onnx(sampling, tmp_path / "method.onnx")
    with pytest.raises(InputError, match="Mahalanobis cannot be exported to ONNX; these methods can: volta, softmax"):
        export_onnx(find_method("mahalanobis").method.fit(digits.fit, trainer), tmp_path / "method.onnx")
    assert not (tmp_path / "method.onnx").exists()


def test_a_classifier_exports_its_labels_and_threshold(digits, tmp_path):
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven"])
    classifier = VoltaClassifier(max_epochs=8).fit(digits.fit.train.inputs, names[digits.fit.train.labels])
    classifier.to_onnx(tmp_path / "classifier.onnx")
    session, got = run(tmp_path / "classifier.onnx", digits.test.inputs)
    notes = session.get_modelmeta().custom_metadata_map
    classes = np.array(json.loads(notes["classes"]))
    assert (classes[got["probs"].argmax(axis=1)] == classifier.predict(digits.test.inputs)).all()
    above = got["uncertainty"] > json.loads(notes["abstain_above"])
    abstained = classifier.predict_or_abstain(digits.test.inputs, coverage=0.9) == None  # noqa: E711
    assert (above != abstained).sum() <= 1
