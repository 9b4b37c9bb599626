"""A sealed file comes back as it was written, and in no other way."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from volta.core.errors import StoreError
from volta.core.sealed_file import read_sealed, write_sealed

TENSORS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False]), "c": np.zeros((0, 4), dtype=np.float32)}


@pytest.fixture
def path(tmp_path):
    write_sealed(tmp_path / "x.safetensors", TENSORS, {"format": 3, "name": "kept"})
    return tmp_path / "x.safetensors"


def test_header_and_arrays_come_back(path):
    header, arrays = read_sealed(path, 3)
    assert header == {"format": 3, "name": "kept"}
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
            read_sealed(path, 3)
    path.write_bytes(whole)
    read_sealed(path, 3)


def test_an_altered_number_is_named_as_such(path):
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(StoreError, match="altered or damaged"):
        read_sealed(path, 3)


def test_every_cut_is_refused_and_so_is_anything_added(path):
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError, match=r"x\.safetensors"):
            read_sealed(path, 3)
    path.write_bytes(whole[:-4])
    with pytest.raises(StoreError, match=f"is cut off: it has {len(whole) - 4} of {len(whole)} bytes"):
        read_sealed(path, 3)
    path.write_bytes(whole + b"\0")
    with pytest.raises(StoreError, match="altered or damaged"):
        read_sealed(path, 3)


def test_newer_older_and_alien_files_are_told_apart(path, tmp_path):
    with pytest.raises(StoreError, match=r"newer version of volta \(format 3, this one reads 2\)"):
        read_sealed(path, 2)
    with pytest.raises(StoreError, match=r"older version of volta \(format 3, this one reads 4\)"):
        read_sealed(path, 4)
    alien = tmp_path / "alien.safetensors"
    for content in (b"", b"PK\x03\x04 a zip file", save({"weight": np.zeros(3)})):
        alien.write_bytes(content)
        with pytest.raises(StoreError, match=r"alien\.safetensors is not a saved VOLTA method"):
            read_sealed(alien, 3)
    alien.write_bytes(save(TENSORS, {"volta": json.dumps({"format": 3})}))
    with pytest.raises(StoreError, match="altered or damaged"):
        read_sealed(alien, 3)
    with pytest.raises(StoreError, match=r"missing\.safetensors cannot be read: No such file"):
        read_sealed(tmp_path / "missing.safetensors", 3)


def test_large_files_are_sealed_in_every_piece(tmp_path):
    path = tmp_path / "large.safetensors"
    write_sealed(path, {"a": np.zeros(3 << 20, dtype=np.uint8)}, {"format": 3})
    read_sealed(path, 3)
    whole = bytearray(path.read_bytes())
    for place in (1 << 20, 2 << 20, (2 << 20) - 1):
        altered = whole.copy()
        altered[place] = 1
        path.write_bytes(altered)
        with pytest.raises(StoreError, match="altered or damaged"):
            read_sealed(path, 3)
