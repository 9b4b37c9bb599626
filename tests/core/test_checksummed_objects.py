"""A sealed JSON file comes back as it was written; every other file is refused with its name and a remedy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from volta.core.checksummed import FileKind, checksummed_object, read_object, write_note, write_object
from volta.core.errors import StoreError
from volta.core.files import inside

KIND = FileKind("thing", 2, "make it anew", max_bytes=10_000)
VALUE = {"a": [1, 2.5, None], "é": {"b": "ü\n"}, "kind": "own"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_object(tmp_path / "x.json", KIND, VALUE)
    return tmp_path / "x.json"


def test_a_value_comes_back(path: Path) -> None:
    assert read_object(path, KIND).values == VALUE
    write_note(path, KIND, {"a": 1})
    assert read_object(path, KIND).values == {"a": 1}


def test_a_change_of_any_byte_and_every_cut_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for place in range(len(whole)):
        for altered in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            path.write_bytes(altered)
            with pytest.raises(StoreError, match=r"x\.json .*; make it anew"):
                read_object(path, KIND)
    path.write_bytes(whole + b" ")
    with pytest.raises(StoreError, match="do not match its checksum"):
        read_object(path, KIND)


def test_kinds_and_versions_are_told_apart(path: Path) -> None:
    with pytest.raises(StoreError, match="is not a other, but says it is 'thing'"):
        read_object(path, replace(KIND, name="other"))
    with pytest.raises(StoreError, match=r"newer version of volta \(format 2, this one reads 1\); upgrade"):
        read_object(path, replace(KIND, version=1))
    with pytest.raises(StoreError, match=r"older version of volta \(format 2, this one reads 3\); make it anew"):
        read_object(path, replace(KIND, version=3))


def test_limits_of_size_and_depth(path: Path) -> None:
    with pytest.raises(StoreError, match="more than 20 bytes"):
        read_object(path, replace(KIND, max_bytes=20))
    deep: list[object] = []
    for _ in range(40):
        deep = [deep]
    path.write_bytes(checksummed_object(KIND, {"a": deep}))
    with pytest.raises(StoreError, match="nested deeper than 32 levels"):
        read_object(path, KIND)


def test_a_limit_of_values_because_a_few_bytes_become_a_hundred_in_memory(path: Path) -> None:
    fits, too_many = [0] * 2_000_000, [0] * 2_100_000
    path.write_bytes(checksummed_object(KIND, {"a": fits}))
    assert read_object(path, replace(KIND, max_bytes=1 << 26)).values == {"a": fits}
    path.write_bytes(checksummed_object(KIND, {"a": too_many}))
    with pytest.raises(StoreError, match="holds more than 2,097,152 values"):
        read_object(path, replace(KIND, max_bytes=1 << 26))


def test_the_names_of_the_seal_are_taken() -> None:
    for name in ("seal", "file_kind", "file_format"):
        with pytest.raises(StoreError, match=f"cannot hold '{name}'"):
            checksummed_object(KIND, {name: 1})


def test_names_stay_below_their_folder(tmp_path: Path) -> None:
    assert inside(tmp_path, "a", "b") == tmp_path / "a" / "b"
    for name in ("..", "", ".", "a/b", "a\\b", "a\0"):
        with pytest.raises(StoreError, match="is no name of a file"):
            inside(tmp_path, name)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="is a symbolic link"):
        inside(tmp_path, "link", "b")


def test_a_file_is_not_opened_through_a_link(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(StoreError, match="is a symbolic link"):
        read_object(tmp_path / "link", KIND)
    with pytest.raises(StoreError, match="is a symbolic link"):
        write_note(tmp_path / "link", KIND, {"a": 1})
    assert read_object(path, KIND).values == VALUE
