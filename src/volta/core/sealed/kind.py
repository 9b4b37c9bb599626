"""What a sealed file is: its kind, its format's version, how large it may be, and what to do about a bad one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from volta.core.errors import StoreError
from volta.core.foreign import reason
from volta.core.json_fields import JsonFields

KIND_NAME, FORMAT = "file_kind", "file_format"
"""Under which names a file says of what kind and version it is."""


@dataclass(frozen=True)
class FileKind:
    """One kind of file of ours.

    ``name`` stands in the file and in errors; ``version`` grows when the format changes; ``remedy`` is what a reader is
    told to do about a file that cannot be used; ``max_bytes`` bounds what is read into memory.
    """

    name: str
    version: int
    remedy: str
    max_bytes: int = 1 << 26

    def refused(self, path: Path | str, why: str) -> StoreError:
        """Return the error for a file of this kind that cannot be used."""
        return StoreError(f"{path} {why}; {self.remedy}")

    @contextmanager
    def making(self, path: Path | str) -> Iterator[None]:
        """Turn whatever is raised while values are made of a file's content into the error for such a file.

        A seal tells damage, not who wrote the file: what a stranger's says may fit nothing of ours.
        """
        try:
            yield
        except StoreError:
            raise
        except (Exception, MemoryError) as error:
            raise self.refused(path, f"does not hold a {self.name} as we write them ({reason(error)})") from error

    def check(self, path: Path | str, stored: JsonFields) -> None:
        """Refuse a file that says it is of another kind or version."""
        name, version = stored.get(KIND_NAME), stored.get(FORMAT)
        if name != self.name:
            raise self.refused(path, f"is not a {self.name}, but says it is {_shown(name)}")
        if not isinstance(version, int) or isinstance(version, bool):
            raise self.refused(path, f"is not a {self.name}: its format is {_shown(version)}")
        if version > self.version:
            raise StoreError(
                f"{path} was written by a newer version of volta (format {version}, this one reads {self.version}); "
                "upgrade volta-uq"
            )
        if version < self.version:
            raise self.refused(
                path, f"was written by an older version of volta (format {version}, this one reads {self.version})"
            )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
