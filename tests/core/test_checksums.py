"""A file is read through once while it stays the same, and again when it does not."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from volta.core.checksummed import checksum_of_file, has_checksum, sha256_of
from volta.core.errors import StoreError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "x.npy").write_bytes(bytes(range(256)) * 9000)
    return tmp_path / "x.npy"


def test_an_altered_byte_in_every_piece_is_seen(path: Path) -> None:
    checksum, digest = checksum_of_file(path), sha256_of(path)
    assert has_checksum(path, checksum)
    whole = path.read_bytes()
    for place in (0, 1 << 20, (2 << 20) - 1, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert not has_checksum(path, checksum)
        assert sha256_of(path) != digest
    path.write_bytes(whole)
    assert has_checksum(path, checksum)


def test_a_file_is_read_through_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checksum = checksum_of_file(path)
    assert has_checksum(path, checksum)
    monkeypatch.setattr(zlib, "crc32", lambda *_: pytest.fail("read again"))
    assert has_checksum(path, checksum)
    assert not has_checksum(path, "0" * 64)
    monkeypatch.undo()
    # Times set back do not hide a change: the kernel notes when it was made.
    times = path.stat()
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not has_checksum(path, checksum)


def test_a_link_is_no_file(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(StoreError, match="is not a file but a link"):
        sha256_of(tmp_path / "link")
