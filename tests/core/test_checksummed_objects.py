"""A JSON file with a checksum comes back as it was written; every other file is refused with its name and a remedy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from volta.core.checksummed import FileKind, decode_object, encode_object, read_object, write_object
from volta.core.errors import InputError, StoreError
from volta.core.files import inside

KIND = FileKind("thing", 2, "make it anew", max_bytes=10_000)
VALUE = {"a": [1, 2.5, None], "é": {"b": "ü\n"}, "kind": "own"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_object(tmp_path / "x.json", KIND, VALUE)
    return tmp_path / "x.json"


def test_a_value_comes_back(path: Path) -> None:
    assert read_object(path, KIND, dict[str, Any]) == VALUE


def test_a_change_of_any_byte_and_every_cut_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for place in range(len(whole)):
        for altered in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            path.write_bytes(altered)
            with pytest.raises(StoreError, match=r"x\.json .*; make it anew"):
                read_object(path, KIND, dict[str, Any])
    path.write_bytes(whole + b" ")
    with pytest.raises(StoreError, match="do not match its checksum"):
        read_object(path, KIND, dict[str, Any])


def test_kinds_and_versions_are_told_apart(path: Path) -> None:
    with pytest.raises(StoreError, match="is not a other, but says it is 'thing'"):
        read_object(path, replace(KIND, name="other"), dict[str, Any])
    with pytest.raises(StoreError, match=r"newer version of volta \(format 2, this one reads 1\); upgrade"):
        read_object(path, replace(KIND, version=1), dict[str, Any])
    with pytest.raises(StoreError, match=r"older version of volta \(format 2, this one reads 3\); make it anew"):
        read_object(path, replace(KIND, version=3), dict[str, Any])


@dataclass(frozen=True)
class Thing:
    """What a file is read as."""

    name: str
    sizes: tuple[int, ...] = ()
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.name == "bad":
            raise InputError("name is 'bad'")


def test_a_dataclass_comes_back(path: Path) -> None:
    write_object(path, KIND, Thing("one", (1, 2), 0.1))
    assert read_object(path, KIND, Thing) == Thing("one", (1, 2), 0.1)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "Object missing required field `name`"),
        ({"name": 3}, r"Expected `str`, got `int` - at `\$\.name`"),
        ({"name": "a", "sizes": [1, True]}, r"Expected `int`, got `bool` - at `\$\.sizes\[1\]`"),
        ({"name": "a", "sizes": [1.5]}, r"Expected `int`, got `float` - at `\$\.sizes\[0\]`"),
        ({"name": "a", "sizes": None}, "Expected `array`, got `null`"),
        ({"name": "bad"}, "name is 'bad'"),
    ],
)
def test_a_value_of_another_type_is_named_with_the_file_and_a_remedy(
    path: Path, value: dict[str, object], problem: str
) -> None:
    path.write_bytes(encode_object(KIND, value))
    with pytest.raises(StoreError, match=rf"x\.json does not hold a thing .*{problem}.*; make it anew"):
        read_object(path, KIND, Thing)


def test_a_number_that_is_none_is_neither_written_nor_read(path: Path) -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_object(path, KIND, Thing("a", share=value))
    for text in (b"NaN", b"Infinity", b"1e999"):
        rest = encode_object(KIND, {"name": "a", "share": 12345.0})[len(b'{\n  "seal": "') + 64 :]
        rest = rest.replace(b"12345.0", text)
        checksum = hashlib.sha256(b'{\n  "seal": "' + b"0" * 64 + rest).hexdigest().encode()
        path.write_bytes(b'{\n  "seal": "' + checksum + rest)
        with pytest.raises(StoreError, match="does not hold a thing"):
            read_object(path, KIND, Thing)


def test_limits_of_size_and_depth(path: Path) -> None:
    with pytest.raises(StoreError, match="more than 20 bytes"):
        read_object(path, replace(KIND, max_bytes=20), Thing)
    deep = encode_object(KIND, {"a": "deep"}).replace(b'"deep"', b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(StoreError, match="do not match its checksum"):
        decode_object(deep, path, KIND, Thing)
    start = len(b'{\n  "seal": "')
    rest = deep[start + 64 :]
    checksum = hashlib.sha256(b'{\n  "seal": "' + b"0" * 64 + rest).hexdigest().encode()
    with pytest.raises(StoreError, match=r"does not hold a thing .*recursion"):
        decode_object(b'{\n  "seal": "' + checksum + rest, path, KIND, Thing)


def test_names_stay_below_their_folder(tmp_path: Path) -> None:
    assert inside(tmp_path, "a", "b") == tmp_path / "a" / "b"
    for name in ("..", "", ".", "a/b", "a\\b", "a\0"):
        with pytest.raises(StoreError, match="is no name of a file"):
            inside(tmp_path, name)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="is a symbolic link"):
        inside(tmp_path, "link", "b")
