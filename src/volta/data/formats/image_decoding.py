"""One encoded image → 8-bit RGB, the same way for every mode a camera or an editor may have written."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError, MissingDataError, VoltaError
from volta.core.foreign import reason
from volta.core.limits import DEFAULT_LIMITS

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

    with _judging(), pillow.open(io.BytesIO(data), formats=_FORMATS) as opened:
        n_pixels = opened.width * opened.height
        if n_pixels > max_pixels:
            raise BadImageError(f"it would decode to {opened.width}×{opened.height} pixels, more than {max_pixels:,}")
        # Converting takes several times the image's own memory; threads take turns at large ones.
        with _LARGE if n_pixels > _LARGE_PIXELS else nullcontext():
            opened.load()
            rgb = _to_rgb(ImageOps.exif_transpose(opened))
            if size is not None:
                height, width = size
                rgb = ImageOps.fit(rgb, (width, height), method=pillow.Resampling.BILINEAR)
            return np.asarray(rgb)


def pixel_size(data: bytes) -> Size | None:
    """Return (height, width) as an image's header has them, or None if it has no such header; nothing is decoded."""
    try:
        with _judging(), _pillow().open(io.BytesIO(data), formats=_FORMATS) as opened:
            return opened.height, opened.width
    except BadImageError:
        return None


@contextmanager
def _judging() -> Iterator[None]:
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
    """Keep Pillow from warning of large images, odd EXIF data and palettes: :func:`decode` judges the result itself.

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
