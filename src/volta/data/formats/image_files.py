"""Image files in a folder, a zip or a tar, listed by path and read one after another."""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from volta.core.errors import InputError, MissingDataError
from volta.core.files import hash_text
from volta.core.types import Array
from volta.data.download.transfer import OnProgress
from volta.data.download.unpack import Limits, check_zip, member_file, open_tar, tar_files
from volta.data.formats.image_decoding import (
    EXTENSIONS,
    BadImageError,
    Pixels,
    Size,
    decode,
    encoding,
    pillow_warnings_off,
)

_BATCH = 512
_BATCH_BYTES = 1 << 23
_SHOWN = 10
_THREADS_PAY_BYTES = 1 << 14


@dataclass(frozen=True)
class ImageFiles:
    """The image files of one source, in the order they lie in it, and the other files, which were passed over."""

    source: Path
    names: tuple[str, ...]
    ignored: tuple[str, ...]
    stamp: str
    """Hash of names, sizes and checksums (zip), or of names, sizes and times: equal stamps mean equal images."""

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Walk the named files with their bytes, in the source's own order."""
        wanted = set(names)
        if self.source.is_dir():
            for name in sorted(wanted):
                yield name, (self.source / name).read_bytes()
        elif zipfile.is_zipfile(self.source):
            with zipfile.ZipFile(self.source) as archive:
                for info in archive.infolist():
                    if info.filename in wanted:
                        yield info.filename, _read_zip_member(archive, info)
        else:
            with open_tar(self.source) as tar:
                for member in tar_files(tar, self.source, Limits()):
                    if member.name in wanted:
                        with member_file(tar, member) as file:
                            yield member.name, file.read()


@dataclass(frozen=True, eq=False)
class Decoded:
    """Decoded images: ``rows`` are the positions that were decoded, ``bad`` says what is wrong with each other file.

    ``encodings`` counts the decoded files by :func:`~volta.data.formats.image_decoding.encoding`.
    """

    array: Array
    rows: list[int]
    bad: Mapping[str, str]
    encodings: Mapping[str, int]


def list_images(source: Path) -> ImageFiles:
    """List the images of a folder, a zip or a tar; hidden files and macOS resource forks are passed over."""
    if source.is_dir():
        return _listed(source, {name: f"{size}/{time}" for name, size, time in _walk(source)})
    if not source.is_file():
        raise MissingDataError(f"{source} does not exist; name an image folder, or a zip or tar of one")
    status = source.stat()
    return _list_archive(source, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4)
def _list_archive(source: Path, size: int, time: int) -> ImageFiles:
    """List an archive; one that has not changed is listed once, however many of its splits are read."""
    if zipfile.is_zipfile(source):
        return _listed(source, {info.filename: f"{info.file_size}/{info.CRC}" for info in check_zip(source)})
    if tarfile.is_tarfile(source):
        with open_tar(source) as tar:
            members = {member.name: f"{member.size}/{size}/{time}" for member in tar_files(tar, source, Limits())}
        return _listed(source, members)
    raise InputError(
        f"{source} is neither a folder nor a whole zip or tar archive; name an image folder or an archive of one"
    )


def _listed(source: Path, entries: Mapping[str, str]) -> ImageFiles:
    seen = {name: mark for name, mark in entries.items() if not _hidden(name)}
    names = tuple(name for name in seen if os.path.splitext(name)[1].lower() in EXTENSIONS)
    ignored = tuple(sorted(set(seen) - set(names)))
    return ImageFiles(source, names, ignored, hash_text("\n".join(f"{name}:{seen[name]}" for name in sorted(names))))


def decode_all(
    files: ImageFiles,
    names: Sequence[str],
    *,
    size: Size | None = None,
    skip_bad: bool = False,
    into: Path | None = None,
    progress: OnProgress | None = None,
) -> Decoded:
    """Decode the named images to one (n, 3, h, w) uint8 array in the order of ``names``.

    Without ``skip_bad`` any bad image is an error that lists them all, and so are mixed sizes without ``size``. With
    ``into`` the array is a memory map of that file. ``progress`` is called as ``progress(source_name, images_done,
    images_in_all)``.
    """
    position = {name: index for index, name in enumerate(names)}
    array: Array | None = None
    bad: dict[str, str] = {}
    encodings: Counter[str] = Counter()
    first = ""
    done = 0
    with pillow_warnings_off(), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for batch in _batches(files.read(names)):
            heavy = sum(len(data) for _, data in batch) > _THREADS_PAY_BYTES * len(batch)
            images = (pool.map if heavy else map)(lambda item: _try_decode(item[1], size), batch)
            for (name, data), image in zip(batch, images, strict=True):
                if isinstance(image, str):
                    bad[name] = image
                    continue
                encodings[encoding(data)] += 1
                if array is None:
                    first = name
                    array = _allocate((len(names), 3, *image.shape[:2]), into)
                if image.shape[:2] != array.shape[2:]:
                    raise InputError(
                        f"images have mixed sizes: {first} is {_shown(array.shape[2:])}, "
                        f"{name} is {_shown(image.shape[:2])}; "
                        "give one size to scale them to (--image-size 224)"
                    )
                array[position[name]] = image.transpose(2, 0, 1)
            done += len(batch)
            if progress:
                progress(files.source.name, done, len(names))
    if bad and not skip_bad:
        raise InputError(
            f"{files.source}: {describe_bad(bad)}; mend or remove them, or pass --skip-bad to leave them out"
        )
    if array is None:
        raise InputError(f"{files.source} holds no image that can be decoded; expected jpg, png or webp files")
    rows = [index for index, name in enumerate(names) if name not in bad]
    return Decoded(array, rows, bad, encodings)


def describe_bad(bad: Mapping[str, str]) -> str:
    """Return «2 images cannot be used: a/b.jpg: reason; …»."""
    listed = "; ".join(f"{name}: {reason}" for name, reason in sorted(bad.items())[:_SHOWN])
    more = f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    return f"{len(bad)} image{'s' if len(bad) > 1 else ''} cannot be used: {listed}{more}"


def _batches(files: Iterator[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    """Group files so that the images of one group fit in memory together, however large each is."""
    batch: list[tuple[str, bytes]] = []
    n_bytes = 0
    for item in files:
        batch.append(item)
        n_bytes += len(item[1])
        if len(batch) == _BATCH or n_bytes > _BATCH_BYTES:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


def _try_decode(data: bytes, size: Size | None) -> Pixels | str:
    try:
        return decode(data, size)
    except BadImageError as error:
        return str(error)


def _read_zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    try:
        return archive.read(info)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
        # An empty answer fails to decode, and is listed by name with the other bad images.
        return b""


def _allocate(shape: tuple[int, ...], into: Path | None) -> Array:
    if into is None:
        return np.zeros(shape, np.uint8)
    return np.lib.format.open_memmap(into, mode="w+", dtype=np.uint8, shape=shape)


def _walk(folder: Path) -> Iterator[tuple[str, int, int]]:
    visited = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = Path(place).resolve()
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        folders.sort()
        for name in sorted(names):
            path = Path(place) / name
            if path.is_file():
                status = path.stat()
                yield path.relative_to(folder).as_posix(), status.st_size, status.st_mtime_ns


def _hidden(name: str) -> bool:
    parts = name.split("/")
    return (
        any(part.startswith(".") and part != "." for part in parts) or "__MACOSX" in parts or parts[-1] == "Thumbs.db"
    )


def _shown(shape: tuple[int, ...]) -> str:
    return "×".join(str(side) for side in shape)
