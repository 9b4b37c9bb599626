"""Image files in a folder, a zip or a tar, listed by path and read one after another."""

from __future__ import annotations

import os
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from volta.core.errors import InputError, MissingDataError
from volta.core.files import hash_text, reserve_npy
from volta.core.foreign import reading
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.types import Array
from volta.data.download.transfer import OnProgress
from volta.data.download.unpack import check_utf8, check_zip, member_file, open_tar, tar_files
from volta.data.formats.image_decoding import (
    EXTENSIONS,
    BadImageError,
    Pixels,
    Size,
    decode,
    encoding,
    pillow_warnings_off,
    pixel_size,
)

_BATCH = 512
_BATCH_BYTES = 1 << 23
_PROBED = 8
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
    n_bytes: int
    limits: Limits = DEFAULT_LIMITS

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Walk the named files with their bytes, in the source's own order."""
        wanted = set(names)
        if self.source.is_dir():
            for name in sorted(wanted):
                with reading(self.source / name, "cannot be read"):
                    data = (self.source / name).read_bytes()
                yield name, data
        elif zipfile.is_zipfile(self.source):
            with reading(self.source, "is not a whole zip archive"), zipfile.ZipFile(self.source) as archive:
                for info in archive.infolist():
                    if info.filename in wanted:
                        yield info.filename, _read_zip_member(archive, info)
        else:
            with open_tar(self.source, self.limits) as tar:
                for member in tar_files(tar, self.source, self.limits):
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


def list_images(source: Path, limits: Limits = DEFAULT_LIMITS) -> ImageFiles:
    """List the images of a folder, a zip or a tar; hidden files and macOS resource forks are passed over."""
    if source.is_dir():
        with reading(source, "cannot be read"):
            found = list(_walk(source))
        n_bytes = sum(size for _, size, _ in found)
        return _listed(source, {name: f"{size}/{time}" for name, size, time in found}, n_bytes, limits)
    if not source.is_file():
        raise MissingDataError(f"{source} does not exist; name an image folder, or a zip or tar of one")
    status = source.stat()
    return _list_archive(source, status.st_size, status.st_mtime_ns, limits)


@lru_cache(maxsize=4)
def _list_archive(source: Path, size: int, time: int, limits: Limits) -> ImageFiles:
    """List an archive; one that has not changed is listed once, however many of its splits are read."""
    if zipfile.is_zipfile(source):
        marks = {info.filename: f"{info.file_size}/{info.CRC}" for info in check_zip(source, limits)}
        listed = _listed(source, marks, size, limits)
        _check_names(source, listed.ignored)
        return listed
    members: dict[str, str] = {}
    try:
        with open_tar(source, limits) as tar:
            for member in tar_files(tar, source, limits):
                if member.name in members:
                    raise InputError(f"{source} is refused: it holds {member.name!r} twice")
                members[member.name] = f"{member.size}/{size}/{time}"
    except InputError as error:
        if members or error.__cause__ is None:
            raise
        raise InputError(
            f"{source} is neither a folder nor a whole zip or tar archive; name an image folder or an archive of one"
        ) from error
    return _listed(source, members, size, limits)


def _check_names(source: Path, names: Sequence[str]) -> None:
    """Refuse a zip whose directory and files disagree on these names: a damaged name must not hide an image."""
    with reading(source, "is not a whole zip archive", "fetch it again"), zipfile.ZipFile(source) as archive:
        for name in names:
            archive.open(name).close()


def _listed(source: Path, entries: Mapping[str, str], n_bytes: int, limits: Limits) -> ImageFiles:
    for name in entries:
        check_utf8(name, source)
    seen = {name: mark for name, mark in entries.items() if not _hidden(name)}
    names = tuple(name for name in seen if os.path.splitext(name)[1].lower() in EXTENSIONS)
    ignored = tuple(sorted(set(seen) - set(names)))
    stamp = hash_text("\n".join(f"{name}:{seen[name]}" for name in sorted(names)))
    return ImageFiles(source, names, ignored, stamp, n_bytes, limits)


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
    limits = files.limits
    position = {name: index for index, name in enumerate(names)}
    array: Array | None = None
    bad: dict[str, str] = {}
    encodings: Counter[str] = Counter()
    first = ""
    done = 0
    n_threads = min(8, os.cpu_count() or 1)
    with pillow_warnings_off(), ThreadPoolExecutor(n_threads) as pool:
        for batch in _batches(files.read(names)):
            heavy = sum(len(data) for _, data in batch) > _THREADS_PAY_BYTES * len(batch)
            if array is None and size is None:
                _check_decoded(files, len(names), batch, limits)
            attempt = partial(_try_decode, size=size, limits=limits)
            images = _side_by_side(pool, attempt, batch, n_threads) if heavy else map(attempt, batch)
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


def _check_decoded(files: ImageFiles, n_images: int, batch: list[tuple[str, bytes]], limits: Limits) -> None:
    """Refuse images that would fill the disk, by the headers of the first few: nothing is decoded yet."""
    sizes = [found for _, data in batch[:_PROBED] if (found := pixel_size(data)) is not None]
    if sizes:
        total = 3 * n_images * max(height * width for height, width in sizes)
        limits.check_volume(files.source, total, files.n_bytes, "decode")


def _side_by_side(
    pool: ThreadPoolExecutor,
    attempt: Callable[[tuple[str, bytes]], Pixels | str],
    batch: list[tuple[str, bytes]],
    ahead: int,
) -> Iterator[Pixels | str]:
    """Decode in threads, in order, at most ``ahead`` images before the one that is asked for: each may be large."""
    running: deque[Future[Pixels | str]] = deque()
    for item in batch:
        running.append(pool.submit(attempt, item))
        if len(running) > ahead:
            yield running.popleft().result()
    while running:
        yield running.popleft().result()


def _try_decode(item: tuple[str, bytes], size: Size | None, limits: Limits) -> Pixels | str:
    try:
        return decode(item[1], size, limits.image_pixels)
    except BadImageError as error:
        return str(error)


def _read_zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    try:
        with reading(info.filename, "cannot be unpacked"):
            return archive.read(info)
    except InputError:
        # An empty answer fails to decode, and is listed by name with the other bad images.
        return b""


def _allocate(shape: tuple[int, ...], into: Path | None) -> Array:
    if into is None:
        return np.zeros(shape, np.uint8)
    return reserve_npy(into, np.dtype(np.uint8), shape)


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
