from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from volta.core.checks import check_features
from volta.core.files import file_position, hash_array, row_chunks


def resident_file_bytes() -> int:
    status = Path("/proc/self/status")
    if not status.is_file():
        pytest.skip("needs /proc to see resident memory")
    line = next(line for line in status.read_text().splitlines() if line.startswith("RssFile"))
    return int(line.split()[1]) * 1024


def test_chunks_cover_the_rows(tmp_path):
    array = np.arange(35.0).reshape(7, 5)
    np.save(tmp_path / "a.npy", array)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for source in (array, mapped):
        chunks = list(row_chunks(source, 3))
        assert [len(chunk) for chunk in chunks] == [3, 3, 1]
        assert np.array_equal(np.concatenate(chunks), array)
    assert list(row_chunks(array[:0], 3)) == []


def test_scanning_a_memory_map_leaves_little_resident(tmp_path):
    rows = np.lib.format.open_memmap(tmp_path / "a.npy", mode="w+", dtype=np.float32, shape=(100_000, 512))
    rows[:] = 1.0
    rows.flush()
    del rows
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    before = resident_file_bytes()
    hash_array(mapped)
    assert isinstance(check_features(mapped), np.memmap)
    assert resident_file_bytes() - before < 100 << 20


def test_file_position_follows_slices(tmp_path):
    array = np.arange(40, dtype=np.int32).reshape(10, 4)
    np.save(tmp_path / "a.npy", array)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for part in (mapped, mapped[3:], mapped[3:][2:5]):
        name, position = file_position(part)
        read = np.fromfile(name, dtype=np.int32, count=part.size, offset=position).reshape(part.shape)
        assert np.array_equal(read, part)
    assert file_position(mapped[:, 1:]) is None
    assert file_position(mapped[::2]) is None
    assert file_position(array) is None
