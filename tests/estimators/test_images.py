"""Images in, decisions out: folders, files and pixels; the cache; the sealed file; one graph from pixels."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from volta import InputError, MissingDataError, NotFittedError, StoreError, VoltaClassifier, VoltaImageClassifier
from volta.estimators.saving import save_classifier
from volta.features.backbones.backbone import Preprocessing
from volta.features.backbones.load import module_backbone

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")
NAMES = np.array(["dark", "light"])


def small_backbone(seed=0):
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return module_backbone(network, name="small", preprocessing=Preprocessing(size=(16, 16)))


def draw(n_images, seed, height=10, width=12):
    """Return (n, h, w, 3) uint8 pixels, dark and light by turns, and their names."""
    random = np.random.default_rng(seed)
    light = np.arange(n_images) % 2
    pixels = random.integers(0, 130, (n_images, height, width, 3)) + 120 * light[:, None, None, None]
    return pixels.astype(np.uint8), NAMES[light]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def fitted(cache):
    pixels, names = draw(200, seed=0)
    return VoltaImageClassifier(small_backbone(), cache=cache, max_epochs=20, keep_rows=True).fit(pixels, names)


def write_folder(root, pixels, names):
    for index, (image, name) in enumerate(zip(pixels, names, strict=True)):
        (root / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(root / name / f"{index:03d}.png")


def test_the_face_is_the_classifiers(fitted):
    pixels, names = draw(40, seed=1)
    assert (fitted.predict(pixels) == names).mean() > 0.9
    assert fitted.predict_proba(pixels).shape == fitted.predict_set(pixels).shape == (40, 2)
    assert fitted.score(pixels, names) > 0.9
    assert fitted.abstain(pixels).dtype == np.bool_
    assert fitted.is_ood(pixels, fpr=0.1).mean() < 0.5
    decided = fitted.decide(pixels, fpr=0.1)
    assert decided[0].label == names[0]
    assert len(fitted.explain(pixels[:2])) == 2
    assert not fitted.monitor().update(pixels[:10]).alarm
    assert fitted.fit_policy(coverage=0.8) is fitted.policy_ is fitted.classifier_.policy_
    fitted.fit_policy(coverage=0.9)


def test_channels_may_come_first_or_last(fitted):
    pixels, _ = draw(6, seed=1)
    first = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(fitted.predict_proba(pixels), fitted.predict_proba(first))


def test_a_folder_gives_labels_and_its_files_the_same_features(cache, fitted, tmp_path):
    pixels, names = draw(200, seed=0)
    write_folder(tmp_path, pixels, names)
    from_folder = VoltaImageClassifier(small_backbone(), cache=cache, max_epochs=2).fit(tmp_path)
    assert from_folder.classes_.tolist() == ["dark", "light"]
    files = sorted(tmp_path.rglob("*.png"))
    assert (from_folder.predict(tmp_path) == from_folder.predict(files)).all()
    by_number = sorted(files, key=lambda path: path.name)
    np.testing.assert_allclose(fitted.features(by_number[:20]), fitted.features(pixels[:20]), atol=1e-6)


def test_files_of_many_sizes_are_taken_one_after_another(fitted, tmp_path):
    files, expected = [], []
    for index, side in enumerate((8, 8, 20, 11)):
        pixels, _ = draw(1, seed=index, height=side, width=side + 2)
        Image.fromarray(pixels[0]).save(tmp_path / f"{index}.png")
        files.append(str(tmp_path / f"{index}.png"))
        expected.append(fitted.features(pixels)[0])
    np.testing.assert_allclose(fitted.features(files), expected, atol=1e-5)


def test_features_of_fit_rows_are_computed_once(cache, fitted):
    pixels, names = draw(200, seed=0)
    made = {path: path.stat().st_mtime_ns for path in (cache / "features").glob("*/array.npy")}
    VoltaImageClassifier(small_backbone(), method="linear", cache=cache, max_epochs=1).fit(pixels, names)
    assert {path: path.stat().st_mtime_ns for path in (cache / "features").glob("*/array.npy")} == made


def test_own_rows_to_steer_and_calibrate(cache):
    train, names = draw(60, seed=0)
    classifier = VoltaImageClassifier(small_backbone(), cache=cache, max_epochs=1)
    classifier.fit(train, names, eval_set=draw(20, seed=4), cal_set=draw(30, seed=5))
    assert len(classifier.calibration_.labels) == 30


def test_a_saved_classifier_comes_back_with_its_backbone_and_refuses_another(fitted, tmp_path):
    path = tmp_path / "images.safetensors"
    fitted.save(path)
    pixels, _ = draw(8, seed=2)
    loaded = VoltaImageClassifier.load(path, backbone=small_backbone())
    np.testing.assert_array_equal(loaded.predict_proba(pixels), fitted.predict_proba(pixels))
    np.testing.assert_array_equal(loaded.decide(pixels).action, fitted.decide(pixels).action)
    with pytest.raises(StoreError, match=r"was fitted with small weights .* those of small here are .* weights=FILE"):
        VoltaImageClassifier.load(path, backbone=small_backbone(seed=1))
    with pytest.raises(InputError, match=r"was fitted with the module small; pass it: load\(path, backbone=module\)"):
        VoltaImageClassifier.load(path)
    with pytest.raises(InputError, match=r"load it with VoltaImageClassifier\.load"):
        VoltaClassifier.load(path)


@pytest.mark.parametrize("missing", ["backbone_weights", "preprocessing", "classifier"])
def test_a_strangers_file_that_lacks_a_part_ends_in_a_sentence(fitted, tmp_path, missing):
    inner = fitted.classifier_
    state = {
        "classifier": inner._state(),
        "backbone_name": "small",
        "backbone_weights": fitted.backbone_.weights,
        "preprocessing": fitted.backbone_.preprocessing.to_json(),
    }
    del state[missing]
    path = tmp_path / "images.safetensors"
    save_classifier(fitted, path, inner._methods(), state, backbone=None, weights=None, cache=None)
    with pytest.raises(StoreError, match=rf"images\.safetensors .*{missing}"):
        VoltaImageClassifier.load(path, backbone=small_backbone())


def test_the_graph_goes_from_pixels_of_any_size_to_decisions(fitted, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
    pytest.importorskip("onnxscript", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
    fitted.to_onnx(tmp_path / "images.onnx", fpr=0.1)
    session = onnxruntime.InferenceSession(str(tmp_path / "images.onnx"), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    noise = np.random.default_rng(0).integers(0, 256, (3, 33, 21, 3), dtype=np.uint8)
    for pixels in (draw(40, seed=3)[0], draw(1, seed=4)[0], noise):
        given = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
        got = dict(zip(names, session.run(None, {"pixels": given}), strict=True))
        expected = fitted.decide(pixels, fpr=0.1)
        np.testing.assert_allclose(got["probs"], fitted.predict_proba(pixels), atol=1e-5)
        np.testing.assert_allclose(got["ood_pvalue"], expected.pvalue, atol=1e-9)
        np.testing.assert_array_equal(got["decision"], expected.action)
    notes = session.get_modelmeta().custom_metadata_map
    assert json.loads(notes["backbone"]) == "small"
    assert json.loads(notes["backbone_weights"]) == fitted.backbone_.weights


def test_wrong_images_are_refused_with_what_to_pass(fitted, tmp_path):
    with pytest.raises(NotFittedError, match="is not fitted"):
        VoltaImageClassifier().predict(draw(1, seed=0)[0])
    with pytest.raises(InputError, match="y is None; pass a label for each image"):
        VoltaImageClassifier(fitted.backbone).fit(draw(1, seed=0)[0])
    with pytest.raises(InputError, match=r"X is float64 of shape .*times 255, rounded, are uint8"):
        fitted.predict(np.zeros((2, 8, 8, 3)))
    with pytest.raises(InputError, match="not 3 pixels high and wide"):
        fitted.predict(np.zeros((2, 3, 8, 3), dtype=np.uint8))
    with pytest.raises(MissingDataError, match="is not a folder"):
        fitted.predict(tmp_path / "absent")
    with pytest.raises(MissingDataError, match=r"absent\.png does not exist"):
        fitted.predict([tmp_path / "absent.png"])
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"bad\.png cannot be used"):
        fitted.predict([Path(tmp_path / "bad.png")])


def test_a_file_does_not_reach_for_a_hub_by_itself(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(fitted, "backbone", "hf:somebody/network")
    fitted.save(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"names the backbone hf:somebody/network.*pass it yourself: load\(path, back"):
        VoltaImageClassifier.load(tmp_path / "model.safetensors")
