"""One encoded image → 8-bit RGB, the same way for every mode a camera or an editor may have written."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError, MissingDataError

if TYPE_CHECKING:
    from PIL.Image import Image

EXTENSIONS = frozenset({".jpg", ".jpeg", ".jpe", ".png", ".webp", ".bmp", ".tif", ".tiff"})
MAX_PIXELS = 80_000_000
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF")
_SIXTEEN_TO_EIGHT_BITS = 257.0

Pixels = NDArray[np.uint8]
Size = tuple[int, int]


class BadImageError(InputError):
    """The bytes are not an image that can be used."""


def decode(data: bytes, size: Size | None = None) -> Pixels:
    """Return an encoded image as (height, width, 3) uint8 RGB.

    The EXIF rotation is applied. Grey becomes three equal channels; 16-bit grey is divided by 257; CMYK is converted;
    transparency is laid over white; of an animation the first frame counts. With ``size`` = (height, width) the
    image is scaled to cover it, bilinear with antialiasing, and cropped at the centre.
    """
    pillow = _pillow()
    from PIL import ImageOps

    try:
        with pillow.open(io.BytesIO(data), formats=_FORMATS) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise BadImageError(
                    f"it would decode to {opened.width}×{opened.height} pixels, more than {MAX_PIXELS:,}"
                )
            opened.load()
            rgb = _to_rgb(ImageOps.exif_transpose(opened))
    except pillow.DecompressionBombError as error:
        raise BadImageError(f"it would decode to too many pixels ({error})") from error
    except pillow.UnidentifiedImageError as error:
        raise BadImageError("its bytes are no JPEG, PNG, WebP, BMP or TIFF image") from error
    except (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
    ) as error:
        # Pillow's parsers raise all of these on damaged files.
        if isinstance(error, BadImageError):
            raise
        raise BadImageError(f"it cannot be decoded ({error})") from error
    if size is not None:
        height, width = size
        rgb = ImageOps.fit(rgb, (width, height), method=pillow.Resampling.BILINEAR)
    return np.asarray(rgb)


@contextmanager
def pillow_warnings_off() -> Iterator[None]:
    """Keep Pillow from warning of large images, odd EXIF data and palettes: :func:`decode` judges the result itself.

    Warning filters belong to the process, so this stands around the threads that decode, not inside them.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.simplefilter("ignore", _pillow().DecompressionBombWarning)
        yield


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
