"""The tasks of `benchmarks/heads.py` that are not the package's own: CLINC150, and those that nothing is chosen on.

docs/volta-plus.md lists them. Splits that are not official are drawn by `Task.from_arrays` from its fixed seed.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn import datasets

from volta import Task
from volta.core.errors import MissingDataError

FASHION_ROWS = 20_000
Rows = tuple[np.ndarray, np.ndarray]
Makers = dict[str, Callable[[], Task]]


def read(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file of stored features, as float32."""
    path = folder / "features" / f"{name}.npz"
    if not path.exists():
        raise MissingDataError(f"{path} is not there; point VOLTA_DATA at the folder that has features/{name}.npz")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key].astype(np.float32) if key.endswith("_x") else file[key] for key in file.files}


def clinc150(folder: Path) -> Task:
    """Sentence vectors of 150 intents; near OOD: real questions that belong to none."""
    rows, outside = read(folder, "clinc150"), read(folder, "clinc150-ood")
    parts = {part: (rows[f"{part}_x"], rows[f"{part}_y"]) for part in ("train", "val", "test")}
    return Task.from_arrays(**parts, ood={"oos": outside["oos_x"]}, near=["oos"], name="clinc150")


def part_of_cifar(folder: Path, stored: str, name: str, known: list[int]) -> Task:
    """Some classes of CIFAR-10 or CIFAR-100 as known ones; near OOD: test rows of the others; far OOD: SVHN."""
    rows, far = read(folder, stored), read(folder, f"{stored}-ood")
    train, test = np.isin(rows["train_y"], known), np.isin(rows["test_y"], known)
    return Task.from_arrays(
        (rows["train_x"][train], rows["train_y"][train]),
        (rows["test_x"][test], rows["test_y"][test]),
        ood={"other_classes": rows["test_x"][~test], "svhn": far["svhn_x"]},
        near=["other_classes"],
        name=name,
        encoder="vision",
    )


def tiny_imagenet_even(folder: Path) -> Task:
    """The even of Tiny ImageNet's first hundred classes; near OOD: the odd ones; far OOD: columns shuffled."""
    rows = read(folder, "tinyimagenet")
    train, test, odd = (
        (labels < 100) & (labels % 2 == rest)
        for labels, rest in ((rows["train_y"], 0), (rows["val_y"], 0), (rows["val_y"], 1))
    )
    shuffled = np.random.default_rng(23).permuted(rows["val_x"][test], axis=0)
    return Task.from_arrays(
        (rows["train_x"][train], rows["train_y"][train]),
        (rows["val_x"][test], rows["val_y"][test]),
        ood={"odd_classes": rows["val_x"][odd], "shuffled": shuffled},
        near=["odd_classes"],
        name="tinyimagenet_even",
    )


def clinc150_half(folder: Path) -> Task:
    """The first 75 intents; near OOD: questions of the other 75, and those that belong to none."""
    rows, outside = read(folder, "clinc150"), read(folder, "clinc150-ood")
    parts = {}
    for part in ("train", "val", "test"):
        known = rows[f"{part}_y"] < 75
        parts[part] = rows[f"{part}_x"][known], rows[f"{part}_y"][known]
    ood = {"other_intents": rows["test_x"][rows["test_y"] >= 75], "oos": outside["oos_x"]}
    return Task.from_arrays(**parts, ood=ood, near=list(ood), name="clinc150_half")


def idx(path: Path, header: int) -> np.ndarray:
    if not path.exists():
        raise MissingDataError(f"{path} is not there; name its folder with --fashion-mnist")
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=header)


