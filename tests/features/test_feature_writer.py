from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from volta.core.cache import ARRAY, JOURNAL, META, ArrayCache, ShardWriter, cache_key
from volta.core.errors import InputError, StoreError
from volta.features.extract import as_stored, extract

KEY = cache_key({"data": "a", "backbone": "b"})


def rows(n_rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n_rows, 4)).astype(np.float32)


def test_keys_follow_their_parts() -> None:
    assert cache_key({"backbone": "b", "data": "a"}) == KEY
    assert cache_key({"data": "a", "backbone": "c"}) != KEY


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_written_rows_come_back_memory_mapped(tmp_path: Path, dtype: str) -> None:
    store = ArrayCache(tmp_path)
    assert store.get(KEY) is None
    writer = ShardWriter(store.folder(KEY), 10, np.dtype(dtype))
    values = rows(10)
    writer.write(6, values[6:].astype(dtype))
    assert store.get(KEY) is None
    writer.write(0, values[:6].astype(dtype))
    writer.finish(KEY, {"engine": "test"}, (4,))
    found = store.get(KEY)
    assert found is not None
    assert isinstance(found.array, np.memmap)
    assert not found.array.flags.writeable
    np.testing.assert_array_equal(found.array, values.astype(dtype))
    assert found.meta["engine"] == "test"
    assert len(found) == 10
    assert sorted(path.name for path in store.folder(KEY).iterdir()) == [ARRAY, META]


def test_a_later_writer_goes_on_where_the_journal_stops(tmp_path: Path) -> None:
    values = rows(9)
    writer = ShardWriter(tmp_path, 9, np.dtype("float32"))
    writer.write(0, values[:3])
    writer.write(6, values[6:])
    del writer
    with (tmp_path / JOURNAL).open("ab") as journal:
        journal.write(b"\n3 6 0abc")  # torn by a kill
    again = ShardWriter(tmp_path, 9, np.dtype("float32"))
    assert again.done() == [(0, 3), (6, 9)]
    again.write(3, values[3:6])
    assert ShardWriter(tmp_path, 9, np.dtype("float32")).done() == [(0, 3), (6, 9), (3, 6)]


def test_rows_that_changed_since_are_made_again(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, 4, np.dtype("float32"))
    writer.write(0, rows(2))
    writer.write(2, rows(2))
    part = np.lib.format.open_memmap(tmp_path / f"{ARRAY}.part", mode="r+")
    part[1, 0] += 1.0
    part.flush()
    assert ShardWriter(tmp_path, 4, np.dtype("float32")).done() == [(2, 4)]


def test_a_journal_without_its_array_counts_for_nothing(tmp_path: Path) -> None:
    ShardWriter(tmp_path, 4, np.dtype("float32")).write(0, rows(2))
    (tmp_path / f"{ARRAY}.part").write_bytes(b"damaged")
    assert ShardWriter(tmp_path, 4, np.dtype("float32")).done() == []
    ShardWriter(tmp_path, 4, np.dtype("float32")).write(0, rows(2))
    assert ShardWriter(tmp_path, 5, np.dtype("float32")).done() == []


def test_damaged_features_are_not_given(tmp_path: Path) -> None:
    store = ArrayCache(tmp_path)
    writer = ShardWriter(store.folder(KEY), 3, np.dtype("float32"))
    writer.write(0, rows(3))
    writer.finish(KEY, {}, (4,))
    path = store.folder(KEY) / ARRAY
    path.write_bytes(path.read_bytes()[:-8])
    assert store.get(KEY) is None
    np.save(path, rows(2))
    assert store.get(KEY) is None


def test_a_set_without_rows(tmp_path: Path) -> None:
    store = ArrayCache(tmp_path)
    writer = ShardWriter(store.folder(KEY), 0, np.dtype("float32"))
    writer.finish(KEY, {}, (4,))
    found = store.get(KEY)
    assert found is not None
    assert found.array.shape == (0, 4)


def test_rows_that_cannot_be_kept_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dtype is 'int8'"):
        extract(np.zeros((1, 3, 8, 8), np.uint8), torch.nn.Identity(), cache=tmp_path, dtype="int8")
    with pytest.raises(InputError, match="does not fit float16; pass dtype='float32'"):
        as_stored(np.full((1, 4), 1e6, dtype=np.float32), 0, np.dtype("float16"))
    with pytest.raises(InputError, match="not finite for image 3"):
        as_stored(np.array([[0.0], [np.nan]], dtype=np.float32), 2, np.dtype("float16"))
    writer = ShardWriter(tmp_path, 4, np.dtype("float16"))
    with pytest.raises(InputError, match="at row 3 of 4"):
        writer.write(3, rows(2))
    writer.write(0, rows(2).astype(np.float16))
    with pytest.raises(StoreError, match=r"has rows of shape \(4,\), now \(3,\)"):
        writer.write(2, rows(2)[:, :3])
