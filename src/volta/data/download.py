"""Official files: where they lie, downloads that resume, archives unpacked safely."""

from __future__ import annotations

import hashlib
import http.client
import re
import shutil
import stat
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeAlias, cast

from volta.core.errors import InputError, MissingDataError, StoreError, parse_errors
from volta.core.files import DEFAULT_LIMITS, Limits, hash_file, remove_temp_files, sync_folder, temp_folder, write_json

OnProgress: TypeAlias = Callable[[str, int, int], None]
"""Called as ``progress(file_name, bytes_done, bytes_in_all)``."""

_CHUNK_BYTES = 1 << 16
_HASH_CHUNK_BYTES = 1 << 22
_NUMBER = "[0-9]{1,18}"
_PASSING = frozenset({408, 416, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Checksum:
    """A digest in hex and the algorithm that made it."""

    algorithm: str
    digest: str

    def of(self, path: Path) -> str:
        """Return the digest of a file under this algorithm."""
        digest = hashlib.new(self.algorithm, usedforsecurity=False)
        with path.open("rb") as file:
            while chunk := file.read(_HASH_CHUNK_BYTES):
                digest.update(chunk)
        return digest.hexdigest()


class _CutError(Exception):
    """The transfer stopped; the same address may give the rest."""


class _UselessError(Exception):
    """The address does not give the file."""


def download(
    urls: Sequence[str],
    target: Path,
    *,
    size: int,
    checksum: Checksum,
    progress: OnProgress | None = None,
    timeout: float = 30.0,
    attempts: int = 3,
    pause: float = 1.0,
) -> Path:
    """Bring a file to ``target`` from the first of ``urls`` that gives exactly the expected bytes.

    Bytes that arrived are kept in ``TARGET.part``, so a broken transfer resumes where it stopped, in this call, in a
    later one, or from another mirror. An address is left after ``attempts`` tries in a row without new bytes,
    at once if it answers with an error or with another file. ``target`` appears only when size and hash are right.
    """
    if target.is_file() and not mismatch(target, size, checksum):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    from filelock import FileLock

    part = target.with_name(f"{target.name}.part")
    with FileLock(target.with_name(f".{target.name}.lock")):
        if target.is_file() and not mismatch(target, size, checksum):
            return target
        failures = []
        for url in urls:
            try:
                _fetch(url, part, size, checksum, progress, timeout, attempts, pause)
            except _UselessError as error:
                failures.append(f"{url}: {error}")
                continue
            part.replace(target)
            sync_folder(target.parent)
            return target
    kept = f"; {part.stat().st_size:,} bytes are kept, run it again to resume" if part.is_file() else ""
    raise MissingDataError(
        f"{target.name} could not be downloaded ({'; '.join(failures)}){kept}\n"
        f"fetch it by other means ({size:,} bytes, {checksum.algorithm} {checksum.digest}) and put it at {target}"
    )


def mismatch(path: Path, size: int, checksum: Checksum) -> str:
    """Return what is wrong with a file's size or hash, or an empty text."""
    actual = path.stat().st_size
    if actual != size:
        return f"it has {actual:,} bytes, expected {size:,}"
    digest = checksum.of(path)
    if digest != checksum.digest:
        return f"its {checksum.algorithm} is {digest}, expected {checksum.digest}"
    return ""


def _fetch(
    url: str,
    part: Path,
    size: int,
    checksum: Checksum,
    progress: OnProgress | None,
    timeout: float,
    attempts: int,
    pause: float,
) -> None:
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise _UselessError("only http and https addresses are followed")
    fruitless = 0
    resumed = _length(part) > 0
    while True:
        before = _length(part)
        try:
            _transfer(url, part, size, progress, timeout)
        except _CutError as error:
            fruitless = 0 if _length(part) > before else fruitless + 1
            if fruitless >= attempts:
                raise _UselessError(str(error)) from error
            time.sleep(pause * 2**fruitless)
            resumed = True
            continue
        except _UselessError:
            if _length(part) == size:
                part.unlink()
            raise
        problem = mismatch(part, size, checksum)
        if not problem:
            return
        part.unlink()
        if not resumed:
            raise _UselessError(problem)
        # The kept bytes may be of another file; a full transfer shows whether they are.
        resumed = False


def _transfer(url: str, part: Path, size: int, progress: OnProgress | None, timeout: float) -> None:
    have = _length(part)
    if have > size:
        part.unlink()
        have = 0
    if have == size:
        return
    if shutil.disk_usage(part.parent).free < size - have:
        raise StoreError(
            f"{part.parent} has too little space for {size - have:,} more bytes; free some or name another --data"
        )
    headers = {"User-Agent": "volta-uq", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)
            if error.code in _PASSING:
                raise _CutError(f"HTTP {error.code} {error.reason}") from error
            raise _UselessError(f"HTTP {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(str(getattr(error, "reason", error)) or type(error).__name__) from error
    except ValueError as error:
        # A redirect may name an address that is none.
        raise _UselessError(f"it answers with an address that cannot be followed ({error})") from error
    with response:
        start = _start(response, have, size)
        with part.open("ab" if start else "wb") as file:
            _copy(response, file, start, size, lambda done: progress and progress(part.stem, done, size))


def _start(response: Any, have: int, size: int) -> int:
    """Return the offset at which the answer's bytes begin, having checked the size of the file they are of."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        found = re.fullmatch(rf"bytes ({_NUMBER})-{_NUMBER}/({_NUMBER}|\*)", response.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != have:
            raise _UselessError("it answers a range request with another range")
        whole = found[2]
    else:
        have, whole = 0, response.headers.get("Content-Length") or "*"
    if whole != "*" and not re.fullmatch(_NUMBER, whole):
        raise _UselessError(f"it sends a file of {whole[:40]!r} bytes, which is no number")
    if whole != "*" and int(whole) != size:
        raise _UselessError(f"it sends a file of {int(whole):,} bytes, expected {size:,}")
    return have


def _copy(response: Any, file: IO[bytes], start: int, size: int, report: Callable[[int], object]) -> None:
    done = start
    report(done)
    while done < size:
        try:
            chunk = response.read(min(_CHUNK_BYTES, size - done))
        except http.client.IncompleteRead as error:
            chunk = error.partial
        except (OSError, http.client.HTTPException) as error:
            raise _CutError(f"connection lost after {done:,} of {size:,} bytes ({error})") from error
        if not chunk:
            raise _CutError(f"connection closed after {done:,} of {size:,} bytes")
        try:
            file.write(chunk)
        except OSError as error:
            raise StoreError(f"{file.name} cannot be written: {error.strerror or error}") from error
        done += len(chunk)
        report(done)
    if response.read(1):
        raise _UselessError(f"it sends more than the expected {size:,} bytes")


def _length(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


@dataclass(frozen=True)
class Archive:
    """One official file: ``urls`` are tried in turn; a tar unpacks to ``folder``; a file read in place has none.

    ``stand_ins`` are the zips of images that are read where the file itself is not there.
    """

    name: str
    title: str
    file: str
    urls: tuple[str, ...]
    size: int
    checksum: Checksum
    licence: str
    home: str
    folder: str = ""
    stand_ins: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """What to say is missing."""
        return f"{self.folder}/ (from {self.file})" if self.folder else self.file

    def place(self, root: Path) -> Path:
        """Where the usable form lies under ``root``: the unpacked folder, or the file itself."""
        return root / (self.folder or self.file)


RECORD = "volta-source.json"
_CHUNK_BYTES = 1 << 20


def safe_name(name: str, archive: Path) -> PurePosixPath:
    """Return a member's path, or refuse one that is absolute, climbs with ``..`` or is no plain path."""
    path = PurePosixPath(name)
    unsafe = path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or re.match(r"[A-Za-z]:", name)
    if unsafe:
        raise InputError(f"{archive} is refused: its member {name!r} would leave the folder it is unpacked into")
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        # How Python reads names that are not UTF-8, as other systems write them.
        raise InputError(f"{archive} has a member {name!r} whose name is not UTF-8; pack it again with UTF-8 names")
    return path


def unpack_tar(archive: Path, root: Path, folder: str, origin: dict[str, str], limits: Limits = DEFAULT_LIMITS) -> Path:
    """Unpack ``archive``, whose files must lie in ``folder/``, to ``root/folder``; it appears complete or not at all.

    Beside the files goes a record of ``origin`` and of each file's size and SHA-256, so that they can be verified
    later.
    """
    target = root / folder
    remove_temp_files(root)
    with temp_folder(root) as temporary:
        files = {}
        with open_tar(archive) as tar:
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
def open_tar(archive: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar, plain or compressed; whatever is wrong with its bytes becomes one clear error."""
    with parse_errors(archive, "is not a whole tar archive", "fetch it again"):
        try:
            with tarfile.open(archive, "r:*") as tar:
                yield tar
        except FileExistsError as error:
            raise InputError(f"{archive} is refused: it holds {error.filename} twice") from error


def tar_files(tar: tarfile.TarFile, archive: Path, limits: Limits) -> Iterator[tarfile.TarInfo]:
    """Walk a tar's regular files in order; links, devices and too much data are refused before they are read.

    After the last file the archive is read to its end: only there does a compressed one hold its checksum, and a
    damaged header, which Python takes for the end, is seen by the files that follow it.
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
        total += member.size
        limits.check_volume(archive, total, packed)
        yield member
    _read_to_end(tar, archive, limits, total)


def _read_to_end(tar: tarfile.TarFile, archive: Path, limits: Limits, total: int) -> None:
    packed = archive.stat().st_size
    source = cast(IO[bytes], tar.fileobj)
    while chunk := source.read(_CHUNK_BYTES):
        if chunk.strip(b"\0"):
            raise tarfile.ReadError("more follows the mark of its end, so files may be missing")
        total += len(chunk)
        limits.check_volume(archive, total, packed)
    if source.tell() % tarfile.BLOCKSIZE:
        raise tarfile.ReadError("it is cut off")


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
    with parse_errors(archive, problem, "fetch it again"), zipfile.ZipFile(archive) as opened:
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


def _check_count(archive: Path, count: int, limits: Limits) -> None:
    if count > limits.n_members:
        raise InputError(f"{archive} is refused: it holds more than {limits.n_members:,} files (--limit n_members=...)")


RESNET18_WEIGHTS = Archive(
    "resnet18",
    "torchvision's ResNet-18 weights, ImageNet-1k",
    "resnet18-f37072fd.pth",
    ("https://download.pytorch.org/models/resnet18-f37072fd.pth",),
    46_830_571,
    Checksum("sha256", "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"),
    "BSD-3-Clause; trained on ImageNet",
    "https://pytorch.org/vision/stable/models.html",
)

WEIGHTS: tuple[Archive, ...] = (RESNET18_WEIGHTS,)
