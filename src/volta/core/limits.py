"""What a file that somebody else wrote may hold or cost at most, judged before memory or disk is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from volta.core.errors import InputError


@dataclass(frozen=True)
class Limits:
    """Limits on files from elsewhere; ``--limit NAME=VALUE`` changes one.

    Parameters
    ----------
    n_members
        Files in an archive.
    total_bytes
        Bytes that one file may become when it is unpacked or decoded.
    ratio, free_bytes
        Beyond ``free_bytes``, unpacked or decoded bytes may be ``ratio`` times the file's own at most: no small file
        becomes a huge one.
    header_bytes
        Bytes of a name or description inside a file: a tar's extended headers, an array's header.
    image_pixels
        Pixels of one image.
    n_classes
        Classes of a task, and hence class numbers in a feature file.
    parser_seconds, parser_bytes
        Wall-clock time and memory of a parser that runs in a process of its own.
    isolate_images
        Whether images are decoded in such a process too (1 or 0).
    """

    n_members: int = 5_000_000
    total_bytes: int = 1 << 40
    ratio: float = 100.0
    free_bytes: int = 1 << 28
    header_bytes: int = 1 << 20
    image_pixels: int = 80_000_000
    n_classes: int = 100_000
    parser_seconds: float = 120.0
    parser_bytes: int = 4 << 30
    isolate_images: bool = False

    def check_volume(self, path: Path, total: int, packed: int, what: str = "unpack") -> None:
        """Refuse a file of ``packed`` bytes that would become ``total`` bytes."""
        if total > self.total_bytes or (total > self.free_bytes and total > self.ratio * packed):
            raise InputError(
                f"{path} is refused: {packed:,} bytes would {what} to {total:,} or more, as a zip bomb does; "
                f"if it is sound, raise the limit: --limit ratio={total // max(1, packed) + 1}"
            )


DEFAULT_LIMITS = Limits()


def parse_limits(texts: Sequence[str], base: Limits = DEFAULT_LIMITS) -> Limits:
    """Return limits with those changed that ``texts`` name, each NAME=VALUE.

    >>> parse_limits(["ratio=1000", "n_members=10"]).n_members
    10
    """
    kinds = {field.name: type(getattr(base, field.name)) for field in fields(base)}
    values: dict[str, int | float | bool] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in kinds:
            raise InputError(f"--limit is {text!r}; pass NAME=VALUE with one of {', '.join(kinds)}")
        try:
            number = float(value)
            # A bool is 1 or 0; a count may be written as 1e9.
            values[name] = kinds[name](int(number) if kinds[name] is not float else number)
        except (ValueError, OverflowError) as error:
            raise InputError(f"--limit is {text!r}; {name} needs a number, as in {name}=1e9") from error
        if not number >= 0:
            raise InputError(f"--limit is {text!r}; a limit is not below 0")
    return replace(base, **values)  # type: ignore[arg-type]
