"""OpenOOD's published order of scores, beside ours on a real CIFAR-10 network and genuine images, read in place.

Published: OpenOOD 1.5's leaderboard, ResNet-18 with 512 features, AUROC near (CIFAR-100 and Tiny ImageNet)
and far (SVHN and three others). Here: ResNet-20 of He et al. with 64 features, near CIFAR-100, far SVHN. What of the order
does not hold for this network is named below with what was measured of the reason; the scores themselves equal
independent implementations (``test_independent``).
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.covariance import EmpiricalCovariance
from torch import Tensor, nn
from torch.nn import functional

from volta.core.types import Array
from volta.data import LoadOptions, pixel_sets
from volta.methods import find_method
from volta.metrics import auroc
from volta.networks.outputs import LabelledOutputs, LastLayer, Outputs

pytestmark = [pytest.mark.validity, pytest.mark.slow]

WEIGHTS = "resnet20.safetensors"
PUBLISHED_ERROR = 0.0827
TABLE = Path(__file__).parents[2] / "docs" / "results" / "yardsticks" / "openood.csv"
with TABLE.open(encoding="utf-8", newline="") as file:
    ROWS = {
        row["score"]: {key: float(value) for key, value in row.items() if key != "score"}
        for row in csv.DictReader(file)
    }
# Of the pairs that are at least this far apart as published, those that stand the other way round on this network.
# Near: GEN, energy and max logit pass what rests on features. Far: relative Mahalanobis falls behind all, neighbours lead.
# Neither the number of rows nor whether the network trained on them is the reason, nor are the scores (see below). What
# is left is the network, with 64 features in place of 512 and 8 % errors in place of 5 %, and that one set stands for each
# kind of strangers.
APART = 0.005
TURNED = {
    "near": {
        *((above, below) for above in ("knn", "fdbd", "rmds", "vim") for below in ("gen", "energy", "max_logit")),
        *((above, "softmax") for above in ("rmds", "vim")),
        ("softmax", "max_logit"),
    },
    "far": {
        *(("rmds", below) for below in ("gen", "energy", "max_logit", "softmax", "mahalanobis")),
        ("vim", "knn"),
        ("energy", "softmax"),
    },
}


class Block(nn.Module):
    """Two convolutions; the shortcut strides and pads with zero channels."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.stride = 1 if n_in == n_out else 2
        self.conv1 = nn.Conv2d(n_in, n_out, 3, self.stride, 1, bias=False)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(n_out), nn.BatchNorm2d(n_out)
        self.more = (n_out - n_in) // 2

    def forward(self, maps: Tensor) -> Tensor:
        changed = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(maps)))))
        kept = maps[:, :, :: self.stride, :: self.stride]
        return functional.relu(changed + functional.pad(kept, (0, 0, 0, 0, self.more, self.more)))


