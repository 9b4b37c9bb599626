"""A file is read through once while it stays the same, and again when it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from volta.core import checksummed
from volta.core.checksummed import check_checksum_line, checksum_line_of_file, checksum_of
from volta.core.errors import StoreError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "x.npy").write_bytes(bytes(range(256)) * 9000)
    return tmp_path / "x.npy"


def test_an_altered_byte_in_every_piece_is_seen(path: Path) -> None:
    seal, digest = checksum_line_of_file(path), checksum_of(path)
    assert check_checksum_line(path, seal)
    whole = path.read_bytes()
    for place in (0, 1 << 20, (2 << 20) - 1, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert not check_checksum_line(path, seal)
        assert checksum_of(path) != digest
    path.write_bytes(whole)
    assert check_checksum_line(path, seal)


def test_a_file_is_read_through_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seal = checksum_line_of_file(path)
    assert check_checksum_line(path, seal)
    monkeypatch.setattr(checksummed, "seal_of_file", lambda path: pytest.fail("read again"))
    assert check_checksum_line(path, seal)
    assert not check_checksum_line(path, "0" * 64)


def test_large_files_are_remembered_between_processes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seal = checksum_line_of_file(path)
    assert check_checksum_line(path, seal, large_bytes=1)
    calls = []
    monkeypatch.setattr(checksummed, "_known", {})
    monkeypatch.setattr(checksummed, "seal_of_file", lambda path: calls.append(path) or seal)
    assert check_checksum_line(path, seal, large_bytes=1)
    assert calls == []
    # Times set back do not hide a change: the kernel notes when it was made.
    times = path.stat()
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    check_checksum_line(path, seal, large_bytes=1)
    assert calls == [path]


def test_a_link_is_no_file(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(StoreError, match="is not a file but a link"):
        checksum_of(tmp_path / "link")
