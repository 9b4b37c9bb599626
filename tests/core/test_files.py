from __future__ import annotations

import json
import os
import subprocess

import numpy as np
import pytest

from volta.core.files import atomic_path, canonical_json, hash_array, hash_file, stored_bytes, write_json, write_text


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def fail_half_way():
        with atomic_path(path) as temporary:
            temporary.write_text("new, but")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_written_files_follow_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "x")
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_json_is_canonical_and_refuses_nan(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1, "a": [1.5, "é"]})
    write_json(tmp_path / "b.json", {"a": [1.5, "é"], "b": 1})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"a": [1.5, "é"], "b": 1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": float("nan")})


def test_array_hashes_see_values_dtype_and_shape_but_not_memory_layout(tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert hash_array(array) == hash_array(np.asfortranarray(array))
    assert hash_array(array) != hash_array(array.reshape(4, 3))
    assert hash_array(array) != hash_array(array.astype(np.float64))
    changed = array.copy()
    changed[2, 3] += 1
    assert hash_array(array) != hash_array(changed)
    np.save(tmp_path / "a.npy", array)
    assert hash_array(np.load(tmp_path / "a.npy", mmap_mode="r")) == hash_array(array)
    assert hash_array(array[:0]) != hash_array(np.empty((0, 5), dtype=np.float32))


def test_large_arrays_hash_the_same_in_pieces():
    array = np.random.default_rng(0).normal(size=(9_000, 100))
    whole = np.ascontiguousarray(array)
    assert hash_array(array) == hash_array(whole[::-1][::-1])
    assert array.nbytes > 1 << 22


def test_file_hash_is_sha256(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert hash_file(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_size_of_a_folder_however_deep(tmp_path):
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "link").symlink_to(tmp_path)
    place = tmp_path
    for _ in range(6):
        place = place.joinpath(*["d"] * 200)
        place.mkdir(parents=True)
    (place / "b").write_bytes(b"45")
    try:
        assert stored_bytes(tmp_path / "a") == 3
        assert stored_bytes(tmp_path) == 5
        assert stored_bytes(tmp_path / "missing") == 0
    finally:
        # Python's own removal goes no deeper than it can call itself.
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)
