"""Archives opened with suspicion: no path leaves its folder, no link is followed, no small file becomes a huge one."""

from __future__ import annotations

import re
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Self, cast

from volta.core.errors import InputError
from volta.core.files import hash_file, sync_folder, write_json
from volta.core.foreign import reading
from volta.core.leftovers import part_folder, sweep
from volta.core.limits import DEFAULT_LIMITS, Limits

RECORD = "volta-source.json"
_CHUNK_BYTES = 1 << 20
_END_BYTES = (1 << 16) + 64
_EXTENSIONS = frozenset(
    {
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    }
)


def safe_name(name: str, archive: Path) -> PurePosixPath:
    """Return a member's path, or refuse one that is absolute, climbs with ``..`` or is no plain path."""
    path = PurePosixPath(name)
    unsafe = path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or re.match(r"[A-Za-z]:", name)
    if unsafe:
        raise InputError(f"{archive} is refused: its member {name!r} would leave the folder it is unpacked into")
    check_utf8(name, archive)
    return path


def check_utf8(name: str, source: Path) -> None:
    """Refuse a file's name that is not UTF-8: Python gives it characters that cannot be written again."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"{source} holds a file {name!r}, whose name is not UTF-8; rename it") from None


def unpack_tar(archive: Path, root: Path, folder: str, origin: dict[str, str], limits: Limits = DEFAULT_LIMITS) -> Path:
    """Unpack ``archive``, whose files must lie in ``folder/``, to ``root/folder``; it appears whole or not at all.

    Beside the files goes a record of ``origin`` and of each file's size and SHA-256, so that they can be verified
    later.
    """
    target = root / folder
    sweep(root)
    with part_folder(root) as temporary:
        files = {}
        with open_tar(archive, limits) as tar:
            for member in tar_files(tar, archive, limits):
                path = safe_name(member.name, archive)
                if path.parts[:1] != (folder,) or len(path.parts) == 1:
                    raise InputError(f"{archive} is refused: its member {member.name!r} is not in {folder}/")
                inside = str(PurePosixPath(*path.parts[1:]))
                place = temporary / inside
                place.parent.mkdir(parents=True, exist_ok=True)
                with member_file(tar, member) as source, place.open("xb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
                files[inside] = {"size": member.size, "sha256": hash_file(place)}
        if not files:
            raise InputError(f"{archive} holds no files; expected {folder}/")
        write_json(temporary / RECORD, {**origin, "archive": archive.name, "files": files})
        temporary.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
        sync_folder(root)
    return target


@contextmanager
def open_tar(archive: Path, limits: Limits = DEFAULT_LIMITS) -> Iterator[tarfile.TarFile]:
    """Open a tar, plain or compressed; whatever is wrong with its bytes becomes one clear error."""
    with reading(archive, "is not a whole tar archive", "fetch it again"):
        try:
            with tarfile.open(archive, "r:*", tarinfo=_strict_headers(archive, limits)) as tar:
                yield tar
        except FileExistsError as error:
            raise InputError(f"{archive} is refused: it holds {error.filename} twice") from error


def tar_files(tar: tarfile.TarFile, archive: Path, limits: Limits) -> Iterator[tarfile.TarInfo]:
    """Walk a tar's regular files in order; links, devices and too much data are refused before they are read.

    After the last file the archive is read to its end: only there does a compressed one hold its checksum.
    """
    packed = archive.stat().st_size
    total = 0
    for count, member in enumerate(tar, 1):
        safe_name(member.name, archive)
        # Python keeps every header it has seen; what was walked is not needed again.
        tar.members = []  # type: ignore[attr-defined]
        _check_count(archive, count, limits)
        limits.check_volume(archive, tar.offset, packed)
        if member.isdir():
            continue
        if not member.isreg():
            raise InputError(f"{archive} is refused: its member {member.name!r} is a link or a device, not a file")
        if member.size < 0:
            raise InputError(f"{archive} is refused: its member {member.name!r} has {member.size} bytes")
        total += member.size
        limits.check_volume(archive, total, packed)
        yield member
    _read_to_end(tar, archive, limits, total)


def _read_to_end(tar: tarfile.TarFile, archive: Path, limits: Limits, total: int) -> None:
    packed = archive.stat().st_size
    source = cast(IO[bytes], tar.fileobj)
    while chunk := source.read(_CHUNK_BYTES):
        if chunk.strip(b"\0"):
            raise InputError(
                f"{archive} is refused: more follows the mark of its end, so files may be missing; fetch it again"
            )
        total += len(chunk)
        limits.check_volume(archive, total, packed)


def _strict_headers(archive: Path, limits: Limits) -> type[tarfile.TarInfo]:
    """Return the kind of header to read: Python takes a damaged one for the archive's end, this one refuses it."""

    class Header(tarfile.TarInfo):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> Self:
            if buf.count(0) == len(buf) == tarfile.BLOCKSIZE:
                return super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]
            try:
                header = super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]
            except tarfile.HeaderError as error:
                raise tarfile.ReadError(f"a header of it is damaged or missing: {error}") from error
            if header.size < 0 or (header.type in _EXTENSIONS and header.size > limits.header_bytes):
                raise InputError(
                    f"{archive} is refused: a header in it has {header.size:,} bytes, "
                    f"the limit is {limits.header_bytes:,} (--limit header_bytes=...)"
                )
            return header

    return Header