def fashion_images(folder: Path) -> dict[str, Rows]:
    parts: dict[str, Rows] = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        images = idx(folder / f"{prefix}-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype(np.float32)
        parts[part] = images, idx(folder / f"{prefix}-labels-idx1-ubyte.gz", 8).astype(np.int64)
    return parts


def fashion_mnist(folder: Path) -> Task:
    """Pixels of classes 0-7; near OOD: bags and ankle boots; far OOD: uniform noise."""
    parts = fashion_images(folder)
    images, labels = (values[:FASHION_ROWS] for values in parts["train"])
    known, test_known = labels < 8, parts["test"][1] < 8
    noise = np.random.default_rng(17).uniform(0.0, 255.0, (2000, 784)).astype(np.float32)
    return Task.from_arrays(
        (images[known], labels[known]),
        (parts["test"][0][test_known], parts["test"][1][test_known]),
        ood={"classes_8_9": parts["test"][0][~test_known], "uniform_noise": noise},
        near=["classes_8_9"],
        name="fashion_mnist",
    )


def fashion_mnist_2_9(folder: Path) -> Task:
    """Pixels of classes 2-9, other rows; near OOD: T-shirts and trousers; far OOD: each image's pixels shuffled."""
    parts = fashion_images(folder)
    images, labels = (values[-FASHION_ROWS // 2 :] for values in parts["train"])
    known, test_known = labels >= 2, parts["test"][1] >= 2
    shuffled = np.random.default_rng(23).permuted(parts["test"][0][test_known][:2000], axis=1)
    return Task.from_arrays(
        (images[known], labels[known]),
        (parts["test"][0][test_known], parts["test"][1][test_known]),
        ood={"classes_0_1": parts["test"][0][~test_known], "shuffled_pixels": shuffled},
        near=["classes_0_1"],
        name="fashion_mnist_2_9",
    )


def moved(rows: np.ndarray) -> np.ndarray:
    """Return rows that lie ten standard deviations away in every column."""
    return rows + 10.0 * rows.std(axis=0)


def wine() -> Task:
    rows, labels = datasets.load_wine(return_X_y=True)
    known = labels < 2
    ood = {"class_2": rows[~known], "moved": moved(rows[known])}
    return Task.from_arrays((rows[known], labels[known]), ood=ood, near=["class_2"], name="wine")


def breast_cancer() -> Task:
    rows, labels = datasets.load_breast_cancer(return_X_y=True)
    shuffled = np.random.default_rng(17).permuted(rows, axis=0)
    return Task.from_arrays((rows, labels), ood={"moved": moved(rows), "shuffled": shuffled}, name="breast_cancer")


def synthetic() -> Task:
    rows, labels = datasets.make_classification(
        10_000, 40, n_informative=20, n_classes=12, n_clusters_per_class=2, random_state=17
    )
    known = labels < 10
    ood = {"classes_10_11": rows[~known], "moved": moved(rows[known])}
    return Task.from_arrays((rows[known], labels[known]), ood=ood, near=["classes_10_11"], name="synthetic")


def hastie() -> Task:
    rows, labels = datasets.make_hastie_10_2(12_000, random_state=23)
    return Task.from_arrays((rows, labels > 0), ood={"moved": moved(rows)}, name="hastie")


def clusters() -> Task:
    rows, labels = datasets.make_classification(
        6000, 30, n_informative=15, n_classes=8, n_clusters_per_class=3, class_sep=1.5, random_state=23
    )
    known = labels < 6
    ood = {"classes_6_7": rows[~known], "moved": moved(rows[known])}
    return Task.from_arrays((rows[known], labels[known]), ood=ood, near=["classes_6_7"], name="clusters")


def held_out(data: Path, fashion: Path) -> Makers:
    """Return the tasks that nothing was chosen on when they were looked at first, by name."""
    return {
        "cifar100_half": lambda: part_of_cifar(data, "cifar100", "cifar100_half", list(range(50))),
        "cifar100_first20": lambda: part_of_cifar(data, "cifar100", "cifar100_first20", list(range(20))),
        "fashion_mnist": lambda: fashion_mnist(fashion),
        "wine": wine,
        "breast_cancer": breast_cancer,
        "synthetic": synthetic,
        "cifar10_animals": lambda: part_of_cifar(data, "cifar10", "cifar10_animals", [2, 3, 4, 5, 6, 7]),
        "tinyimagenet_even": lambda: tiny_imagenet_even(data),
        "clinc150_half": lambda: clinc150_half(data),
        "fashion_mnist_2_9": lambda: fashion_mnist_2_9(fashion),
        "hastie": hastie,
        "clusters": clusters,
    }
