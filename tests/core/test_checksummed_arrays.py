"""A file of arrays comes back as it was written, and in no other way."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from volta.core.checksummed import FileKind, read_arrays, write_arrays
from volta.core.errors import StoreError

KIND = FileKind("saved thing", 3, "save it again")
TENSORS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False]), "c": np.zeros((0, 4), dtype=np.float32)}


@pytest.fixture
def path(tmp_path):
    write_arrays(tmp_path / "x.safetensors", KIND, TENSORS, {"name": "kept"})
    return tmp_path / "x.safetensors"


def test_header_and_arrays_come_back(path):
    header, arrays = read_arrays(path, KIND, dict[str, Any])
    assert header == {"file_format": 3, "file_kind": "saved thing", "name": "kept"}
    assert set(arrays) == set(TENSORS)
    for name, array in arrays.items():
        assert array.dtype == TENSORS[name].dtype
        assert np.array_equal(array, TENSORS[name])
        assert array.flags.writeable


def test_other_readers_see_an_ordinary_safetensors_file(path):
    assert np.array_equal(load_file(path)["a"], TENSORS["a"])


def test_a_change_of_any_single_byte_is_refused_with_the_files_name(path):
    whole = path.read_bytes()
    for place in range(len(whole)):
        altered = bytearray(whole)
        altered[place] ^= 1
        path.write_bytes(altered)
        with pytest.raises(StoreError, match=r"x\.safetensors"):
            read_arrays(path, KIND, dict[str, Any])
    path.write_bytes(whole)
    read_arrays(path, KIND, dict[str, Any])


def test_an_altered_number_is_named_as_such(path):
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(StoreError, match="altered or damaged"):
        read_arrays(path, KIND, dict[str, Any])


def test_every_cut_is_refused_and_so_is_anything_added(path):
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError, match=r"x\.safetensors"):
            read_arrays(path, KIND, dict[str, Any])
    path.write_bytes(whole[:-4])
    with pytest.raises(StoreError, match=f"is cut off: it has {len(whole) - 4} of {len(whole)} bytes"):
        read_arrays(path, KIND, dict[str, Any])
    path.write_bytes(whole + b"\0")
    with pytest.raises(StoreError, match="altered or damaged"):
        read_arrays(path, KIND, dict[str, Any])


def test_newer_older_and_alien_files_are_told_apart(path, tmp_path):
    with pytest.raises(StoreError, match=r"newer version of volta \(format 3, this one reads 2\)"):
        read_arrays(path, replace(KIND, version=2), dict[str, Any])
    with pytest.raises(StoreError, match=r"older version of volta \(format 3, this one reads 4\)"):
        read_arrays(path, replace(KIND, version=4), dict[str, Any])
    alien = tmp_path / "alien.safetensors"
    for content in (b"", b"PK\x03\x04 a zip file", save({"weight": np.zeros(3)})):
        alien.write_bytes(content)
        with pytest.raises(StoreError, match=r"alien\.safetensors is not a saved thing"):
            read_arrays(alien, KIND, dict[str, Any])
    alien.write_bytes(save(TENSORS, {"volta": json.dumps({"file_format": 3, "file_kind": "saved thing"})}))
    with pytest.raises(StoreError, match="altered or damaged"):
        read_arrays(alien, KIND, dict[str, Any])
    with pytest.raises(StoreError, match=r"missing\.safetensors cannot be read: No such file"):
        read_arrays(tmp_path / "missing.safetensors", KIND, dict[str, Any])


def test_a_huge_file_that_is_none_of_ours_is_refused_by_its_first_bytes(tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(StoreError, match="is not a saved thing: it does not begin as a safetensors file"):
        read_arrays(tmp_path / "huge", KIND, dict[str, Any])
    with (tmp_path / "huge").open("rb+") as file:
        file.write((1000).to_bytes(8, "little") + b"{")
    with pytest.raises(StoreError, match="needs more memory than there is; save it again"):
        read_arrays(tmp_path / "huge", KIND, dict[str, Any])


def test_a_shape_of_a_million_sides_is_not_multiplied(path):
    """The product of its sides would take hours."""
    where = {"dtype": "F32", "shape": [(1 << 64) - 1] * 100_000, "data_offsets": [0, 0]}
    header = json.dumps({"volta": json.dumps({"file_format": 3, "file_kind": "saved thing"}), "seal": "0" * 64})
    text = f'{{"__metadata__":{header},"a":{json.dumps(where)}}}'.replace('"seal": "', '"seal":"').encode()
    data = bytearray(len(text).to_bytes(8, "little") + text)
    place = data.index(b'"seal":"') + len(b'"seal":"')
    data[place : place + 64] = checksum_of(data)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="does not hold a saved thing"):
        read_arrays(path, KIND, dict[str, Any])


def checksum_of(data):
    """Return the checksum of bytes with zeros in its place."""
    sums = [zlib.crc32(data[start : start + (1 << 20)]) for start in range(0, len(data), 1 << 20)]
    return hashlib.sha256(b"".join(value.to_bytes(4, "little") for value in sums)).hexdigest().encode()


def test_every_piece_of_a_large_file_is_checked(tmp_path):
    path = tmp_path / "large.safetensors"
    write_arrays(path, KIND, {"a": np.zeros(3 << 20, dtype=np.uint8)}, {})
    read_arrays(path, KIND, dict[str, Any])
    whole = bytearray(path.read_bytes())
    for place in (1 << 20, 2 << 20, (2 << 20) - 1):
        altered = whole.copy()
        altered[place] = 1
        path.write_bytes(altered)
        with pytest.raises(StoreError, match="altered or damaged"):
            read_arrays(path, KIND, dict[str, Any])