def member_file(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    """Return a regular member opened for reading."""
    file = tar.extractfile(member)
    if file is None:
        raise InputError(f"member {member.name!r} of {tar.name!s} cannot be read; fetch the archive again")
    return file


def check_zip(
    archive: Path, limits: Limits = DEFAULT_LIMITS, problem: str = "is not a whole zip archive"
) -> list[zipfile.ZipInfo]:
    """Return a zip's files, having refused unsafe paths, links, encryption and bombs from its directory alone."""
    with reading(archive, problem, "fetch it again"), zipfile.ZipFile(archive) as opened:
        _check_directory(archive, len(opened.infolist()))
        for info in opened.infolist():
            _check_entry(info)
        infos = [info for info in opened.infolist() if not info.is_dir()]
    total = 0
    packed = archive.stat().st_size
    seen = set()
    for count, info in enumerate(infos, 1):
        safe_name(info.filename, archive)
        if info.filename in seen:
            raise InputError(f"{archive} is refused: it holds {info.filename!r} twice")
        seen.add(info.filename)
        if stat.S_ISLNK(info.external_attr >> 16):
            raise InputError(f"{archive} is refused: its member {info.filename!r} is a link, not a file")
        if info.flag_bits & 0x1:
            raise InputError(f"{archive} is refused: its member {info.filename!r} is encrypted; unpack it first")
        total += info.file_size
        _check_count(archive, count, limits)
        limits.check_volume(archive, total, packed)
    return infos


def _check_directory(archive: Path, n_entries: int) -> None:
    """Refuse a zip whose directory has another number of entries than its end says; Python does not compare them."""
    with archive.open("rb") as file:
        file.seek(max(0, archive.stat().st_size - _END_BYTES))
        start, tail = file.tell(), file.read()
    at = tail.rfind(b"PK\5\6")
    # Beyond 65,535 entries the field holds that number, or what is left of the true one.
    stated = int.from_bytes(tail[at + 10 : at + 12], "little")
    if at < 0 or stated not in (min(n_entries, 0xFFFF), n_entries & 0xFFFF) or (n_entries == 0 and start + at > 0):
        raise zipfile.BadZipFile(f"its directory lists {n_entries} entries, but it holds others")


def _check_entry(info: zipfile.ZipInfo) -> None:
    """Refuse an entry whose damaged name would make a folder of a file: Python ends names at a zero byte."""
    if "\0" in info.orig_filename:
        raise zipfile.BadZipFile(f"the name {info.orig_filename!r} holds a zero byte")
    if info.is_dir() and info.file_size:
        raise zipfile.BadZipFile(f"{info.filename!r} is named like a folder, but holds {info.file_size:,} bytes")


def _check_count(archive: Path, count: int, limits: Limits) -> None:
    if count > limits.n_members:
        raise InputError(f"{archive} is refused: it holds more than {limits.n_members:,} files (--limit n_members=...)")
