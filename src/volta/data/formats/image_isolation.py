"""Images decoded in a process of its own, with limits on time and memory; slower to start, and nothing else differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from volta.core.contained import contained
from volta.core.limits import Limits
from volta.data.download.transfer import OnProgress
from volta.data.formats.image_decoding import Size
from volta.data.formats.image_files import Decoded, ImageFiles, decode_all, list_images

_SECONDS_AN_IMAGE = 0.1


class DecodeOptions(TypedDict, total=False):
    """How images are decoded; see :func:`~volta.data.formats.image_files.decode_all`, which has the defaults."""

    size: Size | None
    skip_bad: bool
    progress: OnProgress | None


def decode_images(
    files: ImageFiles, names: Sequence[str], *, into: Path | None = None, **options: Unpack[DecodeOptions]
) -> Decoded:
    """Decode as :func:`~volta.data.formats.image_files.decode_all` does, apart where the source's limits ask for it.

    Apart needs a file ``into`` which the array is written, and tells no progress.
    """
    if not files.limits.isolate_images or into is None:
        return decode_all(files, names, into=into, **options)
    job = {
        "source": str(files.source.resolve()),
        "names": list(names),
        "size": options.get("size"),
        "skip_bad": options.get("skip_bad", False),
        "into": str(into.resolve()),
        "limits": asdict(files.limits),
    }
    seconds = _SECONDS_AN_IMAGE * len(names)
    found = contained(f"{__name__}:decode_job", files.source, job, files.limits, seconds)
    array = np.load(into, mmap_mode="r+", allow_pickle=False)
    return Decoded(array, found["rows"], found["bad"], found["encodings"])


def decode_job(
    source: str, names: list[str], size: Size | None, skip_bad: bool, into: str, limits: Mapping[str, Any]
) -> dict[str, Any]:
    """Decode in this process; what :func:`decode_images` runs in another."""
    here = replace(Limits(**limits), isolate_images=False)
    files = list_images(Path(source), here)
    found = decode_all(files, names, size=size, skip_bad=skip_bad, into=Path(into))
    found.array.flush()  # type: ignore[attr-defined]
    return {"rows": found.rows, "bad": dict(found.bad), "encodings": dict(found.encodings)}
