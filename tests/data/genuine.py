"""Small files in the genuine formats, written here byte by byte from their published descriptions."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def images(n: int, seed: int, side: int = 32) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 3, side, side), dtype=np.uint8)


def cifar10_tar(n_rows: int) -> tuple[bytes, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return (archive, pixels by file, labels by file)."""
    pixels, labels, files = {}, {}, {}
    for number, name in enumerate([f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]):
        pixels[name] = images(n_rows, number)
        labels[name] = np.arange(n_rows) % 10
        rows = [bytes([label]) + image.tobytes() for label, image in zip(labels[name], pixels[name], strict=True)]
        files[f"cifar-10-batches-bin/{name}"] = b"".join(rows)
    files["cifar-10-batches-bin/batches.meta.txt"] = ("\n".join(CIFAR10) + "\n\n").encode()
    files["cifar-10-batches-bin/readme.html"] = b"<html></html>"
    return tar(files, "gz"), pixels, labels


def cifar100_tar(n_rows: int) -> tuple[bytes, dict[str, np.ndarray], dict[str, np.ndarray]]:
    pixels, fine, files = {}, {}, {}
    for number, (name, n) in enumerate((("train.bin", 5 * n_rows), ("test.bin", n_rows))):
        pixels[name] = images(n, 10 + number)
        fine[name] = np.arange(n) % 100
        rows = [
            bytes([label // 5, label]) + image.tobytes() for label, image in zip(fine[name], pixels[name], strict=True)
        ]
        files[f"cifar-100-binary/{name}"] = b"".join(rows)
    files["cifar-100-binary/fine_label_names.txt"] = "".join(f"fine_{i:02}\n" for i in range(100)).encode()
    files["cifar-100-binary/coarse_label_names.txt"] = "".join(f"coarse_{i}\n" for i in range(20)).encode()
    return tar(files, "gz"), pixels, fine


def svhn_mat(n_rows: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Return (file, pixels (n, 3, 32, 32), digits 0-9); MATLAB's order and 10 for 0 are in the file."""
    from scipy.io import savemat

    pixels, digits = images(n_rows, 20), np.arange(n_rows) % 10
    buffer = io.BytesIO()
    content = {"X": pixels.transpose(2, 3, 1, 0), "y": np.where(digits == 0, 10, digits)[:, None].astype(np.uint8)}
    savemat(buffer, content, do_compression=True)
    return buffer.getvalue(), pixels, digits


def cifar10c_tar(test_labels: np.ndarray, names: tuple[str, ...]) -> tuple[bytes, dict[str, np.ndarray]]:
    n = len(test_labels)
    arrays = {
        name: np.random.default_rng(index).integers(0, 256, (5 * n, 32, 32, 3), dtype=np.uint8)
        for index, name in enumerate(names)
    }
    files = {f"CIFAR-10-C/{name}.npy": npy(array) for name, array in arrays.items()}
    files["CIFAR-10-C/labels.npy"] = npy(np.tile(test_labels, 5).astype(np.uint8))
    return tar(files), arrays


def tiny_imagenet_zip(n_train: int, n_val: int) -> bytes:
    """200 classes; the pixel value of an image is its class number, so that decoding can be checked."""
    wnids = [f"n{10000000 + 7 * i}" for i in range(200)]
    files = {"tiny-imagenet-200/wnids.txt": "\n".join(reversed(wnids)).encode()}
    annotations = []
    for number, wnid in enumerate(wnids):
        for i in range(n_train):
            files[f"tiny-imagenet-200/train/{wnid}/images/{wnid}_{i}.JPEG"] = flat_jpeg(number, 64)
        files[f"tiny-imagenet-200/train/{wnid}/{wnid}_boxes.txt"] = b""
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(200), n_val))
    for i, number in enumerate(order):
        files[f"tiny-imagenet-200/val/images/val_{i}.JPEG"] = flat_jpeg(int(number), 64)
        annotations.append(f"val_{i}.JPEG\t{wnids[number]}\t0\t0\t63\t63")
    files["tiny-imagenet-200/val/val_annotations.txt"] = ("\n".join(annotations) + "\n").encode()
    files["tiny-imagenet-200/test/images/test_0.JPEG"] = flat_jpeg(0, 64)
    return zipped(files)


def flat_jpeg(value: int, side: int = 32) -> bytes:
    return encode(np.full((side, side, 3), value, np.uint8), "JPEG")


def encode(array: np.ndarray, kind: str = "PNG", mode: str | None = None, **options: object) -> bytes:
    buffer = io.BytesIO()
    picture = Image.fromarray(array)
    (picture.convert(mode) if mode else picture).save(buffer, kind, **options)
    return buffer.getvalue()


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def tar(files: Mapping[str, bytes], compression: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def image_folder(folder: Path, counts: Mapping[str, int], side: int = 12, seed: int = 0) -> Path:
    """Write ``counts["train/cat"]`` random PNGs to ``folder/train/cat``."""
    rng = np.random.default_rng(seed)
    for place, n in counts.items():
        (folder / place).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            array = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
            (folder / place / f"{i:03}.png").write_bytes(encode(array))
    return folder
