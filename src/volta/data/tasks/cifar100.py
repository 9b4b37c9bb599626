"""CIFAR-100: 45,000 train, 2,500 val, 2,500 cal, 10,000 test; near OOD: CIFAR-10; far OOD: SVHN and uniform noise."""

from __future__ import annotations

from volta.data.definition import TaskDefinition
from volta.data.formats.feature_files import FeatureFiles
from volta.data.prepare import Preparation
from volta.data.published.cifar10 import CIFAR10_TEST, CIFAR_10
from volta.data.published.cifar100 import CIFAR100_TEST, CIFAR100_TRAIN, CIFAR_100
from volta.data.published.image_set import PublishedSet
from volta.data.published.images import PublishedImages
from volta.data.published.noise import UniformNoise
from volta.data.published.svhn import SVHN, SVHN_TEST

_OOD: dict[str, PublishedSet] = {"cifar10": CIFAR10_TEST, "svhn": SVHN_TEST, "noise": UniformNoise("cifar100")}

CIFAR100 = TaskDefinition(
    name="cifar100",
    title="CIFAR-100; OOD: CIFAR-10 (near), SVHN, uniform noise",
    preparation=Preparation("vision", 0.1, ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))),
    images=PublishedImages("cifar100", CIFAR100_TRAIN, CIFAR100_TEST, _OOD),
    features=FeatureFiles("cifar100", ood_rows={name: part.n_rows for name, part in _OOD.items()}),
    near=("cifar10",),
    far=("svhn", "noise"),
    archives=(CIFAR_100, CIFAR_10, SVHN),
)
