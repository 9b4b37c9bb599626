from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from volta.core.cache import ARRAY, META, PART, ArrayCache, ShardWriter, cache_key
from volta.core.errors import InputError, StoreError

PARTS = {"what": "squares", "n": 5}
SQUARES = np.arange(5) ** 2


class Maker:
    """Writes the squares and counts how often it was asked to."""

    def __init__(self, pause: float = 0.0) -> None:
        self.calls = 0
        self._pause = pause

    def __call__(self, path: Path) -> Mapping[str, Any]:
        self.calls += 1
        time.sleep(self._pause)
        with path.open("wb") as file:
            np.save(file, SQUARES)
        return {"note": "made here"}


def test_keys_follow_their_parts_in_any_order() -> None:
    assert cache_key({"n": 5, "what": "squares"}) == cache_key(PARTS)
    assert cache_key({**PARTS, "n": 6}) != cache_key(PARTS)


def test_an_array_is_made_once_and_memory_mapped(tmp_path: Path) -> None:
    make = Maker()
    first = ArrayCache(tmp_path).obtain(PARTS, make)
    again = ArrayCache(tmp_path).obtain(PARTS, make)
    assert make.calls == 1
    assert isinstance(again.array, np.memmap)
    assert not again.array.flags.writeable
    assert np.array_equal(again.array, SQUARES)
    assert (again.path, again.key, len(again)) == (first.path, cache_key(PARTS), 5)
    assert again.meta["note"] == "made here"
    assert again.meta["what"] == "squares"
    assert sorted(path.name for path in first.path.parent.iterdir()) == [ARRAY, META]


def test_a_damaged_array_is_made_again(tmp_path: Path) -> None:
    make = Maker()
    cache = ArrayCache(tmp_path)
    path = cache.obtain(PARTS, make).path
    for damage in (b"x", path.read_bytes()[:-4]):
        path.write_bytes(damage)
        assert cache.get(cache_key(PARTS)) is None
        assert np.array_equal(cache.obtain(PARTS, make).array, SQUARES)
    assert make.calls == 3


def test_what_could_not_be_made_leaves_nothing(tmp_path: Path) -> None:
    def fail(path: Path) -> Mapping[str, Any]:
        path.write_bytes(b"half")
        raise InputError("no such thing")

    cache = ArrayCache(tmp_path)
    with pytest.raises(InputError, match="no such thing"):
        cache.obtain(PARTS, fail)
    assert list(cache.folder(cache_key(PARTS)).iterdir()) == []
    with pytest.raises(StoreError, match="cannot be read back; check the disk"):
        cache.finished(cache_key(PARTS))


def test_two_that_want_the_same_array_make_it_once(tmp_path: Path) -> None:
    make = Maker(pause=0.2)
    found = []
    threads = [threading.Thread(target=lambda: found.append(ArrayCache(tmp_path).obtain(PARTS, make))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert make.calls == 1
    assert [np.array_equal(one.array, SQUARES) for one in found] == [True, True]


def test_asking_changes_nothing_on_disk(tmp_path: Path) -> None:
    assert ArrayCache(tmp_path / "cache").get(cache_key(PARTS)) is None
    assert not (tmp_path / "cache").exists()
    assert ArrayCache(tmp_path / "cache").writable
    (tmp_path / "file").write_text("x")
    assert not ArrayCache(tmp_path / "file" / "cache").writable


def test_shards_of_images_resume_and_are_held_to_one_shape(tmp_path: Path) -> None:
    cache, key = ArrayCache(tmp_path), cache_key(PARTS)
    images = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 4), dtype=np.uint8)
    ShardWriter(cache.folder(key), 6, images.dtype).write(2, images[2:4])
    writer = ShardWriter(cache.folder(key), 6, images.dtype)
    assert writer.done() == [(2, 4)]
    with pytest.raises(StoreError, match=r"has rows of shape \(3, 4, 4\), now \(3, 2, 2\)"):
        writer.write(0, images[:2, :, :2, :2])
    with pytest.raises(InputError, match="at row 5 of 6"):
        writer.write(5, images[:2])
    writer.write(0, images[:2])
    writer.write(4, images[4:])
    assert cache.get(key) is None
    writer.finish(key, {"made": "by shards"}, (3, 4, 4))
    assert np.array_equal(cache.finished(key).array, images)


@pytest.mark.skipif(sys.platform == "win32", reason="needs hard links")
def test_an_array_is_made_beside_what_stands_in_its_place(tmp_path: Path) -> None:
    cache = ArrayCache(tmp_path / "cache")
    folder = cache.folder(cache_key(PARTS))
    folder.mkdir(parents=True)
    (tmp_path / "other").write_text("kept")
    os.link(tmp_path / "other", folder / PART)
    assert np.array_equal(cache.obtain(PARTS, write_array).array, np.arange(3))
    assert (tmp_path / "other").read_text() == "kept"


def write_array(path: Path) -> dict[str, Any]:
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    return {}


def test_a_cache_that_cannot_be_written_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be written; name a folder that can be with .* VOLTA_CACHE"):
        ArrayCache(tmp_path / "file" / "cache").obtain(PARTS, Maker())
