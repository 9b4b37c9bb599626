"""Bombs and damaged files: each is refused before it costs anything, with an error that names it."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from volta.core.errors import InputError, StoreError
from volta.core.files import Limits, parse_limits
from volta.data import find_task
from volta.data.arrays import read_npy, read_npz
from volta.data.feature_files import FeatureFiles
from volta.data.images import list_images, read_image_folder
from volta.data.importing import import_task
from volta.data.labelled_arrays import read_labelled_arrays
from volta.data.tables import open_table, read_columns
from volta.data.task import LoadOptions
from volta.data.tasks.cifar import class_names, read_svhn
from volta.features.backbones.backbone import probe_onnx

SMALL = Limits(free_bytes=1 << 16)


def png(width: int = 6, height: int = 5, mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    Image.new(mode, (width, height)).save(out, "PNG")
    return out.getvalue()


def tar(n_images: int = 30, mode: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{mode}", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(n_images):
            info = tarfile.TarInfo(f"{'ab'[number % 2]}/{number}.png")
            info.size = len(png())
            archive.addfile(info, io.BytesIO(png()))
    return out.getvalue()


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_one_flipped_bit_in_a_header_loses_no_image_in_silence(root: Path) -> None:
    sound = tar()
    path = root / "a.tar"
    for header in (0, 1, 25, 29):
        path.write_bytes(flipped(sound, header * 1024 + 5))
        with pytest.raises(InputError, match="whole"):
            list_images(path)
    path.write_bytes(sound)
    assert len(list_images(path).names) == 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:20480] + bytes(512) + data[20992:], "more follows the mark of its end"),
        (lambda data: data[: 30 * 1024 - 700], "whole"),
    ],
    ids=["a block lost", "cut off"],
)
def test_a_tar_that_is_not_whole(root: Path, change: object, message: str) -> None:
    path = root / "a.tar"
    path.write_bytes(change(tar()))  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        read_image_folder(path)


def test_gzip_s_own_checksum_is_compared(root: Path) -> None:
    sound = tar(mode="gz")
    for place in (-8, -5, -4, -1):
        path = root / f"a{-place}.tar.gz"
        path.write_bytes(flipped(sound, len(sound) + place))
        with pytest.raises(InputError, match="whole"):
            list_images(path)


def test_a_tar_of_empty_files_is_a_bomb_too(root: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for number in range(400):
            archive.addfile(tarfile.TarInfo(f"{number}"))
    (root / "a.tar.gz").write_bytes(out.getvalue())
    with pytest.raises(InputError, match="bomb"):
        list_images(root / "a.tar.gz", Limits(free_bytes=1 << 14, ratio=20))


def test_images_of_other_sizes_behind_small_ones_do_not_pile_up(root: Path) -> None:
    path = root / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(20):
            archive.writestr(f"a/{number:02}.png", png() if number < 10 else png(900, 900, "1"))
    with pytest.raises(InputError, match="mixed sizes"):
        read_image_folder(path, scratch=root)


def npz(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return out.getvalue()


def header(text: str) -> bytes:
    body = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + len(body).to_bytes(2, "little") + body


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (4398046511104,)}"), "read"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "read"),
        (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"), "Python objects"),
        (header("(" * 100), "read"),
        (b"\x93NUMPY\2\0\xff\xff\xff\x7f", "read"),
        (b"", "read|not a npy"),
    ],
)
def test_damaged_array_headers(root: Path, data: bytes, message: str) -> None:
    (root / "a.npz").write_bytes(npz(x=data))
    with pytest.raises(InputError, match=message):
        read_npz(root / "a.npz")
    (root / "a.npy").write_bytes(data)
    with pytest.raises(InputError, match=message):
        read_npy(root / "a.npy")


def test_arrays_that_unpack_to_a_thousand_times_their_size_are_refused(root: Path) -> None:
    np.savez_compressed(root / "a.npz", x=np.zeros((100_000, 10)), y=np.zeros(100_000, int))
    with pytest.raises(InputError, match=r"would unpack to .*--limit ratio=\d+"):
        read_labelled_arrays(root / "a.npz", limits=SMALL)
    with pytest.raises(InputError, match="would unpack to"):
        open_table(root / "a.npz", SMALL)
    (found,) = read_labelled_arrays(root / "a.npz", limits=parse_limits(["ratio=5000"], SMALL)).values()
    assert found.inputs.shape == (100_000, 10)


def test_a_flipped_bit_in_an_npz_is_found(root: Path) -> None:
    np.savez(root / "a.npz", x=np.ones((50, 4)))
    data = (root / "a.npz").read_bytes()
    (root / "a.npz").write_bytes(flipped(data, 600))
    with pytest.raises(InputError, match=r"cannot be read.*CRC"):
        read_npz(root / "a.npz")


@pytest.mark.parametrize("columns", [{}, {"a": []}, {"a": [], "label": []}, {"a": [[]], "label": [1]}])
def test_empty_parquet(root: Path, columns: dict[str, list[object]]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), root / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet"):
        read_labelled_arrays(root / "a.parquet")


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b"],
        [1, None, 2],
        [True, None, False],
        [[1, 2], [2, 3], [3, 4]],
        [1.5, 2.0, 3.0],
        [1.0, 1e300, 2e300],
    ],
)
def test_mixed_and_missing_labels(root: Path, labels: list[object]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"a": np.arange(12.0), "label": pyarrow.array(labels * 4)}
    parquet.write_table(pyarrow.table(columns), root / "a.parquet")
    with pytest.raises(InputError, match="label"):
        import_task(root / "a.parquet", "mine", root=root / "data")


def test_one_long_text_among_many_short_ones_is_a_bomb(root: Path) -> None:
    (root / "a.csv").write_text("id,p\n" + "a" * 2_000 + ",1\n" + "b,1\n" * 4_000)
    table = open_table(root / "a.csv", SMALL)
    with pytest.raises(InputError, match="would unpack to"):
        read_columns(table, {"id": "any"})
    assert len(read_columns(table, {"p": "number"})["p"]) == 4_001
    # Each piece alone is small enough.
    (root / "a.csv").write_text("id,p\n" + "a" * 300 + ",1\n" + "b,1\n" * 40_000)
    table = open_table(root / "a.csv", Limits(free_bytes=20 << 20, ratio=10))
    assert sum(len(chunk) for chunk in table.chunks({"id": "any"})) == 40_001
    with pytest.raises(InputError, match="would unpack to"):
        read_columns(table, {"id": "any"})


@pytest.mark.timeout(60)
def test_a_table_of_many_columns_is_read_in_a_moment(root: Path) -> None:
    names = [f"c{number}" for number in range(40_000)]
    (root / "a.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    columns = read_columns(open_table(root / "a.csv"), dict.fromkeys(names, "number"))
    assert list(columns) == names
    (root / "a.csv").write_text(",".join([*names, "c7"]) + "\n")
    with pytest.raises(InputError, match="two columns 'c7'"):
        open_table(root / "a.csv")


@pytest.mark.timeout(60)
@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes that have names")
def test_nobody_waits_at_a_pipe_in_a_file_s_place(root: Path) -> None:
    import_task_of_two(root)
    array = next((root / "data" / "imported" / "mine" / "arrays").glob("*.npy"))
    array.unlink()
    os.mkfifo(array)
    with pytest.raises(StoreError, match="is not a file but a link, folder, pipe or device"):
        find_task("mine", root / "data").load("features", LoadOptions(root / "data"))
    os.mkfifo(root / "x.npy")
    for read in (read_npy, read_npz):
        with pytest.raises(InputError, match="is no file but a folder, pipe or device"):
            read(root / "x.npy")
    with pytest.raises(InputError, match="is no file but a folder, pipe or device"):
        read_labelled_arrays(root)
    with pytest.raises(InputError, match="is not there"):
        class_names(root / "x.npy", 3)


def import_task_of_two(root: Path) -> None:
    np.savez(root / "two.npz", x=np.random.default_rng(0).normal(size=(40, 3)), y=np.arange(40) % 2)
    import_task(root / "two.npz", "mine", root=root / "data")


def test_a_class_number_of_a_billion(root: Path) -> None:
    (root / "features").mkdir()
    arrays = {"train_x": np.ones((3, 2)), "train_y": np.array([0, 1, 10**9]), "test_x": np.ones((1, 2)), "test_y": [0]}
    np.savez(root / "features" / "x.npz", **arrays)
    with pytest.raises(InputError, match="train_y has the class number 1000000000"):
        FeatureFiles("x").read(LoadOptions(root))


def test_a_gzipped_table_without_end(root: Path) -> None:
    (root / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1" * 3_000_000))
    with pytest.raises(InputError, match=r"a\.csv\.gz is not a table that can be read"):
        next(open_table(root / "a.csv.gz").chunks({"a": "number"}))


@pytest.mark.parametrize("label", [1.7, 0.0, 11.0, np.nan])
def test_svhn_labels_are_whole_digits(root: Path, label: float) -> None:
    from scipy.io import savemat

    savemat(root / "a.mat", {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1.0], [label]])})
    with pytest.raises(InputError, match="outside 1-10"):
        read_svhn(root / "a.mat")


def test_an_onnx_graph_that_never_ends(root: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["x"], ["y"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "yes", "images"], ["features"], body=body)],
        "endless",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n_images", 3, 8, 8])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, None)],
        [
            helper.make_tensor("n", TensorProto.INT64, [], [2**62]),
            helper.make_tensor("yes", TensorProto.BOOL, [], [True]),
        ],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, root / "a.onnx")
    with pytest.raises(InputError, match=r"took more than 1 s.*--limit parser_seconds=10"):
        probe_onnx(root / "a.onnx", Limits(parser_seconds=1.0))


@pytest.mark.parametrize("text", ["ratio", "ratio=", "ratio=x", "ratio=-1", "ratio=nan", "n_members=inf", "what=1"])
def test_limits_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="--limit is"):
        parse_limits([text])


def test_limits_by_name() -> None:
    assert parse_limits(["n_members=1e3", "ratio=2.5"]) == Limits(n_members=1000, ratio=2.5)
