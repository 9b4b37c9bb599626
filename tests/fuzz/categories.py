"""What is fuzzed: one entry a kind of file."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from tests.fuzz.harness import Category
from tests.fuzz.interfaces import INTERFACES
from tests.fuzz.own_files import OWN_FILES, task_file
from tests.fuzz.own_models import OWN_MODELS
from tests.fuzz.run_folders import RUN_FOLDERS
from tests.fuzz.tables import TABLES
from volta.core.errors import InputError
from volta.core.files import Limits
from volta.data.arrays import read_npy, read_npz
from volta.data.feature_files import FeatureFiles
from volta.data.images import decode, decode_all, list_images
from volta.data.labelled_arrays import read_labelled_arrays
from volta.data.lookup import DAMAGED, imported_tasks
from volta.data.tables import open_table, read_columns
from volta.data.task import LoadOptions
from volta.data.tasks.cifar import read_svhn
from volta.features.backbones.backbone import probe_onnx

LIMITS = Limits(parser_seconds=15.0, parser_bytes=2 << 30)
_RNG = np.random.default_rng(0)
_ROWS, _LABELS = _RNG.normal(size=(12, 3)).astype(np.float32), np.arange(12) % 3


def _image(kind: str, mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    Image.fromarray(_RNG.integers(0, 256, (9, 11, 3), dtype=np.uint8)).convert(mode).save(out, kind)
    return out.getvalue()


def _pictures() -> dict[str, bytes]:
    return {f"{part}/{name}/{n}.png": _image("PNG") for part in ("train", "test") for name in "ab" for n in range(3)}


def _tar(mode: str, names: tarfile._TarFormat = tarfile.PAX_FORMAT) -> bytes:  # type: ignore[name-defined]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{mode}", format=names) as tar:
        for name, data in {**_pictures(), f"train/a/{'long' * 40}é.png": _image("PNG")}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _zip(method: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in _pictures().items():
            archive.writestr(name, data)
    return out.getvalue()


def _npz(save: str) -> bytes:
    out = io.BytesIO()
    getattr(np, save)(out, train_x=_ROWS, train_y=_LABELS, test_x=np.asfortranarray(_ROWS), test_y=_LABELS)
    return out.getvalue()


def _npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _parquet() -> list[bytes]:
    import pyarrow
    from pyarrow import parquet

    tables = (
        {"a": _ROWS[:, 0], "b": _LABELS, "label": list("abc") * 4},
        {"features": [row.tolist() for row in _ROWS], "label": _LABELS, "split": ["train"] * 9 + ["test"] * 3},
        {"a": _LABELS, "label": pyarrow.array(list("xy") * 6).dictionary_encode()},
    )
    files = []
    for table in tables:
        out = io.BytesIO()
        parquet.write_table(pyarrow.table(table), out)
        files.append(out.getvalue())
    return files


def _csv() -> list[bytes]:
    lines = ["a,b,label", *(f"{row[0]},{row[1]},class {label}" for row, label in zip(_ROWS, _LABELS, strict=True))]
    quoted = 'a;"b;c";label\n1.5;"2";"two\nlines"\n3;4;x\n'
    return ["\n".join(lines).encode(), quoted.encode(), ("\ufeff" + "\r\n".join(lines)).encode()]


def _mat() -> list[bytes]:
    from scipy.io import savemat

    files = []
    for compressed in (True, False):
        out = io.BytesIO()
        images = _RNG.integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
        savemat(out, {"X": images, "y": np.array([[1], [2], [10], [3]], np.uint8)}, do_compression=compressed)
        files.append(out.getvalue())
    return files


def _onnx() -> list[bytes]:
    from onnx import TensorProto, helper

    node = helper.make_node("GlobalAveragePool", ["images"], ["features"])
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 8, 8])
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "g", [images], [features]), ir_version=8)
    model.opset_import[0].version = 17
    return [model.SerializeToString()]


def _read_archive(path: Path) -> bytes:
    files = list_images(path, LIMITS)
    return repr(files.names).encode() + decode_all(files, files.names).array.tobytes()


def _read_images(path: Path) -> bytes:
    return decode(path.read_bytes()).tobytes()


def _read_features(path: Path) -> bytes:
    found = FeatureFiles("x", limits=LIMITS).read(LoadOptions(path.parent.parent))
    return b"".join(split.inputs.tobytes() + split.labels.tobytes() for split in found.parts.values())


def _in_features(path: Path) -> bytes:
    """Read the file as the feature file of a data folder."""
    with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as root:
        place = Path(root) / "features" / "x.npz"
        place.parent.mkdir()
        place.write_bytes(path.read_bytes())
        return _read_features(place)


def _read_arrays(path: Path) -> bytes:
    parts = read_labelled_arrays(path, limits=LIMITS)
    return b"".join(name.encode() + rows.inputs.tobytes() for name, rows in parts.items())


def _read_table(path: Path) -> bytes:
    table = open_table(path, LIMITS)
    return b"".join(column.tobytes() for column in read_columns(table, dict.fromkeys(table.names, "any")).values())


def _read_numbers(path: Path) -> bytes:
    table = open_table(path, LIMITS)
    wanted = {name: "any" if name == "label" else "number" for name in table.names}
    return b"".join(column.tobytes() for column in read_columns(table, wanted).values())  # type: ignore[arg-type]


def _read_record(path: Path) -> str:
    """List the tasks: a damaged one is listed as such, which counts as refused."""
    with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as root:
        place = Path(root) / "imported" / "fuzzed" / "task.json"
        place.parent.mkdir(parents=True)
        place.write_bytes(path.read_bytes())
        (task,) = imported_tasks(Path(root))
        if task.title.startswith(DAMAGED):
            raise InputError(task.title)
        return task.title


def _torch_weights() -> list[bytes]:
    import torch

    out = io.BytesIO()
    torch.save({"a.weight": torch.zeros(3, 4), "a.bias": torch.ones(3)}, out)
    return [out.getvalue()]


def _safetensors() -> list[bytes]:
    from safetensors.numpy import save

    return [save({"a.weight": np.zeros((3, 4), np.float32), "a.bias": np.ones(3, np.float32)})]


def _read_weights(path: Path) -> str:
    from volta.features.backbones.backbone import read_weights

    return repr({name: tuple(value.shape) for name, value in read_weights(path).items()})


CATEGORIES: dict[str, Category] = {
    "tar": Category("a.tar", lambda: [_tar(""), _tar("", tarfile.GNU_FORMAT)], _read_archive),
    "tar-gz": Category("a.tar.gz", lambda: [_tar("gz")], _read_archive, sealed=True),
    "tar-xz": Category("a.tar.xz", lambda: [_tar("xz"), _tar("bz2")], _read_archive, sealed=True),
    "zip": Category(
        "a.zip",
        lambda: [_zip(zipfile.ZIP_DEFLATED), _zip(zipfile.ZIP_STORED), _zip(zipfile.ZIP_LZMA)],
        _read_archive,
    ),
    "image": Category(
        "a.png",
        lambda: [_image("PNG"), _image("JPEG"), _image("WEBP"), _image("BMP"), _image("TIFF"), _image("PNG", "P")],
        _read_images,
    ),
    "npy": Category(
        "a.npy", lambda: [_npy(_ROWS), _npy(_LABELS), _npy(np.array(["a", "b"]))], lambda path: read_npy(path).tobytes()
    ),
    "npz": Category(
        "a.npz",
        lambda: [_npz("savez"), _npz("savez_compressed")],
        lambda path: b"".join(name.encode() + array.tobytes() for name, array in read_npz(path, LIMITS).items()),
        sealed=True,
    ),
    "feature-file": Category("a.npz", lambda: [_npz("savez"), _npz("savez_compressed")], _in_features),
    "labelled-npz": Category("a.npz", lambda: [_npz("savez"), _npz("savez_compressed")], _read_arrays),
    "labelled-parquet": Category("a.parquet", _parquet, _read_arrays),
    "table-csv": Category("a.csv", _csv, _read_numbers),
    "table-csv-gz": Category("a.csv.gz", lambda: [gzip.compress(data) for data in _csv()], _read_table, sealed=True),
    "table-npz": Category("a.npz", lambda: [_npz("savez"), _npz("savez_compressed")], _read_table),
    "table-parquet": Category("a.parquet", _parquet, _read_table),
    "task-json": Category("task.json", task_file, _read_record, sealed=True),
    "weights-pth": Category("a.pth", _torch_weights, _read_weights),
    "weights-safetensors": Category("a.safetensors", _safetensors, _read_weights),
    "mat": Category("a.mat", _mat, lambda path: read_svhn(path, LIMITS).inputs.tobytes(), share=0.5),
    "onnx": Category("a.onnx", _onnx, lambda path: probe_onnx(path, LIMITS), share=0.5),
    **TABLES,
    **OWN_FILES,
    **OWN_MODELS,
    **RUN_FOLDERS,
    **INTERFACES,
}
"""Every category by name; the usual tests, ``make fuzz`` and the corpus go by this table."""
