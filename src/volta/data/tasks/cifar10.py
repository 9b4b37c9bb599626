"""CIFAR-10: 40,000 train, 5,000 val, 5,000 cal, 10,000 test; near OOD: CIFAR-100; far OOD: SVHN and uniform noise.

The test images under the nineteen corruptions of CIFAR-10-C are its shifts, read from the archive or generated.
"""

from __future__ import annotations

from volta.data.definition import TaskDefinition
from volta.data.formats.cifar_binary import CIFAR10_CLASSES
from volta.data.formats.feature_files import FeatureFiles
from volta.data.prepare import HALF, Preparation
from volta.data.published.cifar10 import CIFAR10_TEST, CIFAR10_TRAIN, CIFAR_10, CIFAR_10_C
from volta.data.published.cifar100 import CIFAR100_TEST, CIFAR_100
from volta.data.published.image_set import PublishedSet
from volta.data.published.images import PublishedImages
from volta.data.published.noise import UniformNoise
from volta.data.published.svhn import SVHN, SVHN_TEST

_OOD: dict[str, PublishedSet] = {"cifar100": CIFAR100_TEST, "svhn": SVHN_TEST, "noise": UniformNoise("cifar10")}

CIFAR10 = TaskDefinition(
    name="cifar10",
    title="CIFAR-10; OOD: CIFAR-100 (near), SVHN, uniform noise; shifts: CIFAR-10-C",
    preparation=Preparation("vision", 0.2, HALF, augment=True, paper_epochs=80),
    images=PublishedImages("cifar10", CIFAR10_TRAIN, CIFAR10_TEST, _OOD, corrupted=CIFAR_10_C),
    features=FeatureFiles("cifar10", CIFAR10_CLASSES, {name: part.n_rows for name, part in _OOD.items()}),
    near=("cifar100",),
    far=("svhn", "noise"),
    archives=(CIFAR_10, CIFAR_100, SVHN),
    optional_archives=(CIFAR_10_C,),
)