class CifarResNet(nn.Module):
    """He et al. (2016), section 4.2: three stages of ``n_blocks`` blocks with 16, 32 and 64 channels."""

    def __init__(self, n_blocks: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        widths = ((16, 16), (16, 32), (32, 64))
        self.layer1, self.layer2, self.layer3 = (
            nn.Sequential(Block(n_in, n_out), *(Block(n_out, n_out) for _ in range(n_blocks - 1)))
            for n_in, n_out in widths
        )
        self.linear = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        maps = functional.relu(self.bn1(self.conv1(images)))
        return self.layer3(self.layer2(self.layer1(maps))).mean(dim=(2, 3))


def place(variable: str, *parts: str) -> Path:
    """Return the first of the places under the folder that ``variable`` or VOLTA_DATA names, or skip."""
    folders = [Path(os.environ[name]) for name in (variable, "VOLTA_DATA") if os.environ.get(name)]
    if not folders:
        pytest.skip(f"neither {variable} nor VOLTA_DATA names a folder")
    found = [folder / part for folder in folders for part in parts if (folder / part).is_file()]
    if not found:
        pytest.skip(f"no {parts[0]} under {', '.join(map(str, folders))}")
    return found[0]


@pytest.fixture(scope="module")
def outputs() -> dict[str, LabelledOutputs]:
    """Outputs of the network on 3,000 training images, all test images and 2,000 images of each OOD set."""
    weights = load_file(place("VOLTA_RESNETS", WEIGHTS, f"cifar10-resnets/{WEIGHTS}"))
    root = place("VOLTA_DATA", "cifar10-images.zip").parent
    for name in ("cifar100-test-images.zip", "svhn-test-images.zip"):
        place("VOLTA_DATA", name)
    sets = pixel_sets("cifar10", LoadOptions(root, shifts="none", ood=("cifar100", "svhn")))
    network = CifarResNet(3).eval()
    network.load_state_dict(weights)
    last = LastLayer(weights["linear.weight"].numpy(), weights["linear.bias"].numpy())

    def of(pixels: Array) -> Outputs:
        features = np.concatenate([_features(network, pixels[at : at + 100]) for at in range(0, len(pixels), 100)])
        return Outputs(features @ last.weight.T + last.bias, features, last)

    known = {name: LabelledOutputs(of(sets.parts[name].inputs), sets.parts[name].labels) for name in ("train", "test")}
    strangers = {name: of(sets.ood[name].inputs) for name in ("cifar100", "svhn")}
    return known | {name: LabelledOutputs(rows, np.zeros(len(rows), int)) for name, rows in strangers.items()}


@torch.inference_mode()
def _features(network: CifarResNet, pixels: Array) -> Array:
    mean, std = (
        np.array(values, np.float32).reshape(3, 1, 1) for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    )
    images = torch.from_numpy((np.float32(pixels) / 255 - mean) / std)
    return network(images.contiguous(memory_format=torch.channels_last)).numpy()


@pytest.fixture(scope="module")
def measured(outputs) -> dict[str, dict[str, float]]:
    """AUROC by place and score."""
    found: dict[str, dict[str, float]] = {"near": {}, "far": {}}
    for name in ROWS:
        method = find_method(name).method.fit_from_outputs(train=outputs["train"])
        known = method.predict_outputs(outputs["test"].outputs).ood_score
        for where, strangers in (("near", "cifar100"), ("far", "svhn")):
            found[where][name] = auroc(known, method.predict_outputs(outputs[strangers].outputs).ood_score)
    return found


def test_the_network_has_its_published_error(outputs):
    logits, labels = outputs["test"].outputs.logits, outputs["test"].labels
    assert len(labels) == 10_000
    assert np.mean(logits.argmax(axis=1) != labels) == pytest.approx(PUBLISHED_ERROR, abs=5e-5)


@pytest.mark.parametrize("where", ["near", "far"])
def test_the_published_order_holds_but_for_the_pairs_that_are_named(measured, where):
    published = {name: row[f"published_{where}"] for name, row in ROWS.items()}
    turned = {
        (above, below)
        for above, value in published.items()
        for below, other in published.items()
        if value - other > APART - 1e-9 and measured[where][above] <= measured[where][below]
    }
    assert turned == TURNED[where], measured[where]


def test_the_page_has_what_is_measured(measured):
    for where, values in measured.items():
        assert values == pytest.approx({name: row[where] for name, row in ROWS.items()}, abs=2e-4)


def test_what_networks_of_the_literature_share_holds(measured):
    near, far = measured["near"], measured["far"]
    assert min(near, key=near.get) == "mahalanobis"
    by_features, by_logits = ("knn", "vim", "fdbd"), ("gen", "softmax", "energy", "max_logit")
    assert min(far[name] for name in by_features) > max(far[name] for name in by_logits)
    for values in (near, far):
        assert values["energy"] == pytest.approx(values["max_logit"], abs=0.005)
        assert values["gen"] > values["softmax"]
        assert values["fdbd"] > values["softmax"]


def test_distances_do_not_wait_for_more_rows(outputs, measured):
    """Rows that the network trained on and rows that it did not give one AUROC: 3,000 rows are not what lacks."""
    seen, unseen = outputs["train"], outputs["test"]
    half = np.arange(len(unseen.labels)) % 2 == 0
    rows = [
        LabelledOutputs(_rows(part.outputs, at), part.labels[at])
        for part, at in ((seen, slice(None, None, 2)), (unseen, half))
    ]
    known, strangers = _rows(unseen.outputs, ~half), outputs["cifar100"].outputs
    for name in ("rmds", "vim"):
        for train in rows:
            method = find_method(name).method.fit_from_outputs(train=train)
            scores = [method.predict_outputs(part).ood_score for part in (known, strangers)]
            assert auroc(*scores) == pytest.approx(measured["near"][name], abs=0.02)


def test_relative_mahalanobis_is_that_of_another_library(outputs, measured):
    features, labels = outputs["train"].outputs.features.astype(np.float64), outputs["train"].labels
    means = np.stack([features[labels == label].mean(axis=0) for label in range(10)])
    within, whole = EmpiricalCovariance().fit(features - means[labels]), EmpiricalCovariance().fit(features)
    scores = []
    for name in ("test", "cifar100"):
        rows = outputs[name].outputs.features.astype(np.float64)
        nearest = np.min([within.mahalanobis(rows - mean + within.location_) for mean in means], axis=0)
        scores.append(nearest - whole.mahalanobis(rows))
    assert auroc(*scores) == pytest.approx(measured["near"]["rmds"], abs=1e-4)


def _rows(outputs: Outputs, at: slice | Array) -> Outputs:
    return Outputs(outputs.logits[at], outputs.features[at], outputs.last_layer)
