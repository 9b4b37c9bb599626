from __future__ import annotations

import io
import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.data.genuine import tar, zipped
from volta.core.errors import InputError
from volta.core.files import Limits
from volta.data.download import RECORD, check_zip, unpack_tar
from volta.data.images import list_images


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def special(kind: bytes, name: str = "set/link", target: str = "/etc/passwd") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        archive.addfile(info)
    return buffer.getvalue()


@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz"])
def test_a_tar_unpacks_whole_with_a_record_of_its_files(root: Path, compression: str) -> None:
    archive = write(root / "set.tar", tar({"set/a.bin": b"abc", "set/deep/b.bin": b""}, compression))
    folder = unpack_tar(archive, root, "set", {"url": "http://x"})
    assert (folder / "a.bin").read_bytes() == b"abc"
    assert (folder / "deep/b.bin").read_bytes() == b""
    record = json.loads((folder / RECORD).read_text())
    assert record["url"] == "http://x"
    assert record["files"]["a.bin"]["size"] == 3
    assert sorted(path.name for path in root.iterdir()) == ["set", "set.tar"]


def test_a_tar_of_the_current_folder_unpacks(root: Path) -> None:
    (root / "set").mkdir()
    (root / "set" / "a").write_bytes(b"1")
    with tarfile.open(root / "set.tar", "w") as archive:
        archive.add(root / "set", "./set")
    shutil.rmtree(root / "set")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive, tarfile.open(root / "set.tar") as inner:
        folder = tarfile.TarInfo("./")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for member in inner:
            archive.addfile(member, inner.extractfile(member) if member.isreg() else None)
    unpack_tar(write(root / "set.tar", buffer.getvalue()), root, "set", {})
    assert (root / "set" / "a").read_bytes() == b"1"


def test_unpacking_again_replaces_the_folder(root: Path) -> None:
    unpack_tar(write(root / "set.tar", tar({"set/old": b"1"})), root, "set", {})
    unpack_tar(write(root / "set.tar", tar({"set/new": b"2"})), root, "set", {})
    assert sorted(path.name for path in (root / "set").iterdir()) == ["new", RECORD]


@pytest.mark.parametrize("name", ["../evil", "set/../../evil", "/etc/evil", "set/..\\evil", "C:evil"])
def test_paths_that_leave_the_folder_are_refused(root: Path, name: str) -> None:
    archive = write(root / "set.tar", tar({"set/good": b"1", name: b"2"}))
    with pytest.raises(InputError, match="would leave the folder"):
        unpack_tar(archive, root, "set", {})
    assert [path.name for path in root.iterdir()] == ["set.tar"]
    assert not (root.parent / "evil").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(root: Path, kind: bytes) -> None:
    with pytest.raises(InputError, match="is a link or a device"):
        unpack_tar(write(root / "set.tar", special(kind)), root, "set", {})


def test_files_beside_the_folder_twice_or_none_are_refused(root: Path) -> None:
    with pytest.raises(InputError, match="'other/a' is not in set/"):
        unpack_tar(write(root / "set.tar", tar({"other/a": b"1"})), root, "set", {})
    with pytest.raises(InputError, match="holds no files"):
        unpack_tar(write(root / "set.tar", tar({})), root, "set", {})
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("set/a"))
    with pytest.raises(InputError, match="twice"):
        unpack_tar(write(root / "set.tar", buffer.getvalue()), root, "set", {})


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", tar({"set/a": b"x" * 50_000}, "gz")[:-30]])
def test_what_is_no_whole_tar_is_said_to_be_none(root: Path, content: bytes) -> None:
    with pytest.raises(InputError, match="is not a whole tar archive"):
        unpack_tar(write(root / "set.tar", content), root, "set", {})
    assert not (root / "set").exists()


def test_a_plain_tar_cut_in_a_file_is_refused(root: Path) -> None:
    content = tar({"set/a": b"x" * 50_000})
    with pytest.raises(InputError, match="is not a whole tar archive"):
        unpack_tar(write(root / "set.tar", content[:20_000]), root, "set", {})


def test_tar_and_zip_bombs_are_refused_before_they_unpack(root: Path) -> None:
    small = Limits(free_bytes=1 << 16)
    bomb = {"set/a.png": bytes(1 << 20)}
    with pytest.raises(InputError, match="as a zip bomb does"):
        unpack_tar(write(root / "a.tar.gz", tar(bomb, "gz")), root, "set", {}, small)
    with pytest.raises(InputError, match="as a zip bomb does"):
        check_zip(write(root / "a.zip", zipped(bomb)), small)
    with pytest.raises(InputError, match="more than 1 files"):
        check_zip(write(root / "b.zip", zipped({"a": b"1", "b": b"2"})), Limits(n_members=1))


def test_a_real_zip_bomb_is_refused_under_the_usual_limits(root: Path) -> None:
    path = root / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a/b.png", "w") as member:
        for _ in range(300):
            member.write(bytes(1 << 20))
    with pytest.raises(InputError, match=r"would unpack to 314,572,800"):
        list_images(path)


def test_zips_with_bad_members_are_refused(root: Path) -> None:
    with pytest.raises(InputError, match="would leave the folder"):
        check_zip(write(root / "a.zip", zipped({"../evil.png": b"1"})))
    link = zipfile.ZipInfo("link.png")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(root / "b.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(InputError, match="is a link"):
        check_zip(root / "b.zip")
    locked = bytearray(zipped({"a.png": b"1"}))
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(InputError, match="is encrypted"):
        check_zip(write(root / "c.zip", bytes(locked)))
    with pytest.raises(InputError, match="is not a whole zip"):
        check_zip(write(root / "d.zip", zipped({"a.png": b"1" * 1000})[:-30]))
