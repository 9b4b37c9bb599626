"""Images from folders, zips and tars: listed, decoded to 8-bit RGB, labelled by folder, kept in the cache."""

from __future__ import annotations

import io
import os
import threading
import warnings
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from volta.core.cache import ArrayCache
from volta.core.errors import InputError, MissingDataError, VoltaError, parse_errors, reason
from volta.core.files import DEFAULT_LIMITS, Limits, hash_text, reserve_npy
from volta.core.types import Array
from volta.data.arrays import SPLIT_NAMES, SourceRows
from volta.data.download import OnProgress, check_zip, member_file, open_tar, tar_files
from volta.data.task import cache_folder

if TYPE_CHECKING:
    from PIL.Image import Image


EXTENSIONS = frozenset({".jpg", ".jpeg", ".jpe", ".png", ".webp", ".bmp", ".tif", ".tiff"})
_LARGE_PIXELS = 8_000_000
_LARGE = threading.Lock()
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF")
_SIXTEEN_TO_EIGHT_BITS = 257.0
_SIGNATURES = (
    (b"\xff\xd8", "JPEG"),
    (b"\x89PNG", "PNG, lossless"),
    (b"BM", "BMP, lossless"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
)

Pixels = NDArray[np.uint8]
Size = tuple[int, int]


class BadImageError(InputError):
    """The bytes are not an image that can be used."""


def decode(data: bytes, size: Size | None = None, max_pixels: int = DEFAULT_LIMITS.image_pixels) -> Pixels:
    """Return an encoded image as (height, width, 3) uint8 RGB.

    The EXIF rotation is applied. Grey becomes three equal channels; 16-bit grey is divided by 257; CMYK is converted;
    transparency is laid over white; of an animation the first frame counts. With ``size`` = (height, width) the
    image is scaled to cover it, bilinear with antialiasing, and cropped at the centre.
    """
    pillow = _pillow()
    from PIL import ImageOps

    with _decoding_errors(), pillow.open(io.BytesIO(data), formats=_FORMATS) as opened:
        n_pixels = opened.width * opened.height
        if n_pixels > max_pixels:
            raise BadImageError(f"it would decode to {opened.width}×{opened.height} pixels, more than {max_pixels:,}")
        # Converting takes several times the memory of the image; threads take turns at large ones.
        with _LARGE if n_pixels > _LARGE_PIXELS else nullcontext():
            opened.load()
            rgb = _to_rgb(ImageOps.exif_transpose(opened))
            if size is not None:
                height, width = size
                rgb = ImageOps.fit(rgb, (width, height), method=pillow.Resampling.BILINEAR)
            return np.asarray(rgb)


@contextmanager
def _decoding_errors() -> Iterator[None]:
    """Turn what Pillow raises into one error; its parsers raise far more kinds on damaged files than they list."""
    pillow = _pillow()
    try:
        yield
    except (VoltaError, KeyboardInterrupt, SystemExit):
        raise
    except pillow.DecompressionBombError as error:
        raise BadImageError(f"it would decode to too many pixels ({error})") from error
    except pillow.UnidentifiedImageError as error:
        raise BadImageError("its bytes are no JPEG, PNG, WebP, BMP or TIFF image") from error
    except MemoryError as error:
        raise BadImageError("it needs more memory than there is") from error
    except Exception as error:
        raise BadImageError(f"it cannot be decoded ({reason(error)})") from error


def encoding(data: bytes) -> str:
    """Return what kind of file an image's bytes are and, where the kind decides it, that no pixel was lost.

    ``JPEG``, ``PNG, lossless``, ``BMP, lossless``, ``TIFF``, ``WebP`` or ``WebP, lossless``.
    """
    for start, name in _SIGNATURES:
        if data.startswith(start):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP, lossless" if _is_lossless_webp(data) else "WebP"
    return "unknown kind"


@contextmanager
def pillow_warnings_off() -> Iterator[None]:
    """Keep Pillow from warning of large images, odd EXIF data and palettes: :func:`decode` checks the result itself.

    Warning filters belong to the process, so this stands around the threads that decode, not inside them.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.simplefilter("ignore", _pillow().DecompressionBombWarning)
        yield


def _is_lossless_webp(data: bytes) -> bool:
    """Walk the file's chunks to its pixels, which lie in a VP8L chunk where they are lossless, else in a VP8 one."""
    position = 12
    while position + 8 <= len(data):
        chunk = data[position : position + 4]
        if chunk in (b"VP8L", b"VP8 "):
            return chunk == b"VP8L"
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        position += 8 + size + size % 2
    return False


def _to_rgb(image: Image) -> Image:
    pillow = _pillow()
    if image.mode.startswith("I;16") or image.mode == "I":
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise BadImageError(f"its grey values run from {values.min()} to {values.max()}; expected 16 bits at most")
        grey = np.round(values / _SIXTEEN_TO_EIGHT_BITS).astype(np.uint8)
        converted: Image = pillow.fromarray(grey).convert("RGB")
        return converted
    if image.mode == "F":
        raise BadImageError("its values are floating-point; save it with 8 or 16 bits a channel")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = pillow.new("RGBA", layer.size, "white")
        flat: Image = pillow.alpha_composite(white, layer).convert("RGB")
        return flat
    return image.convert("RGB")


def _pillow() -> ModuleType:
    try:
        from PIL import Image as pillow  # noqa: N813
    except ImportError as error:
        raise MissingDataError("reading images needs Pillow, which is not installed: pip install pillow") from error
    return pillow


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
    fingerprint: str
    """Hash of names, sizes and checksums (zip), or of names, sizes and times: equal fingerprints mean equal images."""
    n_bytes: int
    limits: Limits = DEFAULT_LIMITS

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Walk the named files with their bytes, in the source's order."""
        wanted = set(names)
        if self.source.is_dir():
            for name in sorted(wanted):
                with parse_errors(self.source / name, "cannot be read"):
                    data = (self.source / name).read_bytes()
                yield name, data
        elif zipfile.is_zipfile(self.source):
            with parse_errors(self.source, "is not a whole zip archive"), zipfile.ZipFile(self.source) as archive:
                for info in archive.infolist():
                    if info.filename in wanted:
                        yield info.filename, _read_zip_member(archive, info)
        else:
            with open_tar(self.source) as tar:
                for member in tar_files(tar, self.source, self.limits):
                    if member.name in wanted:
                        with member_file(tar, member) as file:
                            yield member.name, file.read()


@dataclass(frozen=True, eq=False)
class Decoded:
    """Decoded images: ``rows`` are the positions that were decoded, ``bad`` says what is wrong with each other file.

    ``encodings`` counts the decoded files by :func:`~volta.data.images.encoding`.
    """

    array: Array
    rows: list[int]
    bad: Mapping[str, str]
    encodings: Mapping[str, int]


def list_images(source: Path, limits: Limits = DEFAULT_LIMITS) -> ImageFiles:
    """List the images of a folder, a zip or a tar; hidden files and macOS resource forks are passed over."""
    if source.is_dir():
        with parse_errors(source, "cannot be read"):
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
        return _listed(source, marks, size, limits)
    members: dict[str, str] = {}
    try:
        with open_tar(source) as tar:
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


def _listed(source: Path, entries: Mapping[str, str], n_bytes: int, limits: Limits) -> ImageFiles:
    seen = {name: mark for name, mark in entries.items() if not _hidden(name)}
    names = tuple(name for name in seen if os.path.splitext(name)[1].lower() in EXTENSIONS)
    ignored = tuple(sorted(set(seen) - set(names)))
    fingerprint = hash_text("\n".join(f"{name}:{seen[name]}" for name in sorted(names)))
    return ImageFiles(source, names, ignored, fingerprint, n_bytes, limits)


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
            attempt = partial(_try_decode, size=size, limits=limits)
            images = _decode_in_threads(pool, attempt, batch, n_threads) if heavy else map(attempt, batch)
            for (name, data), image in zip(batch, images, strict=True):
                if isinstance(image, str):
                    bad[name] = image
                    continue
                encodings[encoding(data)] += 1
                if array is None:
                    first = name
                    shape = (len(names), 3, *image.shape[:2])
                    array = np.zeros(shape, np.uint8) if into is None else reserve_npy(into, np.dtype(np.uint8), shape)
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
    """Return the text "2 images cannot be used: a/b.jpg: reason; …"."""
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


def _decode_in_threads(
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
        with parse_errors(info.filename, "cannot be unpacked"):
            return archive.read(info)
    except InputError:
        # An empty answer fails to decode, and is listed by name with the other bad images.
        return b""


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


class DecodeOptions(TypedDict, total=False):
    """How images are decoded; see :func:`~volta.data.images.decode_all`, which has the defaults."""

    size: Size | None
    skip_bad: bool
    progress: OnProgress | None


_VERSION = 2


def decoded_images(files: ImageFiles, names: Sequence[str]) -> tuple[Array, str]:
    """Return the named images as (n, 3, h, w) uint8 and how their files hold them, from the cache if they are there.

    The key is the names and the source's fingerprint; a cache that cannot be written is done without.
    """
    cache = ArrayCache(cache_folder() / "decoded")
    if not cache.writable:
        decoded = decode_all(files, names)
        return decoded.array, describe_encodings(decoded.encodings)
    parts = {"what": "decoded images", "decoder": _VERSION, "source": files.fingerprint, "names": list(names)}

    def write(path: Path) -> Mapping[str, Any]:
        decoded = decode_all(files, names, into=path)
        if isinstance(decoded.array, np.memmap):
            decoded.array.flush()
        return {"encodings": dict(decoded.encodings), "names": len(names)}

    found = cache.obtain(parts, write)
    return found.array, describe_encodings(found.meta["encodings"])


def describe_encodings(encodings: Mapping[str, int]) -> str:
    """Return in words how files hold their pixels: "re-encoded (JPEG)", "losslessly encoded (WebP)".

    ``encodings`` counts files by :func:`~volta.data.images.encoding`.
    """
    words: Counter[str] = Counter()
    for name, count in encodings.items():
        kind, _, how = name.partition(", ")
        words[f"losslessly encoded ({kind})" if how == "lossless" else f"re-encoded ({kind})"] += count
    return " and ".join(text for text, _ in words.most_common()) or "no images"


@dataclass(frozen=True)
class Placed:
    """Where an image belongs: split (``all`` if the source names none), class and path in the source."""

    split: str
    label: str
    path: str


def place_images(files: ImageFiles) -> list[Placed]:
    """Read split and class of each image from its path, sorted by split and path.

    A folder that wraps everything is passed through. Images must lie in a class folder; deeper folders belong to the
    class.
    """
    if not files.names:
        raise InputError(
            f"{files.source} holds no images; expected train/<class>/*.jpg (or png, webp) or <class>/*.jpg"
        )
    depth = _wrappers(files.names)
    placed = []
    for name in files.names:
        parts = PurePosixPath(name).parts[depth:]
        split = SPLIT_NAMES.get(parts[0].lower()) if len(parts) > 2 else None
        if split is None and len(parts) == 2 and parts[0].lower() in SPLIT_NAMES:
            raise InputError(f"{files.source}: {name} lies in no class folder; expected {parts[0]}/<class>/{parts[1]}")
        if len(parts) < 2:
            raise InputError(f"{files.source}: {name} lies in no class folder; expected <class>/{parts[-1]}")
        placed.append(Placed(split or "all", parts[1] if split else parts[0], name))
    _check_mixture(files.source, placed)
    return sorted(placed, key=lambda item: (item.split, item.path))


def label_image_folder(source: Path, limits: Limits = DEFAULT_LIMITS) -> dict[str, SourceRows]:
    """Return each split's labels from the paths alone, without inputs: enough to see whether a task can be made."""
    placed = place_images(list_images(source, limits))
    parts = {}
    for split in dict.fromkeys(item.split for item in placed):
        labels = np.array([item.label for item in placed if item.split == split])
        parts[split] = SourceRows(np.empty((len(labels), 0)), labels, np.arange(len(labels)))
    return parts


def read_image_folder(
    source: Path, *, scratch: Path | None = None, limits: Limits = DEFAULT_LIMITS, **options: Unpack[DecodeOptions]
) -> tuple[dict[str, SourceRows], list[str]]:
    """Return the labelled rows of each split of an image folder, zip or tar, and notes on what was passed over.

    Rows are in sorted-path order within a split. With ``scratch`` the pixels are memory-mapped files in that folder.
    """
    files = list_images(source, limits)
    placed = place_images(files)
    found = decode_all(files, [item.path for item in placed], into=_pixels_file(scratch), **options)
    kept = np.asarray(found.rows)
    splits = np.array([placed[row].split for row in found.rows])
    labels = np.array([placed[row].label for row in found.rows])
    parts = {}
    for split in dict.fromkeys(splits.tolist()):
        where = splits == split
        parts[split] = SourceRows(found.array, labels[where], kept[where])
    notes = [f"left out {name}: {reason}" for name, reason in sorted(found.bad.items())]
    notes += [f"not an image, passed over: {name}" for name in files.ignored]
    return parts, notes


def read_unlabelled_images(
    source: Path, *, scratch: Path | None = None, limits: Limits = DEFAULT_LIMITS, **options: Unpack[DecodeOptions]
) -> tuple[SourceRows, list[str]]:
    """Return the images of a source without labels, whatever its folders: its ``test`` split if it has one, else all.

    Rows are sorted by file name, then path, so that numbered files keep their numbering across class folders.
    """
    files = list_images(source, limits)
    if not files.names:
        raise InputError(f"{source} holds no images; expected jpg, png or webp files")
    depth = _wrappers(files.names)
    names: Iterable[str] = [
        name for name in files.names if SPLIT_NAMES.get(PurePosixPath(name).parts[depth].lower()) == "test"
    ]
    ordered = sorted(names or files.names, key=lambda name: (PurePosixPath(name).name, name))
    found = decode_all(files, ordered, into=_pixels_file(scratch), **options)
    return SourceRows(found.array, None, np.asarray(found.rows)), [
        f"left out {name}: {reason}" for name, reason in sorted(found.bad.items())
    ]


def _pixels_file(scratch: Path | None) -> Path | None:
    return scratch / "pixels.npy" if scratch else None


def _wrappers(names: Iterable[str]) -> int:
    """Return how many leading folders all paths share that are neither a split nor the only class level."""
    paths = [PurePosixPath(name).parts for name in names]
    depth = 0
    while True:
        heads = {parts[depth] for parts in paths}
        shortest = min(len(parts) for parts in paths) - depth
        if len(heads) > 1 or shortest < 3 or next(iter(heads)).lower() in SPLIT_NAMES:
            return depth
        depth += 1


def _check_mixture(source: Path, placed: list[Placed]) -> None:
    splits = {item.split for item in placed}
    if "all" in splits and len(splits) > 1:
        stray = next(item.path for item in placed if item.split == "all")
        named = ", ".join(sorted(splits - {"all"}))
        raise InputError(
            f"{source}: {stray} lies next to the split folders ({named}); put every class folder in a split folder"
        )
