"""Archives opened with suspicion: no path leaves its folder, no link is followed, no small file becomes a huge one."""

from __future__ import annotations

import lzma
import re
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from volta.core.errors import InputError
from volta.core.files import hash_file, sync_folder, write_json

RECORD = "volta-source.json"


@dataclass(frozen=True)
class Limits:
    """What an archive may hold at most: ``ratio`` bounds unpacked against packed bytes once past ``free_bytes``."""

    n_members: int = 5_000_000
    total_bytes: int = 1 << 40
    ratio: float = 100.0
    free_bytes: int = 1 << 28


def safe_name(name: str, archive: Path) -> PurePosixPath:
    """Return a member's path, or refuse one that is absolute, climbs with ``..`` or is no plain path."""
    path = PurePosixPath(name)
    unsafe = path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or re.match(r"[A-Za-z]:", name)
    if unsafe:
        raise InputError(f"{archive} is refused: its member {name!r} would leave the folder it is unpacked into")
    return path


def unpack_tar(archive: Path, root: Path, folder: str, origin: dict[str, str], limits: Limits | None = None) -> Path:
    """Unpack ``archive``, whose files must lie in ``folder/``, to ``root/folder``; it appears whole or not at all.

    Beside the files goes a record of ``origin`` and of each file's size and SHA-256, so that they can be verified
    later.
    """
    target = root / folder
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder}.", suffix=".part", dir=root))
    try:
        files = {}
        with open_tar(archive) as tar:
            for member in tar_files(tar, archive, limits or Limits()):
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
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


@contextmanager
def open_tar(archive: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar, plain or compressed; whatever is wrong with its bytes becomes one clear error."""
    try:
        with tarfile.open(archive, "r:*") as tar:
            yield tar
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{archive} is not a whole tar archive: {error}; fetch it again") from error
    except FileExistsError as error:
        raise InputError(f"{archive} is refused: it holds {error.filename} twice") from error
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise InputError(f"{archive} is not a whole tar archive: {error}; fetch it again") from error
        raise


def tar_files(tar: tarfile.TarFile, archive: Path, limits: Limits) -> Iterator[tarfile.TarInfo]:
    """Walk a tar's regular files in order; links, devices and too much data are refused before they are read."""
    packed = archive.stat().st_size
    total = 0
    for count, member in enumerate(tar, 1):
        safe_name(member.name, archive)
        if member.isdir():
            continue
        if not member.isreg():
            raise InputError(f"{archive} is refused: its member {member.name!r} is a link or a device, not a file")
        total += member.size
        _check_volume(archive, count, total, packed, limits)
        yield member


def member_file(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    """Return a regular member opened for reading."""
    file = tar.extractfile(member)
    if file is None:
        raise InputError(f"member {member.name!r} of {tar.name!s} cannot be read; fetch the archive again")
    return file


def check_zip(archive: Path, limits: Limits | None = None) -> list[zipfile.ZipInfo]:
    """Return a zip's files, having refused unsafe paths, links, encryption and bombs from its directory alone."""
    limits = limits or Limits()
    try:
        with zipfile.ZipFile(archive) as opened:
            infos = [info for info in opened.infolist() if not info.is_dir()]
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as error:
        raise InputError(f"{archive} is not a whole zip archive: {error}; fetch it again") from error
    total = 0
    packed = archive.stat().st_size
    for count, info in enumerate(infos, 1):
        safe_name(info.filename, archive)
        if stat.S_ISLNK(info.external_attr >> 16):
            raise InputError(f"{archive} is refused: its member {info.filename!r} is a link, not a file")
        if info.flag_bits & 0x1:
            raise InputError(f"{archive} is refused: its member {info.filename!r} is encrypted; unpack it first")
        total += info.file_size
        _check_volume(archive, count, total, packed, limits)
    return infos


def _check_volume(archive: Path, count: int, total: int, packed: int, limits: Limits) -> None:
    if count > limits.n_members:
        raise InputError(f"{archive} is refused: it holds more than {limits.n_members:,} files")
    if total > limits.total_bytes or (total > limits.free_bytes and total > limits.ratio * packed):
        raise InputError(
            f"{archive} is refused: {packed:,} bytes would unpack to {total:,} or more, as a zip bomb does; "
            "if it is sound, unpack it by hand and pass the folder"
        )
