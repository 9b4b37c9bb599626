"""Pipes, links, second names and huge files in the place of files of ours: refused, and nobody waits or runs out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from volta.core.checksummed import FileKind, read_checksummed, write_note
from volta.core.errors import StoreError
from volta.core.files import is_plain_file, lock_file, open_to_write, read_file

KIND = FileKind("thing", 1, "make it anew")

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs pipes that have names"),
    pytest.mark.timeout(60),
]


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_nobody_waits_at_a_pipe(pipe: Path) -> None:
    with pytest.raises(StoreError, match="is not a file but a folder, pipe or device"):
        read_file(pipe, 100)
    with pytest.raises(StoreError, match="is not a file but a folder, pipe or device"):
        write_note(pipe, KIND, {"a": 1})
    with pytest.raises(StoreError, match="is not a file but a folder, pipe or device"):
        open_to_write(pipe, append=True)
    with pytest.raises(StoreError, match="is not a file but a folder, pipe or device"):
        read_checksummed(pipe, KIND)
    with pytest.raises(StoreError, match="is not a file but a folder, pipe or device"):
        lock_file(pipe.parent, pipe.name)


def test_a_pipe_with_a_reader_is_refused_too(pipe: Path) -> None:
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(StoreError, match="is not a file but a folder, pipe or device"):
            write_note(pipe, KIND, {"a": 1})
    finally:
        os.close(reader)


def test_what_has_a_second_name_is_not_written_to(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    os.link(other, tmp_path / "note")
    assert not is_plain_file(tmp_path / "note")
    for append in (False, True):
        with pytest.raises(StoreError, match="has a second name"):
            open_to_write(tmp_path / "note", append=append)
    with pytest.raises(StoreError, match="has a second name"):
        write_note(tmp_path / "note", KIND, {"a": 1})
    assert other.read_text() == "kept"


def test_writing_in_place_empties_or_appends(tmp_path: Path) -> None:
    for append, expected in ((False, b"one"), (True, b"onetwo"), (False, b"new")):
        with open_to_write(tmp_path / "x", append=append) as file:
            file.write(expected[3:] if append else expected)
        assert (tmp_path / "x").read_bytes() == expected
    assert is_plain_file(tmp_path / "x")


def test_the_limit_of_a_file_takes_no_memory() -> None:
    """A network may have 16 GiB; reading a small one must not need them."""
    script = """
import resource, sys, tempfile
from pathlib import Path
sys.path[:] = {path!r}
from volta.core.checksummed import read_file
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
with tempfile.NamedTemporaryFile() as file:
    file.write(b"small")
    file.flush()
    assert read_file(Path(file.name), 1 << 34) == b"small"
"""
    done = subprocess.run([sys.executable, "-c", script.format(path=sys.path)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_huge_file_that_is_none_of_ours_is_refused_by_its_first_bytes(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(StoreError, match="is not a thing: it does not begin as a safetensors file"):
        read_checksummed(tmp_path / "huge", KIND)
    with (tmp_path / "huge").open("rb+") as file:
        file.write((1000).to_bytes(8, "little") + b"{")
    with pytest.raises(StoreError, match="needs more memory than there is; make it anew"):
        read_checksummed(tmp_path / "huge", KIND)
